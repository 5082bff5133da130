/* wisp convert IN OUT: data in any readable format to the one that OUT's ending names; with --quantize,
 * a model to a smaller one; a model to OUT.safetensors, its weights by PyTorch's names; such a file
 * to a model. */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Text becomes numbers: its names go beside them. */
static wisp_status write_names(const struct args *a, const wisp_data *d, wisp_error *err)
{
    static const struct {
        const char *which, *suffix, *option;
    } sides[] = { { "labels", ".labels.txt", "labels" }, { "features", ".vocab.txt", "vocab" } };
    wisp_status st = WISP_OK;
    for (int i = 0; i < 2 && st == WISP_OK; i++) {
        char path[4096];
        size_t n = 0;
        snprintf(path, sizeof path, "%s%s", a->files[1], sides[i].suffix);
        st = wisp_data_write_names(&n, d, sides[i].which, path, err);
        if (st == WISP_OK && n && !args_on(a, "quiet"))
            tell("%s: %zu names of %s, for --%s", path, n, sides[i].which, sides[i].option);
    }
    return st;
}

static wisp_status convert_data(const struct args *a, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *d = NULL;
    wisp_status st = open_context(&ctx, a, err);
    /* Whoever writes words down wants words, however short the texts are. */
    if (st == WISP_OK && strcmp(args_text(a, "chars"), "auto") == 0)
        st = wisp_config_set(a->cfg, "chars", "0", err);
    if (st == WISP_OK) st = wisp_data_open(&d, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK) st = wisp_data_write(d, ctx, a->files[1], NULL, err);
    if (st == WISP_OK) st = write_names(a, d, err);
    wisp_data_stats s = { 0 };
    if (st == WISP_OK) wisp_data_stats_get(d, &s);
    if (st == WISP_OK && !args_on(a, "quiet"))
        tell("%s: %zu rows, %zu features, %zu labels, %zu values", a->files[1], s.n_rows,
             s.n_features, s.n_labels, s.n_values);
    if (st == WISP_OK && args_on(a, "json")) {
        fputs("{\"path\":", stdout);
        put_json(a->files[1], strlen(a->files[1]), stdout);
        printf(",\"rows\":%zu,\"features\":%zu,\"labels\":%zu,\"values\":%zu}\n", s.n_rows,
               s.n_features, s.n_labels, s.n_values);
    }
    wisp_data_free(d);
    wisp_context_free(ctx);
    return st;
}

static double megabytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (double)st.st_size / 1e6 : 0;
}

static wisp_status convert_model(const struct args *a, const char *type, wisp_error *err)
{
    wisp_model *m = NULL;
    double before = megabytes(a->files[0]);
    wisp_status st = wisp_model_load(&m, a->files[0], err);
    if (st == WISP_OK) st = wisp_model_quantize(m, a->files[1], type, err);
    if (st == WISP_OK && !args_on(a, "quiet"))
        tell("%s: %s weights, %.2f MB (%s: %.2f MB)", a->files[1], type, megabytes(a->files[1]),
             a->files[0], before);
    if (st == WISP_OK && args_on(a, "json")) {
        fputs("{\"path\":", stdout);
        put_json(a->files[1], strlen(a->files[1]), stdout);
        printf(",\"weights\":\"%s\",\"mb\":%.6g,\"mb_before\":%.6g}\n", type,
               megabytes(a->files[1]), before);
    }
    wisp_model_free(m);
    return st;
}

static int ends(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

static wisp_status export_model(const struct args *a, wisp_error *err)
{
    wisp_model *m = NULL;
    wisp_status st = wisp_model_load(&m, a->files[0], err);
    if (st == WISP_OK) st = wisp_model_export(m, a->files[1], err);
    if (st == WISP_OK && !args_on(a, "quiet"))
        tell("%s: weights by PyTorch's names, %.2f MB", a->files[1], megabytes(a->files[1]));
    if (st == WISP_OK && args_on(a, "json")) {
        fputs("{\"path\":", stdout);
        put_json(a->files[1], strlen(a->files[1]), stdout);
        printf(",\"mb\":%.6g}\n", megabytes(a->files[1]));
    }
    wisp_model_free(m);
    return st;
}

static wisp_status import_model(const struct args *a, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_report *report = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_model_import(&report, ctx, a->files[0], a->cfg, a->files[1], err);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    wisp_report_free(report);
    wisp_context_free(ctx);
    return st;
}

/* Options that say what weights from elsewhere are of would be ignored otherwise: better told. */
static wisp_status about_weights(const struct args *a, wisp_error *err)
{
    static const char *const keys[][2] = { { "net", "" }, { "image", "" },  { "mean", "" },
                                           { "std", "" }, { "labels", "" }, { "loss", "auto" } };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(args_text(a, keys[i][0]), keys[i][1]) != 0)
            return refuse(
                err, WISP_EINVAL,
                "--%s is about weights from elsewhere (safetensors by PyTorch's names) that "
                "become a model; here %s is a model that becomes another one: leave the "
                "option out, or convert in two steps",
                keys[i][0], a->files[0]);
    return WISP_OK;
}

/* What is wrong with a model comes first: its header may be cut off, and then it may be none. */
static wisp_status is_whole(const char *path, wisp_status st, wisp_error *err)
{
    wisp_model *m = NULL;
    wisp_error why = { 0 };
    wisp_status loaded = wisp_model_load(&m, path, &why);
    wisp_model_free(m);
    if (loaded == WISP_OK) return st;
    *err = why;
    return loaded;
}

static wisp_status convert(const struct args *a, wisp_error *err)
{
    const char *kind = "", *type = args_text(a, "quantize"), *in = a->files[0];
    int quantize = strcmp(type, "no") != 0;
    wisp_status st = wisp_file_kind(&kind, in, err);
    if (st != WISP_OK) return st;
    int is_model = strcmp(kind, "model") == 0, is_weights = strcmp(kind, "safetensors") == 0;
    if (is_weights && !quantize) return import_model(a, err);
    if ((st = about_weights(a, err)) != WISP_OK) return is_model ? is_whole(in, st, err) : st;
    if (is_model && quantize) return convert_model(a, type, err);
    if (is_model && ends(a->files[1], ".safetensors")) return export_model(a, err);
    if (!is_model && !quantize) return convert_data(a, err);
    if (is_model)
        return refuse(
            err, WISP_EINVAL,
            "%s: found a model, expected data; --quantize bf16, int8, c64 or c16 makes a smaller "
            "model, OUT.safetensors weights for PyTorch",
            in);
    return refuse(
        err, WISP_EINVAL,
        "--quantize: expected a model, but %s is %s%s; without --quantize data is converted", in,
        is_weights ? "weights from elsewhere, format "
        : *kind    ? "data, format "
                   : "neither that nor data of a known format",
        kind);
}

int cmd_convert(const struct args *a)
{
    wisp_error err = { 0 };
    return convert(a, &err) == WISP_OK ? 0 : fail(&err);
}
