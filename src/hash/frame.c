/* Measuring the frame, and vectors into it. */
#include "hash/frame.h"
#include "base/bounds.h"
#include "base/sort.h"

#include <math.h>
#include <string.h>

static const double QUANTILE = 0.98;
enum { LANES = 16 }; /* inner loops of a fixed length become vector instructions at -O2 */

void wisp_frame_place(struct wisp_frame *f, float *block, size_t width, size_t appended)
{
    *f = (struct wisp_frame){
        .width = width,
        .appended = appended,
        .mean = block,
        .scale = block + width,
        .centre = block + 2 * width,
        .centre_bias = block + 3 * width,
        .beta = block + 3 * width + 1,
        .m = block + 3 * width + 2,
    };
}

static void observe_row(float *restrict mean, float *restrict square, const float *restrict h,
                        float a, size_t width)
{
    size_t c = 0;
    for (; c + LANES <= width; c += LANES)
        for (size_t i = c; i < c + LANES; i++) {
            mean[i] += a * h[i];
            square[i] += a * h[i] * h[i];
        }
    for (; c < width; c++) {
        mean[c] += a * h[c];
        square[c] += a * h[c] * h[c];
    }
}

void wisp_frame_observe(float *mean, float *square, const float *h, size_t n, size_t width,
                        float keep)
{
    if (n == 0) return;
    for (size_t c = 0; c < width; c++) mean[c] *= keep, square[c] *= keep;
    for (size_t i = 0; i < n; i++)
        observe_row(mean, square, h + i * width, (1 - keep) / (float)n, width);
}

static void set_scale(float *scale, const float *mean, const float *square, size_t width)
{
    double sum = 0;
    for (size_t c = 0; c < width; c++) {
        float variance = square[c] - mean[c] * mean[c];
        scale[c] = variance > 0 ? sqrtf(variance) : 0;
        sum += scale[c];
    }
    float least = (float)(sum / (20 * (double)width));
    if (!(least > 0)) least = 1; /* no query seen, or all the same */
    for (size_t c = 0; c < width; c++)
        if (!(scale[c] >= least)) scale[c] = least;
}

static float row_bias(const struct wisp_frame *f, const struct wisp_kernels *k, const float *w,
                      float bias)
{
    return bias + k->dot(f->mean, w, f->width) - *f->centre_bias;
}

static void row_plain(const struct wisp_frame *f, float *restrict out, const float *restrict w)
{
    const float *restrict scale = f->scale, *restrict centre = f->centre;
    size_t c = 0;
    for (; c + LANES <= f->width; c += LANES)
        for (size_t i = c; i < c + LANES; i++) out[i] = scale[i] * w[i] - centre[i];
    for (; c < f->width; c++) out[c] = scale[c] * w[c] - centre[c];
}

/* The centres of every step-th row, each coordinate's and the bias's. */
static void set_centres(struct wisp_frame *f, const struct wisp_kernels *k,
                        const struct wisp_matrix *rows, size_t step, float *spare)
{
    double bias = 0;
    size_t n = 0;
    memset(f->centre, 0, f->width * sizeof *f->centre);
    *f->centre_bias = 0;
    for (size_t r = 0; r < rows->n; r += step, n++) {
        const float *w = wisp_weights_row(k, &rows->w, r, spare);
        k->axpy(f->centre, w, 1, f->width);
        bias += row_bias(f, k, w, rows->bias[r]);
    }
    if (n == 0) return;
    for (size_t c = 0; c < f->width; c++) f->centre[c] *= f->scale[c] / (float)n;
    *f->centre_bias = (float)(bias / (double)n);
}

void wisp_frame_measure(struct wisp_frame *f, const struct wisp_kernels *k, const float *mean,
                        const float *square, const struct wisp_matrix *rows, float *work)
{
    size_t step = wisp_parts(rows->n, WISP_FRAME_SAMPLE), n = 0;
    float *x = work + WISP_FRAME_SAMPLE, *spare = x + f->width;
    double xx = 0, yy = 0;
    memcpy(f->mean, mean, f->width * sizeof *mean);
    set_scale(f->scale, mean, square, f->width);
    set_centres(f, k, rows, step, spare);
    *f->beta = 1, *f->m = 0;
    if (!f->appended) return;

    for (size_t r = 0; r < rows->n; r += step, n++) {
        const float *w = wisp_weights_row(k, &rows->w, r, spare);
        row_plain(f, x, w);
        double y = row_bias(f, k, w, rows->bias[r]);
        xx += k->dot(x, x, f->width), yy += y * y;
    }
    double beta = sqrt(sqrt(xx / (yy * (double)f->width))); /* |q|^2 is the width */
    if (beta > 1e-3 && beta < 1e3) *f->beta = (float)beta;

    n = 0;
    for (size_t r = 0; r < rows->n; r += step) {
        const float *w = wisp_weights_row(k, &rows->w, r, spare);
        row_plain(f, x, w);
        float y = *f->beta * row_bias(f, k, w, rows->bias[r]);
        work[n++] = sqrtf(k->dot(x, x, f->width) + y * y);
    }
    if (n == 0) return;
    wisp_sort_floats(work, n);
    *f->m = work[(size_t)((double)(n - 1) * QUANTILE)];
}

void wisp_frame_row(const struct wisp_frame *f, const struct wisp_kernels *k, float *out,
                    const float *w, float bias)
{
    row_plain(f, out, w);
    if (!f->appended) return;
    float y = *f->beta * row_bias(f, k, w, bias);
    float rest = *f->m * *f->m - k->dot(out, out, f->width) - y * y;
    out[f->width] = y;
    out[f->width + 1] = rest > 0 ? sqrtf(rest) : 0;
}

static void query_plain(const struct wisp_frame *f, float *restrict out, const float *restrict h)
{
    const float *restrict scale = f->scale, *restrict mean = f->mean;
    size_t c = 0;
    for (; c + LANES <= f->width; c += LANES)
        for (size_t i = c; i < c + LANES; i++) out[i] = (h[i] - mean[i]) / scale[i];
    for (; c < f->width; c++) out[c] = (h[c] - mean[c]) / scale[c];
}

void wisp_frame_query(const struct wisp_frame *f, float *out, const float *h)
{
    query_plain(f, out, h);
    if (!f->appended) return;
    out[f->width] = 1 / *f->beta;
    out[f->width + 1] = 0;
}
