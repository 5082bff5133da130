/* The runs of a joint training: the user's options with a few of their own, over the same held-out rows; and the
 * list of what was tried, PATH.tried, which a resumed run reads. */
#include "base/file.h"
#include "base/mem.h"
#include "base/report.h"
#include "base/text.h"
#include "model/joint.h"
#include "model/order.h"
#include "model/plan.h"
#include "model/state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { LINE = 1200 };

const char *const wisp_trial_figures[WISP_TRIAL_FIGURES] = { "samples_per_s", "epochs",
                                                             "active_mean", "scored_mean",
                                                             "retrieval_recall" };

struct wisp_trial *wisp_trials_add(struct wisp_trials *p, int group, const char *what)
{
    struct wisp_trial *t = &p->trial[p->n++];
    *t = (struct wisp_trial){ .group = group, .member = true };
    snprintf(t->what, sizeof t->what, "%s", what);
    if (p->planned < p->n) p->planned = p->n;
    return t;
}

void wisp_trial_set(struct wisp_trial *t, const char *key, const char *text)
{
    t->set[t->n_set].key = key;
    t->set[t->n_set++].text = text;
}

void wisp_trial_set_num(struct wisp_trial *t, const char *key, double value)
{
    wisp_print(t->set[t->n_set].number, sizeof t->set->number, "%.15g", value);
    wisp_trial_set(t, key, NULL);
}

static const char *value_of(const struct wisp_trial *t, int k)
{
    return t->set[k].text ? t->set[k].text : t->set[k].number;
}

void wisp_trials_path(char out[PATH_MAX], const struct wisp_trials *p, int i)
{
    snprintf(out, PATH_MAX, "%s.%d", p->path, i);
}

void wisp_trials_from(char out[PATH_MAX], const struct wisp_trials *p, int i)
{
    snprintf(out, PATH_MAX, "%s.from.%d", p->path, i);
}

/* ---- the list ---- */

static void usual_list(char out[PATH_MAX], const char *path)
{
    snprintf(out, PATH_MAX, "%s.tried", path);
}

static void list_path(char out[PATH_MAX], const struct wisp_trials *p)
{
    const char *given = wisp_opt_text(p->cfg, OPT_TRIED);
    if (*given) snprintf(out, PATH_MAX, "%s", given);
    else usual_list(out, p->path);
}

static const char BEGUN[] = ",\"begun\":true", WEIGHT[] = ",\"weight\":";

/* Names of nets and options have no character that JSON would have to escape. */
static void print_trial(char *out, size_t room, const struct wisp_trials *p, int i)
{
    const struct wisp_trial *t = &p->trial[i];
    size_t at = (size_t)wisp_print(out, room, "{\"trial\":%d,\"what\":\"%s\",\"member\":%s", i,
                                   t->what, t->member ? "true" : "false");
    for (int k = 0; k < t->n_set; k++)
        at += (size_t)wisp_print(out + at, room - at, ",\"%s\":\"%.60s\"", t->set[k].key,
                                 value_of(t, k));
    if (!t->done) at += (size_t)wisp_print(out + at, room - at, "%s", BEGUN);
    else
        at += (size_t)wisp_print(out + at, room - at,
                                 ",\"valid_p@1\":%.4f,\"valid_loss\":%.6f,\"seconds\":%.3f",
                                 t->valid, t->loss, t->seconds);
    if (p->whole)
        at += (size_t)wisp_print(out + at, room - at, "%s%.4f", WEIGHT, (double)t->weight);
    wisp_print(out + at, room - at, ",\"run\":\"%s\"}\n", p->run);
}

/* The next line of a trial, or NULL; *number: of which. */
static const char *any_line(const char **at, size_t *bytes, int *number)
{
    static const char begins[] = "{\"trial\":";
    while (**at) {
        const char *line = *at;
        *bytes = strcspn(line, "\n");
        *at += *bytes + (line[*bytes] == '\n');
        if (strncmp(line, begins, strlen(begins)) != 0 || line[*bytes] != '\n') continue;
        *number = (int)wisp_strtod(line + strlen(begins), NULL);
        return line;
    }
    return NULL;
}

static bool line_has(const char *line, size_t bytes, const char *text)
{
    const char *at = strstr(line, text);
    return at && at < line + bytes;
}

/* The next line of this run. */
static const char *next_line(const struct wisp_trials *p, const char **at, size_t *bytes,
                             int *number)
{
    const char *line;
    do line = any_line(at, bytes, number);
    while (line && !line_has(line, *bytes, p->run));
    return line;
}

