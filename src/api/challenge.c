/* wisp_challenge: one network of the Graph Challenge, from files or made, run and judged.
 *
 *     net (files or radix.c) -> rules, merging -> run on cores or a card -> categories -> truth
 *     inputs (files, or MNIST by images.c, kept in a cache) ---^
 *
 * Of several ranks (comm/comm.h) each has the net and runs its share of the inputs; rank 0 gathers
 * what became of them, judges and reports.  A rank that fails meets the others at the next
 * wisp_comm_agree. */
#include "api/deep.h"
#include "base/file.h"
#include "base/idx.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "spdnn/netfile.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { REPEATS = 30 };
#define ENOUGH_S 0.5 /* runs are repeated for so long */

struct job {
    struct wisp_context *ctx;
    const struct wisp_comm *comm;
    const wisp_config *cfg;
    struct wisp_radix what;
    const char *dir;
    bool generate;
    struct wisp_spnet *net;
    struct wisp_spinputs in; /* this rank's share */
    size_t n;                /* inputs of all ranks */
    struct wisp_deep deep;   /* run.ends: (n) at rank 0, where the share comes first */
    size_t categories;
    const char *truth;
    double read_s, peak_bytes;
    int repeats;
};

/* ---- inputs made from MNIST ---- */

static const char *const mnist_name = "train-images-idx3-ubyte";

/* Beside the images, or in the cache folder; '-': nowhere. */
static bool cache_path(char path[PATH_MAX], const struct job *j, uint32_t side, int which)
{
    const char *cache = wisp_opt_text(j->cfg, OPT_CACHE), *dir = which == 0 ? j->dir : cache;
    if (strcmp(cache, "-") == 0 || !*dir) return false;
    if (which > 0) mkdir(dir, 0777);
    return snprintf(path, PATH_MAX, "%s/mnist-%ux%u.wispinputs", dir, side, side) < PATH_MAX;
}

static wisp_status make_images(struct job *j, uint32_t side, const struct wisp_idx *idx,
                               const struct wisp_sources *src, wisp_error *err)
{
    char path[PATH_MAX];
    struct wisp_images found;
    const double t0 = wisp_now();
    wisp_say(j->ctx, "making %u inputs of %ux%u from MNIST; they are kept for the next time",
             idx->size[0], side, side);
    wisp_status st = wisp_images_make(&j->in, &found, idx->data, idx->size[0], side, j->ctx, err);
    if (st != WISP_OK) return st;
    wisp_say(j->ctx, "made in %.1f s: threshold %.9f, %llu ones", wisp_now() - t0, found.threshold,
             (unsigned long long)found.ones);
    bool kept = false; /* without a cache they are made anew next time */
    for (int i = 0; i < 2 && !kept; i++)
        kept =
            cache_path(path, j, side, i) && wisp_spinputs_save(&j->in, path, src, NULL) == WISP_OK;
    return WISP_OK;
}

static wisp_status generate_inputs(struct job *j, wisp_error *err)
{
    const uint32_t side = (uint32_t)lround(sqrt(j->what.n_neurons));
    char path[PATH_MAX];
    if (side * side != j->what.n_neurons)
        return wisp_fail_option(err, "neurons",
                                "%u is no square; images need 1024, 4096, 16384 or 65536",
                                j->what.n_neurons);
    if (snprintf(path, sizeof path, "%s/%s", j->dir, mnist_name) >= (int)sizeof path)
        return wisp_fail_option(err, "data", "the path is too long");
    struct wisp_file_id id;
    const struct wisp_sources src = { &id, 1, path };
    wisp_status st = wisp_file_identify(&id, path, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < 2; i++) {
        char cache[PATH_MAX];
        if (cache_path(cache, j, side, i) &&
            wisp_spinputs_load(&j->in, cache, &src, j->ctx->pool, NULL) == WISP_OK)
            return WISP_OK;
    }
    struct wisp_idx idx;
    st = wisp_idx_open(&idx, path, 3, err);
    if (st != WISP_OK) return st;
    if (idx.size[1] != 28 || idx.size[2] != 28)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "images of %ux%u; MNIST's are 28x28",
                          idx.size[1], idx.size[2]);
    else st = make_images(j, side, &idx, &src, err);
    st = wisp_map_end(&idx.map, st, err);
    wisp_idx_close(&idx);
    return st;
}

/* ---- the steps ---- */

