/* The models of a server, by name: loaded, counted by those who use them, exchanged when their file
 * changes.
 *
 *   slot "tags" --now--> model, version 3 (counted: 1 + requests that use it)
 *                        its desks: a context of one thread and predictors, one desk for each request
 *                        that is answered at a time
 *
 * A new file is loaded and verified beside the old one, predictors are made of it, and only then it
 * takes the place; requests that have begun end on the old one, which goes with the last of them. */
#ifndef WISP_SERVE_MODELS_H
#define WISP_SERVE_MODELS_H

#include "serve/request.h"
#include "wisp/wisp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

/* Labels that a predictor gives at most: more are asked of the next one. */
enum { N_LEVELS = 4 };
extern const size_t level_k[N_LEVELS];

struct desk {
    struct served *of;
    struct desk *next;
    wisp_context *ctx;
    wisp_predictor *p[2][2][N_LEVELS]; /* by inference, scores, level; NULL: not needed so far */
    int32_t *labels;
    float *scores;
    size_t room; /* of both */
};

struct served {
    atomic_int refs;
    struct slot *slot;
    wisp_model *m;
    long version;    /* from 1, by one more with each file */
    double loaded_s; /* when, and how long that took */
    double load_s;
    size_t bytes;    /* of its file */
    bool text;       /* reads text */
    size_t image[3]; /* channels, height, width; 0: reads no images */
    size_t units;    /* their product */
    bool sparse;     /* has an index */
    bool calibrated;
    double threshold;     /* the lowest that the model has for a label; 0: it has none */
    pthread_mutex_t lock; /* of the idle desks */
    struct desk *idle;
};

struct slot {
    char *name, *path;
    struct served *now; /* NULL: none yet */
    bool suspect;       /* its file was written to while it was in use */
    int fd; /* of the file that 'now' was loaded from: its inode is not given to another */
    struct stat file;  /* as that was then */
    struct stat tried; /* the last file that was looked at, good or bad */
    atomic_long n_loads, n_failed;
    atomic_ullong n_rows;
};

struct models {
    struct slot *slots;
    size_t n;
    pthread_mutex_t lock;   /* of 'now' and 'suspect' of all */
    wisp_config *cfg[2][2]; /* of predictors, by inference and scores */
    struct how how;         /* what requests do not say */
    void (*say)(const char *line);
};

/* paths: MODEL or NAME=MODEL; a name is otherwise that of the file. */
wisp_status models_open(struct models *s, const char *const *paths, size_t n,
                        const wisp_config *cfg, const struct how *how,
                        void (*say)(const char *line), wisp_error *err);
void models_close(struct models *s);
/* Looks at all files and takes over those that changed; all: whether they changed or not. */
void models_refresh(struct models *s, bool all);

struct slot *models_find(struct models *s, const char *name, size_t bytes);
/* The model of a slot, to be given back; NULL: it must not be used now. */
struct served *models_take(struct models *s, struct slot *slot);
void served_free(struct served *s); /* gives it back; NULL is fine */

/* A desk of this model, with a context of so many threads. */
wisp_status desk_make(struct desk **out, struct served *of, int threads, wisp_error *err);
void desk_free(struct desk *d);
struct desk *desk_take(struct served *s, wisp_error *err); /* of one thread; NULL: no memory */
void desk_put(struct desk *d);
/* The predictor for these settings, and its room for n rows. */
wisp_status desk_ready(wisp_predictor **p, struct desk *d, const struct models *s,
                       const struct how *how, int level, size_t n, wisp_error *err);

#endif