/* A file as text; NULL: there is none, or it cannot be read. */
static char *text_of(const char *path)
{
    struct wisp_map m;
    if (access(path, F_OK) != 0 || wisp_map_open(&m, path, NULL) != WISP_OK) return NULL;
    char *text = wisp_zalloc(m.bytes + 1, 1);
    if (text && m.bytes) memcpy(text, m.p, m.bytes);
    wisp_map_close(&m);
    return text;
}

/* Only a run that has come to its end knows weights. */
static bool is_stopped(const char *list)
{
    size_t bytes;
    int number;
    const char *line;
    bool stopped = false;
    while (!stopped && (line = any_line(&list, &bytes, &number)))
        stopped = !line_has(line, bytes, WEIGHT);
    return stopped;
}

bool wisp_trials_left(char out[PATH_MAX], const char *path)
{
    usual_list(out, path);
    char *list = text_of(out);
    const bool left = list && is_stopped(list);
    wisp_free(list);
    return left;
}

static void remove_all(const char *path)
{
    static const char *const ends[] = { "", ".state", ".state.1" };
    char one[PATH_MAX];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(one, sizeof one, "%s%s", path, ends[i]);
        unlink(one);
        wisp_out_sweep(one);
    }
}

/* What the list of a stopped run names, and the list. */
static void forget(const char *name, const char *path)
{
    char one[PATH_MAX], *list = text_of(name);
    const char *at = list ? list : "";
    const bool stopped = is_stopped(at);
    size_t bytes;
    int number;
    while (stopped && any_line(&at, &bytes, &number)) {
        snprintf(one, sizeof one, "%s.%d", path, number);
        remove_all(one);
    }
    wisp_free(list);
    if (stopped) unlink(name);
}

void wisp_trials_forget(const char *path)
{
    char name[PATH_MAX];
    usual_list(name, path);
    forget(name, path);
}

void wisp_trials_name(struct wisp_trials *p, const char *options)
{
    uint64_t h = wisp_state_rows(p->train);
    h = XXH3_64bits_withSeed(options, strlen(options), h);
    snprintf(p->run, sizeof p->run, "%016llx", (unsigned long long)h);
}

wisp_status wisp_trials_recall(struct wisp_trials *p, wisp_error *err)
{
    char path[PATH_MAX];
    size_t bytes;
    int number;
    list_path(path, p);
    if (!wisp_opt_on(p->cfg, OPT_RESUME)) {
        forget(path, p->path); /* it starts anew: trials of a run before are in the way */
        return WISP_OK;
    }
    char *list = text_of(path);
    const char *at = list ? list : "";
    const bool ours = next_line(p, &at, &bytes, &number) != NULL;
    p->stopped = list && is_stopped(list);
    if (ours) p->before = list;
    else wisp_free(list);
    if (ours || !p->stopped) return WISP_OK;
    return wisp_fail_at(err, WISP_EMODEL, path, 0,
                        "belongs to another run of several models that was stopped; give its "
                        "options and rows to go on with it, or train without --resume to start "
                        "anew");
}

/* Lines of trials that an earlier part of this run has made, and that this one has not come to yet, stay.
 * The trial in progress has one, too: a run that is resumed must not put another in its place because
 * there is less time left. */
wisp_status wisp_trials_note(const struct wisp_trials *p, wisp_error *err)
{
    char path[PATH_MAX], line[LINE];
    struct wisp_out *o;
    list_path(path, p);
    wisp_status st = wisp_out_create(&o, path, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < p->n; i++) {
        if (!p->trial[i].done && i != p->now) continue;
        print_trial(line, sizeof line, p, i);
        wisp_out_write(o, line, strlen(line), NULL);
    }
    const char *at = p->before ? p->before : "", *old;
    size_t bytes;
    int number;
    while (!p->whole && (old = next_line(p, &at, &bytes, &number)))
        if (number >= p->n) wisp_out_write(o, old, bytes + 1, NULL);
    return wisp_out_commit(o, err);
}

/* The line of a trial in the list that an earlier part of this run has left; NULL: none. */
static const char *find_line(const struct wisp_trials *p, int i)
{
    const char *at = p->before && p->stopped ? p->before : "", *line;
    size_t bytes;
    int number;
    while ((line = next_line(p, &at, &bytes, &number)))
        if (number == i) return line;
    return NULL;
}

bool wisp_trials_known(const struct wisp_trials *p, int i)
{
    return find_line(p, i) != NULL;
}

bool wisp_trials_was(const struct wisp_trials *p, int i, const char *what)
{
    char begins[LINE];
    const char *line = find_line(p, i);
    snprintf(begins, sizeof begins, "{\"trial\":%d,\"what\":\"%s\",", i, what);
    return line && strncmp(line, begins, strlen(begins)) == 0;
}

/* Of this line, not of one behind it. */
static double number_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at && at < line + strcspn(line, "\n") ? wisp_strtod(at + strlen(key), NULL) : 0;
}

