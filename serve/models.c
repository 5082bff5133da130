/* The models of a server, by name. */
#include "serve/models.h"
#include "serve/http.h"
#include "serve/part.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- one model ---- */

static const char *text_of(const json_t *about, const char *key)
{
    const char *s = json_string_value(json_object_get(about, key));
    return s ? s : "";
}

/* What it reads, as its file says. */
static void describe(struct served *s, const struct models *of)
{
    json_t *about = json_loads(wisp_model_describe(s->m), 0, NULL);
    s->text = strncmp(text_of(about, "input"), "words", 5) == 0;
    if (sscanf(text_of(about, "image"), "%zu x %zu x %zu", &s->image[0], &s->image[1],
               &s->image[2]) == 3)
        s->units = wisp_model_n_features(s->m);
    json_decref(about);
    s->sparse = wisp_predictor_check(s->m, of->cfg[1][0], NULL) == WISP_OK;
    for (size_t l = 0; l < wisp_model_n_labels(s->m); l++) {
        const double t = wisp_model_threshold(s->m, (int32_t)l);
        if (l == 0 || t < s->threshold) s->threshold = t;
    }
}

/* Makes the predictor that most requests will want, so that a model which cannot have it is refused
 * now, and the first request does not wait for it. */
static wisp_status try_out(struct served *s, const struct models *of, wisp_error *err)
{
    struct desk *d = desk_take(s, err);
    wisp_predictor *p;
    if (!d) return err->code;
    if (of->how.own && s->threshold == 0) {
        desk_put(d);
        return http_refuse(err, WISP_EINVAL,
                           "%.300s has no thresholds for --threshold model; 'wisp threshold MODEL "
                           "DATA -o MODEL2' chooses them",
                           s->slot->path);
    }
    const wisp_status st = desk_ready(&p, d, of, &of->how, 0, 1, err);
    if (st == WISP_OK) s->calibrated = wisp_predictor_calibrated(p);
    desk_put(d);
    return st;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static wisp_status load(struct served **out, struct slot *slot, const struct models *of,
                        wisp_error *err)
{
    struct served *s = calloc(1, sizeof *s);
    if (!s) return http_refuse(err, WISP_ENOMEM, "out of memory for a model");
    const int64_t begun = http_now_us();
    atomic_init(&s->refs, 1);
    pthread_mutex_init(&s->lock, NULL);
    s->slot = slot;
    s->loaded_s = now_s();
    wisp_status st = wisp_model_load(&s->m, slot->path, err);
    if (st == WISP_OK) {
        describe(s, of);
        st = try_out(s, of, err);
    }
    s->load_s = (double)(http_now_us() - begun) * 1e-6;
    if (st == WISP_OK) *out = s;
    else served_free(s);
    return st;
}

void served_free(struct served *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1) return;
    while (s->idle) {
        struct desk *d = s->idle;
        s->idle = d->next;
        desk_free(d);
    }
    wisp_model_free(s->m);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct served *models_take(struct models *s, struct slot *slot)
{
    pthread_mutex_lock(&s->lock);
    struct served *now = slot->suspect ? NULL : slot->now;
    if (now) atomic_fetch_add(&now->refs, 1);
    pthread_mutex_unlock(&s->lock);
    return now;
}

/* ---- files that change ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void say(const struct models *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct models *s, const char *fmt, ...)
{
    char line[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    s->say(line);
}

/* Loads the slot's file beside what is there, then exchanges the two. */
static wisp_status exchange(struct models *s, struct slot *slot, wisp_error *err)
{
    struct served *next = NULL;
    struct stat before, after;
    const int fd = open(slot->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &before) != 0) {
        if (fd >= 0) close(fd);
        return http_refuse(err, WISP_EIO, "%.300s: %s", slot->path, strerror(errno));
    }
    slot->tried = before; /* good or bad, it is not tried again until it changes */
    wisp_status st = load(&next, slot, s, err);
    /* Another file by that name is looked at the next time; this one must be what was verified. */
    if (st == WISP_OK && (fstat(fd, &after) != 0 || !same_file(&after, &before))) {
        st = http_refuse(err, WISP_EIO, "%.300s: was written to while it was read", slot->path);
        memset(&slot->tried, 0, sizeof slot->tried);
    }
    if (st != WISP_OK) {
        served_free(next);
        close(fd);
        slot->n_failed++;
        return st;
    }
    next->bytes = (size_t)before.st_size;
    next->version = ++slot->n_loads;
    pthread_mutex_lock(&s->lock);
    struct served *old = slot->now;
    slot->now = next;
    slot->suspect = false;
    pthread_mutex_unlock(&s->lock);
    if (old) close(slot->fd);
    slot->fd = fd;
    slot->file = before;
    served_free(old);
    return WISP_OK;
}

/* Was the file of the model in use written to?  Then what is mapped of it is no longer what was
 * verified. */
static void look_at_own(struct models *s, struct slot *slot)
{
    struct stat own;
    if (slot->suspect || fstat(slot->fd, &own) != 0 || same_file(&own, &slot->file)) return;
    pthread_mutex_lock(&s->lock);
    slot->suspect = true;
    pthread_mutex_unlock(&s->lock);
    say(s,
        "model     %s: %s was written to in place; its requests get 503 until it verifies (replace "
        "models by renaming, as wisp does)",
        slot->name, slot->path);
}

