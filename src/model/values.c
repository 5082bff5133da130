/* Values: what suits the data, idf, columns that are standardised.
 *
 * What tells words from a table is how filled the columns are that values lie in: of a random value
 * of the set, the share of rows that have one in the same column.  Texts have little (cooking 0.06,
 * bibtex 0.20), tables 0.5 to 1, also where most columns are flags that are mostly 0. */
#include "model/values.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEW_ROWS = 20, MOST_COLUMNS = 4096 }; /* of a table that is standardised */
static const double FILLED = 0.4;
static const float FARTHEST = 10; /* deviations */

static const struct wisp_word modes[WISP_N_VALUES] = {
    [WISP_VALUES_TFIDF] = { "tfidf", "(1+log count)*idf, rows of length 1" },
    [WISP_VALUES_UNIT] = { "unit", "rows of length 1" },
    [WISP_VALUES_RAW] = { "raw", "as they are" },
    [WISP_VALUES_STANDARD] = { "standard", "columns of mean 0 and deviation 1" },
};

const struct wisp_word *wisp_values_at(size_t i)
{
    return i < WISP_N_VALUES ? &modes[i] : NULL;
}

const char *wisp_values_name(enum wisp_values_mode mode)
{
    return modes[mode].name;
}

bool wisp_values_find(enum wisp_values_mode *out, const char *name)
{
    for (int i = 0; i < WISP_N_VALUES; i++)
        if (strcmp(modes[i].name, name) == 0) {
            *out = (enum wisp_values_mode)i;
            return true;
        }
    return false;
}

static double filled(const struct wisp_data *d)
{
    double sum = 0;
    for (size_t f = 0; f < d->n_features; f++)
        sum += (double)d->feature_rows[f] * (double)d->feature_rows[f];
    return d->nnz ? sum / ((double)d->nnz * (double)d->n_rows) : 0;
}

/* Is a row unlike the first?  Where none is, no column has a deviation to be scaled by. */
static bool rows_differ(const struct wisp_data *d)
{
    size_t first, at;
    const struct wisp_rows *a = d->n_rows ? wisp_data_row(d, 0, &first) : NULL;
    for (size_t row = 1; row < d->n_rows; row++) {
        const struct wisp_rows *b = wisp_data_row(d, row, &at);
        uint32_t n = a->xp[first + 1] - a->xp[first], i = 0;
        if (b->xp[at + 1] - b->xp[at] != n) return true;
        for (; i < n; i++) {
            uint32_t p = a->xp[first] + i, q = b->xp[at] + i;
            if (wisp_row_id(a, p) != wisp_row_id(b, q) ||
                wisp_row_value(a, p) != wisp_row_value(b, q))
                return true;
        }
    }
    return false;
}

enum wisp_values_mode wisp_values_choose(char *why, const struct wisp_data *d)
{
    double share = filled(d);
    bool text = d->vocab.n > 0, table = share >= FILLED && !text;
    if ((d->format && d->format->raw) || d->image.channels) {
        snprintf(why, WISP_VALUES_WHY, "images");
        return WISP_VALUES_RAW;
    }
    if (table && d->n_rows >= FEW_ROWS && d->n_features <= MOST_COLUMNS && rows_differ(d)) {
        wisp_print(why, WISP_VALUES_WHY, "a table: its columns are filled in %.0f %% of the rows",
                   100 * share);
        return WISP_VALUES_STANDARD;
    }
    if (d->counts && !table) {
        snprintf(why, WISP_VALUES_WHY, text ? "words" : "counts, in columns that few rows have");
        return WISP_VALUES_TFIDF;
    }
    snprintf(why, WISP_VALUES_WHY,
             table ? "a table of few rows or many columns, or whose rows are all the same"
                   : "sparse rows, not all values are counts");
    return WISP_VALUES_UNIT;
}

void wisp_values_idf(float *idf, const struct wisp_data *d)
{
    for (size_t f = 0; f < d->n_features; f++)
        idf[f] =
            d->feature_rows[f] ? (float)log((double)d->n_rows / (double)d->feature_rows[f]) : 0;
}

/* Adds the values, or their squared distances from 'mean', to sums (n_features). */
static void add_values(double *sum, const struct wisp_data *d, const double *mean)
{
    for (size_t b = 0; b < d->n_blocks; b++) {
        const struct wisp_rows *r = &d->blocks[b];
        for (size_t i = 0; r->px && i < r->n * r->pixels; i++) {
            const size_t f = i % r->pixels;
            const double x = (double)wisp_pixel_value(r->px[i]);
            if (r->px[i]) sum[f] += mean ? (x - mean[f]) * (x - mean[f]) : x;
        }
        for (size_t i = 0; !r->px && i < r->xp[r->n]; i++) {
            double x = (double)wisp_row_value(r, i);
            int32_t f = wisp_row_id(r, i);
            sum[f] += mean ? (x - mean[f]) * (x - mean[f]) : x;
        }
        wisp_data_forget(d, b);
    }
}

