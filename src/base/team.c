/* Trials with fewer and more threads, and what becomes of them.  A sweep tries all candidates; it comes
 * again after a pause, so long that trials for nothing take a third of a percent, and at once when steps
 * become much slower.  The first one comes when a trial would be a small part of the run so far, and a
 * trial that is clearly worse is given up: with steps of a quarter of a second, a run of seconds would
 * else consist of trials. */
#include "base/team.h"

#include <stdbool.h>

static const double SPAN_S = 0.03, SHORTEST_PAUSE_S = 0.25, LONGEST_PAUSE_S = 8;
static const double FEWER_GAIN = 1.03, MORE_GAIN = 1.01; /* what a change must bring */
static const double FAR_BELOW = 0.85;                    /* of what is known: a neighbour came */
static const double LOST = 1. / 300;                     /* of the time, by trials for nothing */
static const double HOPELESS = 0.75; /* of the rate before a trial: it ends early */
enum {
    SPAN_BEATS = 4,
    FIRST_SPANS = 8 /* before the first sweep */,
    SLOW_SPANS = 2,
    CANDIDATES = 8
};

void wisp_team_init(struct wisp_team *t, int most)
{
    *t = (struct wisp_team){ .most = most,
                             .home = most,
                             .now = most,
                             .turn = CANDIDATES,
                             .wait = SHORTEST_PAUSE_S,
                             .pause = SHORTEST_PAUSE_S };
}

/* 1, 2, 4 threads fewer, half of them; 1, 2, 4 more, all.  0: there is no such number, or it had its
 * turn. */
static int candidate(const struct wisp_team *t, int turn)
{
    const int by[CANDIDATES] = { -1, -2, -4, -(t->home / 2), 1, 2, 4, t->most - t->home };
    const int n = t->home + by[turn];
    if (n < 1 || n > t->most || n == t->home) return 0;
    for (int i = 0; i < turn; i++)
        if (by[i] == by[turn]) return 0;
    return n;
}

static void begin_span(struct wisp_team *t, enum wisp_team_span span, int threads)
{
    t->span = span;
    t->now = threads;
    t->beats = 0;
    t->work = t->seconds = 0;
}

/* The next of a sweep that is in progress or due; else a span at home. */
static void go_on(struct wisp_team *t)
{
    const bool sweeps = t->turn < CANDIDATES || t->wait <= 0;
    if (t->turn == CANDIDATES && sweeps) t->turn = 0, t->lost = 0;
    while (t->turn < CANDIDATES)
        if ((t->trial = candidate(t, t->turn++))) {
            begin_span(t, WISP_TEAM_TRIAL, t->trial);
            return;
        }
    if (sweeps) {
        t->wait = t->lost / LOST > t->pause ? t->lost / LOST : t->pause;
        t->pause = 2 * t->pause < LONGEST_PAUSE_S ? 2 * t->pause : LONGEST_PAUSE_S;
    }
    begin_span(t, WISP_TEAM_HOME, t->home);
}

/* After a span at home of no trial. */
static void watch(struct wisp_team *t, double rate)
{
    const bool slow = t->known > 0 && rate < FAR_BELOW * t->known;
    t->slow = slow ? t->slow + 1 : 0;
    if (t->slow == SLOW_SPANS) {
        t->wait = t->slow = 0;
        t->pause = SHORTEST_PAUSE_S;
    } else if (slow) {
        return;
    }
    t->known = rate;
}

/* Both spans at home must be slower: that a neighbour went away between them is not the trial's
 * merit. */
static void judge(struct wisp_team *t, double after)
{
    const double gain = t->trial < t->home ? FEWER_GAIN : MORE_GAIN;
    const double home = t->before > after ? t->before : after;
    t->before = after;
    if (t->during <= gain * home) return;
    t->home = t->trial;
    t->before = t->known = t->during;
    t->turn = 0, t->lost = 0; /* on from there */
    t->pause = SHORTEST_PAUSE_S;
}

static void end_span(struct wisp_team *t)
{
    const double rate = t->work / t->seconds;
    switch (t->span) {
    case WISP_TEAM_TRIAL:
        t->during = rate;
        if (rate < t->before) t->lost += t->seconds * (1 - rate / t->before);
        begin_span(t, WISP_TEAM_AFTER, t->home);
        return;
    case WISP_TEAM_AFTER:
        judge(t, rate);
        break;
    case WISP_TEAM_HOME:
        if (t->known == 0 && t->wait < FIRST_SPANS * t->seconds) t->wait = FIRST_SPANS * t->seconds;
        watch(t, rate);
        t->before = rate;
        break;
    }
    go_on(t);
}

int wisp_team_beat(struct wisp_team *t, double work, double seconds)
{
    if (t->most < 2 || !(seconds > 0)) return t->now;
    t->wait -= seconds;
    if (t->beats++ == 0) return t->now;
    t->work += work;
    t->seconds += seconds;
    const bool hopeless = t->span == WISP_TEAM_TRIAL && t->work < HOPELESS * t->before * t->seconds;
    if ((t->beats > SPAN_BEATS || hopeless) && t->seconds >= SPAN_S) end_span(t);
    return t->now;
}
