/* Signals that ask a run to stop. */
#include "cli.h"

#include <signal.h>
#include <stdbool.h>

static volatile sig_atomic_t stopped;

static void set_signals(void (*fn)(int sig))
{
    struct sigaction sa = { .sa_handler = fn };
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

static void on_signal(int sig)
{
    stopped = sig;
    set_signals(SIG_DFL); /* a second one, of either kind, kills at once */
}

int stop_signal(void)
{
    return stopped;
}

void heed_signals(void)
{
    set_signals(SIG_DFL);
}

void watch_signals(void)
{
    static bool watching;
    if (!watching) set_signals(on_signal);
    watching = true;
}