wisp_status wisp_values_columns(float *mean, float *scale, const struct wisp_data *d,
                                wisp_error *err)
{
    size_t n = d->n_features;
    double rows = (double)d->n_rows, *exact = wisp_zalloc(2 * n, sizeof *exact),
           *square = exact + n;
    if (!exact) return wisp_fail_mem(err, 2 * n * sizeof *exact, "sums of columns");
    add_values(exact, d, NULL);
    for (size_t f = 0; f < n; f++) exact[f] /= rows;
    add_values(square, d, exact);
    for (size_t f = 0; f < n; f++) {
        double zeros = rows - (double)d->feature_rows[f];
        double deviation = sqrt((square[f] + zeros * exact[f] * exact[f]) / rows);
        /* a column of one value has a deviation of rounding errors */
        bool varies = deviation > 1e-6 * fabs(exact[f]) && isfinite((float)(1 / deviation));
        mean[f] = (float)exact[f];
        scale[f] = varies ? (float)(1 / deviation) : 0;
    }
    wisp_free(exact);
    return WISP_OK;
}

static float standard(const struct wisp_values *v, size_t f, float x)
{
    float z = (x - v->mean[f]) * v->scale[f];
    return fminf(fmaxf(z, -FARTHEST), FARTHEST);
}

uint32_t wisp_values_fill(int32_t *xi, float *xv, const struct wisp_rows *r, size_t row,
                          size_t n_features, const struct wisp_values *v)
{
    uint32_t n = 0;
    uint32_t i = r->xp[row], end = r->xp[row + 1];
    for (size_t f = 0; f < n_features; f++) {
        float x = 0;
        if (r->px && f < r->pixels) x = wisp_pixel_value(r->px[row * r->pixels + f]);
        else if (!r->px && i < end && (size_t)wisp_row_id(r, i) == f) x = wisp_row_value(r, i++);
        if (v->scale[f] == 0) continue;
        xi[n] = (int32_t)f;
        xv[n++] = standard(v, f, x);
    }
    return n;
}

/* One row, with room for its columns in xi and xv (n_features). */
static wisp_status add_row(struct wisp_builder *b, const struct wisp_rows *r, size_t row,
                           size_t n_features, const struct wisp_values *v, int32_t *xi, float *xv,
                           wisp_error *err)
{
    uint32_t n = wisp_values_fill(xi, xv, r, row, n_features, v);
    wisp_status st = WISP_OK;
    for (uint32_t i = r->yp[row]; st == WISP_OK && i < r->yp[row + 1]; i++)
        st = wisp_builder_label(b, r->yi[i], err);
    for (uint32_t i = 0; st == WISP_OK && i < n; i++)
        st = wisp_builder_feature(b, xi[i], xv[i], err);
    return st == WISP_OK ? wisp_builder_end_row(b, err) : st;
}

wisp_status wisp_values_standardise(struct wisp_data **out, const struct wisp_data *d,
                                    size_t n_features, const struct wisp_values *v, wisp_error *err)
{
    struct wisp_sink *sink;
    struct wisp_builder b = { 0 };
    *out = NULL;
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    if (st != WISP_OK) return st;
    int32_t *xi = wisp_alloc(n_features, sizeof *xi);
    float *xv = wisp_alloc(n_features, sizeof *xv);
    if (!xi || !xv) st = wisp_fail_mem(err, n_features * 8, "a row");
    for (size_t k = 0; st == WISP_OK && k < d->n_blocks; k++) {
        const struct wisp_rows *r = &d->blocks[k];
        for (size_t row = 0; st == WISP_OK && row < r->n; row++) {
            st = add_row(&b, r, row, n_features, v, xi, xv, err);
            bool full = b.nnz >= WISP_BLOCK_NNZ || row + 1 == r->n;
            if (st == WISP_OK && full) {
                st = wisp_sink_add(sink, &b, err);
                wisp_builder_reset(&b);
            }
        }
    }
    wisp_builder_clear(&b);
    wisp_free(xi);
    wisp_free(xv);
    if (st != WISP_OK) {
        wisp_sink_abort(sink);
        return st;
    }
    wisp_sink_at_least(sink, n_features, d->n_labels);
    return wisp_sink_finish(out, sink, err);
}
