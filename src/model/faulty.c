/* A model in memory with errors: its places, how well it predicts, and its file.
 *
 * A measurement makes a scorer of its own, whose layers read weights that were read back with errors,
 * while the model stays as it is.  Values get theirs where a layer has made them. */
#include "model/kind.h"
#include "model/faulty.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/memory.h"
#include "model/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- places ---- */

enum { NOT, BY_LAYER, BY_NAME }; /* how a name of the list means a place */

/* Is the place one of the list, by its layer's name or its own? */
static int named(const char *list, const char *name)
{
    int found = NOT;
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, ",");
        if (n > 0 && strncmp(p, name, n) == 0) {
            if (name[n] == 0) return BY_NAME;
            if (name[n] == '.') found = BY_LAYER;
        }
        p += n + (p[n] == ',');
    }
    return found;
}

static bool is_chosen(const char *list, const char *name, bool usual)
{
    const int how = named(list, name);
    return how == BY_NAME || ((how == BY_LAYER || !*list) && usual);
}

/* The layer whose value stands where layer i has written, once all that lies in place is done; -1: one
 * that is not done together with it writes there, too. */
static int value_of(const struct wisp_net *net, int i)
{
    for (;;) {
        const struct wisp_act *a = &net->acts[i + 1];
        const int reader = a->last_reader;
        if (a->n_readers != 1 || net->layers[reader].kind->head || !wisp_work_in_place(net, reader))
            return i;
        if (!net->layers[reader].done) return -1;
        i = reader;
    }
}

static void add_weights(struct wisp_faulty *f, const char *layers)
{
    const struct wisp_params *list = &f->m->net.list;
    for (size_t i = 0; i < list->n; i++) {
        const struct wisp_param *p = &list->p[i];
        const bool numbers = p->role == WISP_TRAINED || p->role == WISP_STATE;
        if (!numbers || !is_chosen(layers, p->name, wisp_errors_in(p))) continue;
        struct wisp_place *to = &f->places[f->n++];
        *to = (struct wisp_place){ .param = (int)i, .layer = p->layer, .numbers = p->n };
        memcpy(to->name, p->name, sizeof to->name);
    }
}

static void add_values(struct wisp_faulty *f, const struct wisp_net *net, const char *layers)
{
    for (int i = 0; i < net->n_layers - 1; i++) {
        char name[WISP_MOMENT_NAME];
        const int value = net->layers[i].done ? -1 : value_of(net, i);
        if (value < 0) continue;
        wisp_moment_name(name, net, value);
        if (!is_chosen(layers, name, true)) continue;
        struct wisp_place *to = &f->places[f->n];
        *to = (struct wisp_place){ .param = -1, .layer = i, .numbers = net->acts[i + 1].width };
        snprintf(to->name, sizeof to->name, "%.*s", (int)sizeof to->name - 1, name);
        f->of_layer[i] = (int)f->n++;
    }
}

/* A name that means no place is a mistake: better told. */
static wisp_status check_names(const struct wisp_faulty *f, const char *layers, wisp_error *err)
{
    for (const char *p = layers; *p;) {
        const size_t n = strcspn(p, ",");
        bool found = false;
        for (size_t i = 0; i < f->n; i++)
            found |= strncmp(p, f->places[i].name, n) == 0 &&
                     (f->places[i].name[n] == 0 || f->places[i].name[n] == '.');
        if (!found)
            return wisp_fail_option(err, "layer",
                                    "the model has no numbers of '%.*s' that could have errors "
                                    "here; 'wisp inspect' names its layers and tensors",
                                    (int)n, p);
        p += n + (p[n] == ',');
    }
    return f->n ? WISP_OK
                : wisp_fail(err, WISP_EINVAL, "the model has no matrices that could have errors");
}