static wisp_status settings(struct job *j, wisp_error *err)
{
    const wisp_config *cfg = j->cfg;
    j->what = (struct wisp_radix){ .n_neurons = (uint32_t)wisp_opt_num(cfg, OPT_NEURONS),
                                   .n_layers = (size_t)wisp_opt_num(cfg, OPT_LAYERS),
                                   .random = wisp_opt_is(cfg, OPT_TOPOLOGY, "random"),
                                   .seed = (uint64_t)wisp_opt_num(cfg, OPT_SEED) };
    j->dir = wisp_opt_text(cfg, OPT_DATA);
    j->generate = wisp_opt_num(cfg, OPT_GENERATE) != 0;
    if (!*j->dir)
        return wisp_fail_option(err, "data",
                                "missing: the folder of the official files, or with --generate of "
                                "MNIST's %s",
                                mnist_name);
    if (j->what.random && !j->generate)
        return wisp_fail_option(err, "topology", "random is made, not read; add --generate");
    return wisp_deep_settings(&j->deep, cfg, err);
}

/* Fits wisp_comm_in_turn. */
static wisp_status read_files(void *arg, wisp_error *err)
{
    struct job *j = arg;
    const double t0 = wisp_now();
    wisp_status st = j->generate
                         ? generate_inputs(j, err)
                         : wisp_challenge_inputs(&j->in, j->dir, j->what.n_neurons, j->ctx, err);
    if (st == WISP_OK && j->generate) st = wisp_radix_net(&j->net, &j->what, j->ctx->pool, err);
    else if (st == WISP_OK)
        st = wisp_challenge_net(&j->net, j->dir, j->what.n_neurons, j->what.n_layers, j->ctx, err);
    j->read_s = wisp_now() - t0;
    return st;
}

/* Machines may have files of their own. */
static wisp_status compare(const struct job *j, wisp_error *err)
{
    const double n = (double)j->in.n, edges = (double)j->net->n_edges;
    double most[] = { n, -n, edges, -edges };
    const wisp_status st = wisp_comm_max(j->comm, most, sizeof most / sizeof *most, err);
    if (st != WISP_OK) return st;
    if (most[0] == -most[1] && most[2] == -most[3]) return WISP_OK;
    return wisp_fail(err, WISP_EINVAL,
                     "the ranks have different data: from %.0f to %.0f inputs, from %.0f to %.0f "
                     "edges; give all the same options, and the same files on every machine",
                     -most[1], most[0], -most[3], most[2]);
}

static wisp_status load(struct job *j, wisp_error *err)
{
    const struct wisp_comm *c = j->comm;
    wisp_status st = wisp_comm_in_turn(c, read_files, j, err);
    if (st == WISP_OK) st = compare(j, err);
    if (st != WISP_OK) return st;
    size_t first, n;
    j->n = j->in.n;
    wisp_comm_share(&first, &n, c, j->n);
    wisp_spinputs_keep(&j->in, first, n);
    return WISP_OK;
}

/* One run of all ranks.  Its time is from when the first one begins to when the last one ends: the
 * largest sum of a rank's own time and its waiting for the others.  On a card a rank makes several
 * runs, at its own pace, and the time is the slowest one's fastest. */
static wisp_status run_once(struct job *j, int on_card, wisp_error *err)
{
    struct wisp_sprun *r = &j->deep.run;
    wisp_status st = j->comm->barrier(err);
    if (st == WISP_OK && (j->in.n || !j->deep.card))
        st = wisp_deep_run(&j->deep, j->net, &j->in, on_card, j->ctx, err);
    if (j->comm->size > 1) {
        const double t0 = wisp_now();
        j->comm->barrier(NULL); /* if a rank is lost, the next line says so */
        if (!j->deep.card) r->seconds += wisp_now() - t0;
    }
    st = wisp_comm_agree(j->comm, st, err);
    return st == WISP_OK ? wisp_comm_max(j->comm, &r->seconds, 1, err) : st;
}

/* On cores, runs are repeated until there is something to measure. */
static wisp_status run_all(struct job *j, wisp_error *err)
{
    struct wisp_sprun *r = &j->deep.run;
    const int on_card = r->drop ? 5 : 1;
    double best = INFINITY, sum = 0;
    do {
        const wisp_status st = run_once(j, on_card, err);
        if (st != WISP_OK) return st;
        best = fmin(best, r->seconds);
        sum += r->seconds;
        j->repeats++;
    } while (!j->deep.card && sum < ENOUGH_S && j->repeats < REPEATS);
    if (j->deep.card) j->repeats = on_card;
    r->seconds = best;
    return WISP_OK;
}

static wisp_status run(struct job *j, wisp_error *err)
{
    const struct wisp_comm *c = j->comm;
    struct wisp_sprun *r = &j->deep.run;
    const size_t room = c->rank == 0 ? j->n : j->in.n;
    r->ends = wisp_alloc(room, 1);
    wisp_status st = r->ends ? WISP_OK : wisp_fail_mem(err, room, "the results");
    st = wisp_comm_agree(c, st, err);
    if (st == WISP_OK) st = run_all(j, err);
    if (st == WISP_OK) st = c->gather(r->ends, room, r->ends, j->in.n, err);
    return st;
}

