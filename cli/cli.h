/* What the subcommands share: arguments, help, exit codes, speaking to a person. */
#ifndef WISP_CLI_H
#define WISP_CLI_H

#include "wisp/wisp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct args;
enum { N_WRITES = 3, MOST_FILES = 64 };

/* A subcommand: a row of the table in commands.c. */
struct command {
    const char *name;
    const char *usage;                /* after "wisp "; further forms on lines of their own */
    const char *what;                 /* one line */
    const char *out;                  /* what -o FILE receives; NULL: the command has no -o */
    int min, max;                     /* files it takes */
    int inputs;                       /* of which the first are read; the next one is written */
    const char *writes[N_WRITES];     /* what is written: added to -o, or to that file's name */
    int (*run)(const struct args *a); /* gives the exit code */
    const char *examples[4];          /* command lines; the first NULL ends them */
};
/* NULL past the end. */
const struct command *command_row(size_t i);
/* NULL: there is none of this name. */
const struct command *command_find(const char *name);
/* "; did you mean 'train'?" for a name that no command has, or "". */
const char *command_hint(const char *name);

enum help_wanted { NO_HELP, SHORT_HELP, ALL_HELP };

struct args { /* a command line, read */
    const struct command *command;
    wisp_config *cfg;
    const char *files[MOST_FILES]; /* what is not an option */
    int n_files;
    const char *out;       /* -o */
    enum help_wanted help; /* --help [all]: nothing else counts */
    int argc;              /* as it came, with the command first; */
    char **argv;
    int ends; /* where its options end: at "--", or behind the last */
};

/* Reads the options of a command (wisp_option_of) and its files.  Returns 0, or the exit code after
 * having said what is wrong. */