wisp_status wisp_faulty_make(struct wisp_faulty *f, struct wisp_context *ctx,
                             const struct wisp_model *m, unsigned in, const char *layers,
                             wisp_error *err)
{
    const size_t n_layers = (size_t)m->net.n_layers;
    struct wisp_scorer s;
    *f = (struct wisp_faulty){ .ctx = ctx, .m = m };
    wisp_status st = wisp_model_need_net(m, "errors in the bits of a model", err);
    if (st != WISP_OK) return st;
    f->places = wisp_alloc(m->net.list.n + n_layers, sizeof *f->places);
    f->of_layer = wisp_alloc(n_layers, sizeof *f->of_layer);
    st = f->places && f->of_layer ? WISP_OK : wisp_fail_mem(err, n_layers, "places of numbers");
    for (size_t i = 0; st == WISP_OK && i < n_layers; i++) f->of_layer[i] = -1;
    for (size_t i = 0; st == WISP_OK && i < m->net.list.n; i++)
        if (m->net.list.p[i].codes)
            st = wisp_fail(err, WISP_EINVAL,
                           "the model's '%s' are numbers of %zu values, expected weights of fp32, "
                           "bf16 or int8; use the model that it was made from",
                           m->net.list.p[i].name, wisp_codes_values(m->net.list.p[i].bits));
    if (st == WISP_OK && in & WISP_IN_WEIGHTS) add_weights(f, layers);
    if (st == WISP_OK && in & WISP_IN_VALUES &&
        (st = wisp_scorer_init(&s, m, ctx, WISP_ZEROS_OFF, 1, err)) == WISP_OK) {
        add_values(f, &s.net, layers);
        wisp_scorer_clear(&s);
    }
    if (st == WISP_OK) st = check_names(f, layers, err);
    if (st != WISP_OK) wisp_faulty_clear(f);
    return st;
}

void wisp_faulty_clear(struct wisp_faulty *f)
{
    wisp_free(f->places);
    wisp_free(f->of_layer);
    *f = (struct wisp_faulty){ 0 };
}

enum wisp_memory wisp_place_memory(const struct wisp_faulty *f, size_t i, enum wisp_memory wanted)
{
    const struct wisp_place *p = &f->places[i];
    return wisp_place_is_value(p) ? wanted : wisp_param_memory(&f->m->net.list.p[p->param], wanted);
}

/* ---- weights ---- */

static void free_all(struct wisp_misread *of, size_t n)
{
    for (size_t i = 0; of && i < n; i++) wisp_free(of[i].numbers);
    wisp_free(of);
}

/* All weights that are not read back as they are: (n), to be freed; numbers NULL: as they are. */
static wisp_status misread(struct wisp_misread **out, struct wisp_damage *sum,
                           const struct wisp_faulty *f, const double *rates,
                           const struct wisp_errors *e, wisp_error *err)
{
    struct wisp_misread *of = *out = wisp_zalloc(f->n, sizeof *of);
    wisp_status st = of ? WISP_OK : wisp_fail_mem(err, f->n * sizeof *of, "weights with errors");
    for (size_t i = 0; i < f->n && st == WISP_OK; i++) {
        const struct wisp_place *p = &f->places[i];
        struct wisp_errors here = *e;
        here.rate = rates[i];
        if (wisp_place_is_value(p)) continue;
        const struct wisp_param *q = &f->m->net.list.p[p->param];
        here.type = wisp_param_memory(q, e->type);
        if (here.rate == 0 && (!q->w || here.type == WISP_MEMORY_FP32)) continue;
        st = wisp_errors_read(&of[i], q, (uint64_t)p->param, &here, f->ctx->pool, err);
        sum->bits += of[i].bits;
        sum->odd += of[i].odd;
    }
    if (st == WISP_OK) return WISP_OK;
    free_all(of, f->n);
    *out = NULL;
    return st;
}

