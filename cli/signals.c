/* Signals that ask a run to stop: it ends its batch, saves and exits with 128 + the signal.  Until
 * training has begun, and in all other commands, they end the process at once, but for what is half
 * written, which is removed first.
 *
 *   SIGINT, SIGTERM   a person, a scheduler
 *   SIGHUP            the terminal is gone
 *   SIGXCPU           the limit of processor time is reached (a second, hard limit kills)
 *   SIGPIPE           whoever read stderr is gone
 *
 * The last three stay ignored where they were when the command began (nohup).  SIGXFSZ, a file that
 * reached the limit of its size, is always ignored: the write fails as on a full disk, and that is
 * told. */
#include "cli.h"

#include <signal.h>
#include <stdbool.h>

static struct {
    int sig;
    bool always; /* heeded, whoever had it ignored: a shell does so to SIGINT in the background */
    bool ignored;
} asks[] = {
    { SIGINT, true, false },   { SIGTERM, true, false },  { SIGHUP, false, false },
    { SIGXCPU, false, false }, { SIGPIPE, false, false },
};
enum { N_ASKS = sizeof asks / sizeof *asks };

static volatile sig_atomic_t stopped;

static void set_signals(void (*fn)(int sig))
{
    struct sigaction sa = { .sa_handler = fn };
    for (int i = 0; i < N_ASKS; i++)
        if (!asks[i].ignored) sigaction(asks[i].sig, &sa, NULL);
}

/* A command that has nothing to save leaves nothing half written behind. */
static void end_here(int sig)
{
    wisp_abandon();
    signal(sig, SIG_DFL);
    raise(sig); /* it is delivered when this returns */
}

static void on_signal(int sig)
{
    stopped = sig;
    set_signals(end_here);                        /* a second one, of any kind, ends at once */
    if (sig == SIGPIPE) signal(SIGPIPE, SIG_IGN); /* what is still said must not */
}

int stop_signal(void)
{
    return stopped;
}

void tidy_on_signals(void)
{
    struct sigaction was, sa = { .sa_handler = end_here };
    for (int i = 0; i < N_ASKS; i++)
        if (sigaction(asks[i].sig, NULL, &was) == 0 && was.sa_handler == SIG_DFL)
            sigaction(asks[i].sig, &sa, NULL);
}

void heed_signals(void)
{
    for (int i = 0; i < N_ASKS; i++) {
        struct sigaction was;
        asks[i].ignored =
            !asks[i].always && sigaction(asks[i].sig, NULL, &was) == 0 && was.sa_handler == SIG_IGN;
    }
    set_signals(end_here);
}

void watch_signals(void)
{
    static bool watching;
    if (!watching) set_signals(on_signal);
    watching = true;
}