/* A trial that is no member needs no model: what the list says of it is enough. */
static bool recalled(struct wisp_trials *p, int i)
{
    struct wisp_trial *t = &p->trial[i];
    const char *line = find_line(p, i);
    if (!line || !wisp_trials_was(p, i, t->what)) return false;
    if (line_has(line, strcspn(line, "\n"), BEGUN)) return false;
    t->seconds = number_of(line, "\"seconds\":");
    t->valid = number_of(line, "\"valid_p@1\":");
    t->loss = number_of(line, "\"valid_loss\":");
    return t->done = !t->member;
}

/* ---- runs ---- */

/* Options that say how trials become one model, and which rows they leave out: no trial has the first,
 * all have the second alike.  i below 0: those that all trials have. */
static wisp_status options_of(wisp_config **out, const struct wisp_trials *p, int i,
                              wisp_error *err)
{
    static const enum wisp_opt joins[] = { OPT_NET,    OPT_ENSEMBLE, OPT_SPLIT_SEED,
                                           OPT_BUDGET, OPT_EFFORT,   OPT_TRIED };
    enum wisp_opt skip[N_OPTS];
    char path[PATH_MAX];
    size_t n = sizeof joins / sizeof *joins;
    memcpy(skip, joins, sizeof joins);
    const bool linear = i >= 0 && p->trial[i].linear;
    for (int k = 0; linear && k < N_OPTS; k++)
        if (wisp_auto_of_net((enum wisp_opt)k)) skip[n++] = (enum wisp_opt)k;
    if (p->init) skip[n++] = OPT_INIT;
    wisp_status st = wisp_config_create(out, err);
    if (st == WISP_OK) st = wisp_config_take(*out, p->cfg, skip, n, err);
    const double split = wisp_opt_num(p->cfg, OPT_SPLIT_SEED);
    char seed[40];
    wisp_print(seed, sizeof seed, "%.15g", split < 0 ? wisp_opt_num(p->cfg, OPT_SEED) : split);
    if (st == WISP_OK) st = wisp_config_set(*out, "split-seed", seed, err);
    for (int k = 0; i >= 0 && k < p->trial[i].n_set && st == WISP_OK; k++)
        st = wisp_config_set(*out, p->trial[i].set[k].key, value_of(&p->trial[i], k), err);
    if (st != WISP_OK || i < 0 || !p->trial[i].from) return st;
    wisp_trials_from(path, p, p->trial[i].from - 1);
    return wisp_config_set(*out, "init", path, err);
}

/* A trial's progress, with the time that those after it will take, by the trial itself. */
static int tell(void *arg, const wisp_progress *at)
{
    const struct wisp_trials *p = arg;
    wisp_progress all = *at;
    all.eta_s += (p->planned - 1 - p->now) * (at->train_s + at->eta_s);
    return p->told(p->arg, &all);
}

/* How good it is, by its file: the report of a run that was found finished does not know all. */
static wisp_status look_at(struct wisp_trial *t, const struct wisp_trials *p, const char *path,
                           wisp_error *err)
{
    struct wisp_tensor_file f;
    wisp_status st = wisp_tensor_file_open(&f, p->ctx->pool, path, err);
    if (st != WISP_OK) return st;
    const char *p1 = wisp_tensor_file_meta(&f, "valid_p@1"),
               *rest = wisp_tensor_file_meta(&f, "validation");
    t->valid = p1 ? wisp_strtod(p1, NULL) : -1;
    const char *loss = rest ? strstr(rest, "loss=") : NULL;
    t->loss = loss ? wisp_strtod(loss + 5, NULL) : -1;
    wisp_tensor_file_close(&f);
    return WISP_OK;
}

static wisp_status train(struct wisp_trials *p, int i, wisp_error *err)
{
    wisp_config *cfg = NULL;
    struct wisp_report *report = NULL;
    struct wisp_trial *t = &p->trial[i];
    char path[PATH_MAX];
    const double began = wisp_now(), before = t->seconds;
    wisp_trials_path(path, p, i);
    wisp_status st = options_of(&cfg, p, i, err);
    if (st == WISP_OK)
        st = wisp_kind_of_text(wisp_opt_text(cfg, OPT_NET))
                 ->train(&report, p->ctx, cfg, p->train, p->valid, path, p->told ? tell : NULL, p,
                         err);
    for (int k = 0; k < WISP_TRIAL_FIGURES && st == WISP_OK; k++)
        wisp_report_get(report, wisp_trial_figures[k], &p->figures[k]);
    if (st == WISP_OK) st = look_at(t, p, path, err);
    if (st == WISP_OK) {
        t->seconds = before > 0 ? before : wisp_now() - began;
        t->done = true;
    }
    wisp_report_free(report);
    wisp_config_free(cfg);
    if (st == WISP_OK && !t->member) unlink(path);
    return st;
}