static void use(struct wisp_net *net, const struct wisp_faulty *f, const struct wisp_misread *of)
{
    for (size_t i = 0; i < f->n; i++) {
        if (!of[i].numbers) continue;
        struct wisp_param *p = &net->list.p[f->places[i].param];
        if (p->i8) p->i8 = of[i].numbers;
        else if (p->b16) p->b16 = of[i].numbers;
        else p->w = of[i].numbers;
    }
}

/* ---- values ---- */

enum { ROWS_APART = 40 }; /* bits for the number of a row, below those for the draw */

struct looking { /* at values, as they are made */
    const struct wisp_faulty *f;
    const double *rates; /* NULL: their ranges are looked for */
    struct wisp_place *ranges;
    struct wisp_errors e;
    size_t row; /* of the first sample of the batch */
    size_t bits;
};

static void look(void *arg, int layer, const struct wisp_act *a, size_t n, bool gradient)
{
    struct looking *l = arg;
    const int at = l->f->of_layer[layer];
    if (at < 0 || gradient) return;
    if (!l->rates) {
        l->ranges[at].largest = fmaxf(l->ranges[at].largest, wisp_largest(a->x, n * a->floats));
        return;
    }
    struct wisp_errors e = l->e;
    const size_t pixels = a->form == WISP_PLANES ? a->width / a->shape.dim[0] : 0;
    e.rate = l->rates[at];
    for (size_t i = 0; i < n; i++) {
        e.draw = (l->e.draw << ROWS_APART) + l->row + i;
        l->bits += wisp_errors_in_value(a->x + i * a->floats, a->width, pixels,
                                        (uint64_t)(l->f->m->net.list.n + (size_t)layer), &e,
                                        l->f->places[at].largest);
    }
}

static bool has_values(const struct wisp_faulty *f)
{
    return f->n > 0 && wisp_place_is_value(&f->places[f->n - 1]);
}

/* ---- how well it predicts ---- */

/* A row without an answer is one that is wrong; where there are no errors, it is a failure. */
static wisp_status score(struct wisp_damage *out, struct wisp_scorer *s, struct looking *l,
                         const struct wisp_data *d, bool errors, wisp_error *err)
{
    size_t right = 0;
    for (size_t first = 0; first < d->n_rows; first += s->batch) {
        size_t ids[WISP_SCORE_BATCH],
            n = d->n_rows - first < s->batch ? d->n_rows - first : s->batch;
        for (size_t i = 0; i < n; i++) ids[i] = first + i;
        l->row = first;
        wisp_status st = wisp_scorer_run(s, d, ids, n, err);
        if (st != WISP_OK && (st != WISP_ENUMERIC || !errors)) return st;
        const struct wisp_batch *b = &s->layout.batch;
        for (size_t i = 0; i < n; i++) {
            const bool odd = s->labels[i * s->k] < 0 || !isfinite(s->scores[i * s->k]);
            out->rows_odd += odd;
            right += !odd &&
                     wisp_is_true(s->labels[i * s->k], b->yi + b->yp[i], b->yp[i + 1] - b->yp[i]);
        }
    }
    out->p1 = d->n_rows ? 100 * (double)right / (double)d->n_rows : 0;
    return WISP_OK;
}

wisp_status wisp_faulty_look(double *p1, struct wisp_faulty *f, const struct wisp_data *d,
                             wisp_error *err)
{
    struct looking l = { .f = f, .ranges = f->places };
    const struct wisp_peek peek = { look, &l };
    struct wisp_scorer s;
    struct wisp_damage out = { 0 };
    wisp_status st = wisp_scorer_init(&s, f->m, f->ctx, WISP_ZEROS_OFF, 1, err);
    if (st != WISP_OK) return st;
    if (has_values(f)) s.peek = &peek;
    st = score(&out, &s, &l, d, false, err);
    *p1 = out.p1;
    wisp_scorer_clear(&s);
    return st;
}

