/* What the subcommands share: arguments, exit codes, speaking to a person. */
#ifndef WISP_CLI_H
#define WISP_CLI_H

#include "wisp/wisp.h"

#include <stdio.h>

struct args { /* a command line, read */
    const char *command;
    wisp_config *cfg;
    const char *files[4]; /* what is not an option */
    int n_files;
    const char *out; /* -o */
};

/* Reads options of 'command' (those whose row in the option table names it) and between min
 * and max files.  Returns 0, or the exit code after having said what is wrong. */
int args_read(struct args *a, const char *command, int argc, char **argv, int min, int max,
              const char *usage);
void args_clear(struct args *a);
const char *args_text(const struct args *a, const char *key);
int args_on(const struct args *a, const char *key);

/* Says err->text on stderr and gives the exit code of its status. */
int fail(const wisp_error *err);
int exit_code(wisp_status st);

/* A context with the threads asked for, whose notices go to stderr. */
wisp_status open_context(wisp_context **out, const struct args *a, wisp_error *err);
/* The same for one of the processes that mpirun has started; rank 0 has notices. */
wisp_status join_context(wisp_context **out, const struct args *a, wisp_error *err);
/* A signal that asked to stop (SIGINT, SIGTERM), or 0; watch_signals starts the watch, and does
 * nothing when called again.  Before that they just end the command: heed_signals sees to it also
 * in the background of a script, where a shell has SIGINT ignored. */
int stop_signal(void);
void watch_signals(void);
void heed_signals(void);

/* Where training shows how it goes (progress.c). */
struct screen {
    const char *log_path; /* --log, "": none */
    FILE *log;
    int terminal;
};
/* 0, or the exit code after having said what is wrong. */
int screen_open(struct screen *s, const struct args *a);
/* Fits wisp_on_progress; arg is the screen.  Asks to stop after a signal. */
int screen_show(void *screen, const wisp_progress *p);
/* The exit code of a command that ended with this status. */
int screen_close(struct screen *s, wisp_status st, const wisp_error *err);

int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_challenge(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_info(int argc, char **argv);

#endif