static void refresh(struct models *s, struct slot *slot, bool all)
{
    struct stat file;
    wisp_error err = { 0 };
    look_at_own(s, slot);
    if (stat(slot->path, &file) != 0) return; /* a file that is gone is no reason to stop */
    if (!all && same_file(&file, &slot->tried)) return;
    if (exchange(s, slot, &err) == WISP_OK)
        say(s, "model     %s: version %ld, loaded and verified in %.3f s", slot->name,
            slot->now->version, slot->now->load_s);
    else
        say(s, "model     %s: the new file is not taken, %s: %s", slot->name,
            slot->suspect ? "and the old one is gone" : "the old one stays", err.text);
}

void models_refresh(struct models *s, bool all)
{
    for (size_t i = 0; i < s->n; i++) refresh(s, &s->slots[i], all);
}

/* ---- all of them ---- */

/* NAME=PATH, or the name of the file without its ending. */
static bool name_slot(struct slot *slot, const char *given)
{
    const char *equals = strchr(given, '='), *slash = strrchr(given, '/');
    struct stat st;
    if (equals && (!slash || equals < slash || strchr(given, '/') > equals) &&
        stat(given, &st) != 0) {
        slot->name = strndup(given, (size_t)(equals - given));
        slot->path = strdup(equals + 1);
    } else {
        const char *base = slash ? slash + 1 : given, *dot = strrchr(base, '.');
        slot->name = strndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
        slot->path = strdup(given);
    }
    return slot->name && slot->path;
}

/* Names stand in paths of requests. */
static bool is_name(const char *s)
{
    const size_t n =
        strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+");
    return n > 0 && n <= 200 && s[n] == 0;
}

static wisp_status open_slot(struct models *s, size_t i, const char *given, wisp_error *err)
{
    struct slot *slot = &s->slots[i];
    if (!name_slot(slot, given)) return http_refuse(err, WISP_ENOMEM, "out of memory for a name");
    s->n = i + 1;
    if (!is_name(slot->name))
        return http_refuse(err, WISP_EINVAL,
                           "'%.200s' cannot name a model in requests: letters, digits, '.', '_', "
                           "'-', '+' can; give one as NAME=%.200s",
                           slot->name, slot->path);
    for (size_t k = 0; k < i; k++)
        if (strcmp(s->slots[k].name, slot->name) == 0)
            return http_refuse(err, WISP_EINVAL,
                               "two models are called '%.200s'; give one another name: NAME=%.200s",
                               slot->name, slot->path);
    const wisp_status st = exchange(s, slot, err);
    if (st == WISP_OK)
        say(s, "model     %s: %zu labels, %zu features, %s, %.1f MB, loaded and verified in %.3f s",
            slot->name, wisp_model_n_labels(slot->now->m), wisp_model_n_features(slot->now->m),
            slot->now->text    ? "text"
            : slot->now->units ? "images"
                               : "rows of features",
            (double)slot->now->bytes * 1e-6, slot->now->load_s);
    return st;
}

/* The settings of predictors: the server's, but for what a request may say. */
static wisp_status make_settings(struct models *s, const wisp_config *cfg, wisp_error *err)
{
    static const char *const inference[] = { "exact", "sparse" }, *const scores[] = { "calibrated",
                                                                                      "raw" };
    wisp_status st = WISP_OK;
    for (int i = 0; i < 4 && st == WISP_OK; i++) {
        wisp_config **c = &s->cfg[i / 2][i % 2];
        st = wisp_config_create(c, err);
        if (st == WISP_OK) st = wisp_config_set(*c, "inference", inference[i / 2], err);
        if (st == WISP_OK) st = wisp_config_set(*c, "scores", scores[i % 2], err);
        if (st == WISP_OK) st = wisp_config_set(*c, "device", wisp_config_get(cfg, "device"), err);
    }
    return st;
}

wisp_status models_open(struct models *s, const char *const *paths, size_t n,
                        const wisp_config *cfg, const struct how *how,
                        void (*say_line)(const char *line), wisp_error *err)
{
    *s = (struct models){ .say = say_line, .how = *how };
    pthread_mutex_init(&s->lock, NULL);
    s->slots = calloc(n, sizeof *s->slots);
    wisp_status st = s->slots ? make_settings(s, cfg, err)
                              : http_refuse(err, WISP_ENOMEM, "out of memory for models");
    for (size_t i = 0; i < n && st == WISP_OK; i++) st = open_slot(s, i, paths[i], err);
    return st;
}

void models_close(struct models *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->slots[i].now) close(s->slots[i].fd);
        served_free(s->slots[i].now);
        free(s->slots[i].name);
        free(s->slots[i].path);
    }
    for (int i = 0; i < 4; i++) wisp_config_free(s->cfg[i / 2][i % 2]);
    free(s->slots);
    pthread_mutex_destroy(&s->lock);
}

struct slot *models_find(struct models *s, const char *name, size_t bytes)
{
    if (bytes == 0) return &s->slots[0];
    for (size_t i = 0; i < s->n; i++)
        if (strlen(s->slots[i].name) == bytes && memcmp(s->slots[i].name, name, bytes) == 0)
            return &s->slots[i];
    return NULL;
}