/* What the report says of all ranks: the most of any, and the work of all. */
static wisp_status sum_up(struct job *j, wisp_error *err)
{
    struct wisp_spcard *card = &j->deep.on_card;
    double work = (double)j->deep.run.work;
    double most[] = { j->read_s,      j->deep.analysis_s,  (double)wisp_mem_peak(),
                      card->upload_s, (double)card->bytes, card->streamed };
    wisp_status st = wisp_comm_max(j->comm, most, sizeof most / sizeof *most, err);
    if (st == WISP_OK) st = wisp_comm_add(j->comm, &work, 1, err);
    j->read_s = most[0];
    j->deep.analysis_s = most[1];
    j->peak_bytes = most[2];
    card->upload_s = most[3];
    card->bytes = (uint64_t)most[4];
    card->streamed = most[5] != 0;
    j->deep.run.work = (uint64_t)work;
    return st;
}

static wisp_status judge(struct job *j, wisp_error *err)
{
    uint32_t *rows = NULL;
    size_t n = 0, at = 0;
    for (size_t i = 0; i < j->n; i++) j->categories += j->deep.run.ends[i];
    j->truth = "unknown";
    if (j->what.random) return WISP_OK;
    if (!j->generate) {
        const wisp_status st =
            wisp_challenge_truth(&rows, &n, j->dir, j->what.n_neurons, j->what.n_layers, err);
        if (st != WISP_OK) return st;
    }
    const long official = wisp_radix_categories(j->what.n_neurons, j->what.n_layers);
    bool same = rows ? n == j->categories : (long)j->categories == official;
    for (size_t i = 0; rows && same && i < j->n; i++)
        if (j->deep.run.ends[i]) same = rows[at++] == i;
    if (rows || (official >= 0 && j->n == 60000)) j->truth = same ? "match" : "mismatch";
    wisp_free(rows);
    return WISP_OK;
}

static wisp_status write_categories(const struct job *j, const char *path, wisp_error *err)
{
    struct wisp_out *o;
    wisp_status st = wisp_out_create(&o, path, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < j->n; i++) {
        char line[24];
        if (j->deep.run.ends[i])
            wisp_out_write(o, line, (size_t)snprintf(line, sizeof line, "%zu\n", i + 1), NULL);
    }
    return wisp_out_commit(o, err);
}

static wisp_status report(wisp_report **out, const struct job *j, wisp_error *err)
{
    struct wisp_report *r = wisp_report_create();
    const double seconds = j->deep.run.seconds;
    wisp_report_num(r, "neurons", j->what.n_neurons);
    wisp_report_num(r, "layers", (double)j->what.n_layers);
    wisp_report_text(r, "mode", j->deep.mode);
    wisp_report_text(r, "device", j->deep.card ? "cuda" : "cpu");
    wisp_report_num(r, "seconds", seconds);
    wisp_report_num(r, "edges_per_s", (double)j->net->n_edges * (double)j->n / seconds);
    wisp_report_num(r, "categories", (double)j->categories);
    wisp_report_text(r, "truth", j->truth);
    wisp_report_num(r, "analysis_seconds", j->deep.analysis_s);
    wisp_report_num(r, "read_seconds", j->read_s);
    wisp_report_num(r, "upload_seconds", j->deep.on_card.upload_s);
    wisp_report_text(r, "topology", j->what.random ? "random" : "radix");
    wisp_report_num(r, "repeats", j->repeats);
    wisp_report_num(r, "ranks", j->comm->size);
    wisp_deep_report(r, &j->deep, j->net, j->n, j->ctx);
    wisp_report_num(r, "peak_bytes", j->peak_bytes);
    return wisp_report_done(out, r, err);
}

/* Rank 0 alone knows the answer. */
static wisp_status answer(wisp_report **out, struct job *j, const char *categories, wisp_error *err)
{
    wisp_status st = sum_up(j, err);
    if (st == WISP_OK && j->comm->rank == 0) {
        st = judge(j, err);
        if (st == WISP_OK && categories) st = write_categories(j, categories, err);
        if (st == WISP_OK) st = report(out, j, err);
    }
    return wisp_comm_agree(j->comm, st, err);
}

wisp_status wisp_challenge(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                           const char *categories, wisp_error *err)
{
    struct job j = { .ctx = ctx, .comm = ctx->comm ? ctx->comm : &wisp_comm_self, .cfg = cfg };
    *out = NULL;
    wisp_status st = wisp_comm_agree(j.comm, settings(&j, err), err);
    if (st == WISP_OK) st = load(&j, err);
    if (st == WISP_OK)
        st = wisp_comm_agree(j.comm, wisp_deep_analyse(&j.deep, j.net, ctx, err), err);
    if (st == WISP_OK) st = run(&j, err);
    if (st == WISP_OK) st = answer(out, &j, categories, err);
    wisp_deep_clear(&j.deep);
    wisp_spnet_free(j.net);
    wisp_spinputs_clear(&j.in);
    wisp_free(j.deep.run.ends);
    return st;
}