/* What lies where the trial's model will be must be a trial's: a list says so, this run's or another's. */
static wisp_status may_write(const struct wisp_trials *p, int i, wisp_error *err)
{
    char path[PATH_MAX], name[PATH_MAX];
    size_t bytes;
    int number = -1;
    wisp_trials_path(path, p, i);
    if (access(path, F_OK) != 0) return WISP_OK;
    list_path(name, p);
    char *list = text_of(name);
    const char *at = list ? list : "", *line;
    while ((line = any_line(&at, &bytes, &number)) && number != i) {}
    wisp_free(list);
    if (line) return WISP_OK;
    return wisp_fail_at(err, WISP_EIO, path, 0,
                        "is there, and the models that are tried are written to such files; move "
                        "it away, or take another -o");
}

/* A trial that failed before its first checkpoint has left nothing to go on from. */
static void not_begun(struct wisp_trials *p, int i)
{
    char path[PATH_MAX], state[PATH_MAX];
    wisp_trials_path(path, p, i);
    snprintf(state, sizeof state, "%.4000s.state", path);
    if (access(state, F_OK) == 0) return;
    p->now = -1;
    bool any = p->before != NULL;
    for (int k = 0; k < i; k++) any |= p->trial[k].done;
    list_path(path, p);
    if (any) wisp_trials_note(p, NULL);
    else unlink(path);
}

wisp_status wisp_trials_train(struct wisp_trials *p, wisp_error *err)
{
    const int i = p->now = p->n - 1;
    wisp_say(p->ctx, "trial     %d of %d: %s", i + 1, p->planned, p->trial[i].what);
    if (recalled(p, i)) {
        wisp_say(p->ctx, "resume    it was tried: validation loss %.4f, P@1 %.2f", p->trial[i].loss,
                 p->trial[i].valid);
        return WISP_OK;
    }
    wisp_status st = may_write(p, i, err);
    if (st == WISP_OK && !wisp_trials_known(p, i)) st = wisp_trials_note(p, err);
    if (st != WISP_OK) return st;
    st = train(p, i, err);
    if (st != WISP_OK) not_begun(p, i);
    return st == WISP_OK ? wisp_trials_note(p, err) : st;
}

wisp_status wisp_trials_linear(struct wisp_trials *p, int from, wisp_error *err)
{
    struct wisp_trial *t = wisp_trials_add(p, 0, "linear");
    t->linear = true;
    t->from = from;
    wisp_trial_set(t, "net", "linear");
    wisp_trial_set(t, "refit", "no");
    return wisp_trials_train(p, err);
}

wisp_status wisp_trials_plan(struct wisp_plan *out, const struct wisp_trials *p, wisp_error *err)
{
    wisp_config *cfg = NULL;
    wisp_status st = options_of(&cfg, p, -1, err);
    *out = (struct wisp_plan){ .batch = 0 };
    if (st == WISP_OK)
        st = wisp_plan_make(out, cfg, p->ctx->k, p->train, p->init, p->valid != NULL, err);
    wisp_config_free(cfg);
    return st;
}

wisp_status wisp_trials_rows(const struct wisp_data **out, struct wisp_trials *p, wisp_error *err)
{
    struct wisp_plan plan = { .batch = 0 };
    struct wisp_order order = { 0 };
    *out = p->valid ? p->valid : p->held_out;
    if (*out) return WISP_OK;
    wisp_status st = wisp_trials_plan(&plan, p, err);
    if (st == WISP_OK)
        st = wisp_order_init(&order, p->train, plan.seed, plan.split, plan.holdout, plan.memory,
                             err);
    if (st == WISP_OK) st = wisp_order_held_out(&p->held_out, &order, err);
    wisp_order_clear(&order);
    wisp_plan_clear(&plan);
    *out = p->held_out;
    return st;
}

void wisp_trials_remove(const struct wisp_trials *p)
{
    char path[PATH_MAX];
    const char *at = p->before ? p->before : "";
    size_t bytes;
    int most = p->n, number;
    while (next_line(p, &at, &bytes, &number))
        if (number >= most && number < WISP_TRIALS_MOST) most = number + 1;
    for (int i = 0; i < most; i++) {
        wisp_trials_path(path, p, i);
        remove_all(path);
        wisp_trials_from(path, p, i);
        if (p->init) remove_all(path);
    }
    snprintf(path, sizeof path, "%s.state", p->path);
    unlink(path);
    snprintf(path, sizeof path, "%s.state.1", p->path);
    unlink(path);
    list_path(path, p);
    if (!*wisp_opt_text(p->cfg, OPT_TRIED)) unlink(path);
}