int args_read(struct args *a, const struct command *command, int argc, char **argv);
void args_clear(struct args *a);
const char *args_text(const struct args *a, const char *key);
int args_on(const struct args *a, const char *key);
/* Says what is wrong with a command line, and its usage; gives exit code 2. */
int usage_error(const struct command *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Are the files there that options name, and is none both read and written (files.c)?  0, or the
 * exit code after having said what is wrong. */
int files_check(const struct args *a);
/* The model that the first file is; where the second one is it, the error says so. */
wisp_status load_model(wisp_model **out, const struct args *a, wisp_error *err);
/* The same by several processes, of which each then has its share of the rows. */
wisp_status load_model_share(wisp_model **out, wisp_context *ctx, const struct args *a,
                             wisp_error *err);

/* Help (help.c), to stdout: of wisp, or of a command. */
void help_print(void);
void help_command(const struct command *c, enum help_wanted how);
/* "wisp help TOPIC [all]": a command, "man [COMMAND]" (a manual page), "bash", "zsh", "fish"
 * (completion).  The exit code. */
int help_topic(int argc, char **argv);
/* What stands for the value of an option: "N", "FILE", "auto|yes|no"; "" for a flag. */
const char *help_value(const wisp_option *o);
/* Its default, where that says more than its help does; else "". */
const char *help_default(const wisp_option *o);
/* Does the short help of the command show it? */
bool help_is_essential(const wisp_option *o, const struct command *c);
/* Made of the same tables: manual pages (man.c), completion (complete.c). */
void help_man(void);
void help_man_command(const struct command *c);
void help_bash(void);
void help_zsh(void);
void help_fish(void);

/* One line to stderr; what would move a terminal (control characters in paths and names) is
 * escaped. */
void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Writes text to a stream, control characters as \n, \t or \x1b. */
void put_safe(const char *s, size_t n, FILE *to);
/* The same as a JSON string, in quotes; what is no UTF-8 becomes U+FFFD. */
void put_json(const char *s, size_t n, FILE *to);

/* An error that the command itself has found; returns the code. */
wisp_status refuse(wisp_error *err, wisp_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Says err->text on stderr and gives the exit code of its status. */
int fail(const wisp_error *err);
int fail_of_rank(const wisp_error *err, int rank); /* of several: the first says what all know */
int exit_code(wisp_status st);

/* A context with the threads asked for, whose notices go to stderr unless --quiet. */
wisp_status open_context(wisp_context **out, const struct args *a, wisp_error *err);
/* The same for one of the processes that mpirun has started; rank 0 has notices. */
wisp_status join_context(wisp_context **out, const struct args *a, wisp_error *err);
/* Where --cards asks for several ranks and this is none of them: they take this process's place, and
 * it does not return (cards.c). */
wisp_status start_ranks(const struct args *a, const wisp_context *ctx, wisp_error *err);
/* A signal that asked to stop (signals.c), or 0; watch_signals starts the watch, and does nothing
 * when called again.  Before that they just end the command: heed_signals sees to it also
 * in the background of a script, where a shell has SIGINT ignored. */
int stop_signal(void);
/* A signal that ends a command has what is half written removed first. */
void tidy_on_signals(void);
void watch_signals(void);
void heed_signals(void);

/* Where training shows how it goes (progress.c). */
struct screen {
    const char *log_path; /* --log, "": none */
    FILE *log;
    int terminal; /* stderr is one, and may be moved on */
    int quiet;
    int rank;            /* of several; 0: the first, or the only one */
    struct watch *watch; /* --watch (serve/watch.h), NULL: none */
};
/* 0, or the exit code after having said what is wrong. */
int screen_open(struct screen *s, const struct args *a);
/* A live page of the run where --watch asks for one.  Of several ranks the first has it; they go on
 * without where it cannot be had. */
wisp_status screen_watch(struct screen *s, const struct args *a, const wisp_context *ctx,
                         wisp_error *err);
/* Once it is known who speaks. */
void screen_of(struct screen *s, const wisp_context *ctx);
/* A file to write, made anew unless 'append'.  It does not wait for a reader, which a pipe may
 * never have: NULL, and errno says why. */
FILE *open_write(const char *path, int append);
/* Fits wisp_on_progress; arg is the screen.  Asks to stop after a signal. */
/* Digits behind the point of a rate: small ones of large nets say something, too. */
static inline int rate_digits(double rate)
{
    return rate >= 100 ? 0 : rate >= 10 ? 1 : 2;
}
int screen_show(void *screen, const wisp_progress *p);
/* The same for runs that keep checkpoints.  The first call comes after the first batch: until then a
 * signal ends the command at once, however long reading, counting votes or making tables takes, as
 * there is nothing to save that is not on disk. */
int screen_train(void *screen, const wisp_progress *p);
/* Commands that train by several runs (training.c): wisp_tune, wisp_prune; what is said at the end, 'quiet' or not.  Gives
 * the exit code. */
typedef wisp_status trains(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                           const wisp_data *train, const wisp_data *valid, const char *path,
                           wisp_on_progress on_progress, void *arg, wisp_error *err);
typedef void tells(const struct args *a, const wisp_report *r);
int train_and_tell(const struct args *a, trains *run, tells *said);

/* The exit code of a command that ended with this status. */
int screen_close(struct screen *s, wisp_status st, const wisp_error *err);

int cmd_train(const struct args *a);
int cmd_tune(const struct args *a);
int cmd_prune(const struct args *a);
int cmd_eval(const struct args *a);
int cmd_predict(const struct args *a);
int cmd_explain(const struct args *a);
int cmd_threshold(const struct args *a);
int cmd_convert(const struct args *a);
int cmd_inject(const struct args *a);
int cmd_graph(const struct args *a);
int cmd_synth(const struct args *a);
int cmd_bench(const struct args *a);
int cmd_challenge(const struct args *a);
int cmd_inspect(const struct args *a);
int cmd_info(const struct args *a);
int cmd_serve(const struct args *a);
int cmd_report(const struct args *a);

#endif