wisp_status wisp_faulty_measure(struct wisp_damage *out, const struct wisp_faulty *f,
                                const double *rates, const struct wisp_errors *e,
                                const struct wisp_data *d, wisp_error *err)
{
    struct looking l = { .f = f, .rates = rates, .e = *e };
    const struct wisp_peek peek = { look, &l };
    struct wisp_misread *of = NULL;
    struct wisp_scorer s;
    *out = (struct wisp_damage){ 0 };
    wisp_status st = wisp_scorer_init(&s, f->m, f->ctx, WISP_ZEROS_OFF, 1, err);
    if (st != WISP_OK) return st;
    st = misread(&of, out, f, rates, e, err);
    if (st == WISP_OK) {
        use(&s.net, f, of);
        if (has_values(f)) s.peek = &peek;
        st = score(out, &s, &l, d, true, err);
        out->bits += l.bits;
    }
    wisp_scorer_clear(&s);
    free_all(of, f->n);
    return st;
}

/* ---- its file ---- */

static wisp_status write_file(const struct wisp_faulty *f, const struct wisp_misread *of,
                              const char *path, const char *about, wisp_error *err)
{
    const struct wisp_tensor_file *file = &f->m->file;
    struct wisp_tensor *t = wisp_alloc(file->n_tensors, sizeof *t);
    struct wisp_pair *meta = wisp_alloc(file->n_meta + 1, sizeof *meta);
    wisp_status st =
        t && meta ? WISP_OK : wisp_fail_mem(err, file->n_tensors * sizeof *t, "a model");
    size_t n = 0;
    for (size_t i = 0; st == WISP_OK && i < file->n_tensors; i++) {
        t[i] = file->tensors[i];
        for (size_t k = 0; k < f->n; k++)
            if (of[k].numbers && strcmp(f->places[k].name, t[i].name) == 0)
                t[i].data = of[k].numbers;
    }
    for (size_t i = 0; st == WISP_OK && i < file->n_meta; i++)
        if (strcmp(file->meta[i].key, "errors") != 0) meta[n++] = file->meta[i];
    if (st == WISP_OK) {
        meta[n++] = (struct wisp_pair){ "errors", about };
        st = wisp_tensor_file_write(path, t, file->n_tensors, meta, n, NULL, err);
    }
    wisp_free(t);
    wisp_free(meta);
    return st;
}

/* A model of numbers that are none is no model: whoever reads it would have to refuse it. */
static wisp_status check_numbers(const struct wisp_faulty *f, const struct wisp_misread *of,
                                 size_t odd, wisp_error *err)
{
    for (size_t i = 0; i < f->n; i++) {
        if (of[i].odd == 0) continue;
        return wisp_fail(err, WISP_ENUMERIC,
                         "%zu weights would be infinite or nan, the first of them number %zu of "
                         "'%s': a model has to have numbers; use --guard zero or clip, which read "
                         "them as memory with a guard does, a lower --rate, or another --seed",
                         odd, of[i].odd_at, f->places[i].name);
    }
    return WISP_OK;
}

wisp_status wisp_faulty_write(struct wisp_damage *out, const struct wisp_faulty *f,
                              const double *rates, const struct wisp_errors *e, const char *path,
                              wisp_error *err)
{
    struct wisp_misread *of = NULL;
    char about[300];
    const char *before = wisp_tensor_file_meta(&f->m->file, "errors");
    *out = (struct wisp_damage){ 0 };
    wisp_status st = misread(&of, out, f, rates, e, err);
    if (st == WISP_OK) st = check_numbers(f, of, out->odd, err);
    wisp_print(about, sizeof about, "%.150s%srate %g, %s, map %s, guard %s, seed %llu: %zu bits",
               before ? before : "", before ? "; " : "", e->rate, wisp_memory_name(e->type),
               e->fixed ? "fixed" : "random", wisp_guard_name(e->guard),
               (unsigned long long)e->seed, out->bits);
    if (st == WISP_OK)
        st = wisp_map_blame(&f->m->file.map, write_file(f, of, path, about, err), err);
    free_all(of, f->n);
    return st;
}
