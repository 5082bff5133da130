/* How many of a pool's threads take part, so that those whose core a neighbour has taken are not
 * waited for.
 *
 * Every loop of a step ends when its last thread does, so one thread that runs half of the time makes
 * all others wait: with a core stolen, 16 threads on 16 cores may be slower than 8.  Nobody says which
 * cores are free, and a virtual machine does not even see what is taken from it.  So it is tried out:
 * for a moment a few threads fewer or more take part, between two moments with as many as before, and
 * what was faster stays.  Results do not depend on it: those of loops are the same for any number of
 * threads. */
#ifndef WISP_BASE_TEAM_H
#define WISP_BASE_TEAM_H

enum wisp_team_span { WISP_TEAM_HOME, WISP_TEAM_TRIAL, WISP_TEAM_AFTER };

struct wisp_team {
    int most, home;           /* threads there are; that take part but in trials */
    int now;                  /* that take part in the span in progress */
    enum wisp_team_span span; /* at home; in a trial; at home again, to compare */
    int beats;                /* of the span; the first does not count */
    double work, seconds;     /* of those that count */
    double before, during;    /* rates of the last span at home, of the trial */
    int trial, turn;          /* its threads; the next candidate of a sweep over all */
    double wait, pause;       /* seconds until the next sweep; the least of such waits */
    double lost;              /* seconds by the trials of a sweep */
    double known;             /* rate at home when it was last as expected; 0: not yet */
    int slow;                 /* spans in a row that were far below it */
};

void wisp_team_init(struct wisp_team *t, int most);
/* A piece of work, always of the same kind, was done in so many seconds.  Returns how many threads are
 * to take part in the next. */
int wisp_team_beat(struct wisp_team *t, double work, double seconds);

#endif
