/* Arithmetic on arrays, one form per instruction set behind one table.
 *
 * The scalar form of each operation is its definition; the others equal it up to rounding
 * (relative to the sum of the absolute terms).  Kernels check nothing and cannot
 * fail.  Any length and any alignment is fine; nothing outside the named elements
 * is read or written.  The result of a call depends on its arguments alone, so a caller
 * that cuts its work at fixed places gets the same bytes for any number of threads. */
#ifndef WISP_KERNELS_KERNELS_H
#define WISP_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WISP_GOLDEN16 = 40503 };

/* To bf16: nearest, ties to even; a NaN stays one. */
static inline uint16_t wisp_round16(float x)
{
    union {
        float f;
        uint32_t u;
    } bits = { x };
    if (x != x) return (uint16_t)(bits.u >> 16 | 0x40);
    return (uint16_t)((bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16);
}

struct wisp_adam { /* coefficients of one Adam update */
    float beta1, beta2;
    float step; /* learning rate * sqrt(1 - beta2^t) / (1 - beta1^t) */
    float eps;  /* eps * sqrt(1 - beta2^t) */
};

struct wisp_groups { /* a layer of few, fixed connections: outputs with the same inputs share a
                        group */
    uint32_t n_groups;
    const uint32_t *in_start, *in;   /* group g reads in[in_start[g] .. in_start[g + 1] - 1] */
    const uint32_t *out_start, *out; /* and writes out[out_start[g] ..] */
    float weight;                    /* of all edges where w is NULL */
    const float *w;                  /* group g: (inputs, outputs) at w_start[g] */
    const uint64_t *w_start;
    bool linear;         /* y = sum + bias */
    float bias;          /* else y = min(clip, max(0, sum + bias)) */
    const float *biases; /* by output; NULL: all are 'bias' */
    float clip;
};
struct wisp_lanes { /* bit j: lane j */
    uint64_t zero, full;
};
enum { WISP_PANEL = 16, WISP_PANEL_MOST = 64 }; /* lanes of a panel: a multiple, and the most */

struct wisp_tiles { /* a sum of n products, in blocks of 16 columns (convolutions) */
    size_t m, blocks, k, n;
    const float *a; /* product i reads A(r, p) = a[a_at[i] + r * ras + p * cas], r < m, p < k */
    size_t ras, cas;
    const float *b; /* and B(p, j) of block v = b[b_at[i] + v * b_block + p * ldb + j], j < 16 */
    size_t ldb, b_block;
    const size_t *a_at, *b_at; /* (n) */
    float *c;                  /* C(r, j) of block v = c[v * c_block + r * ldc + j] */
    size_t ldc, c_block;
    const float *bias; /* (blocks, 16) is added to each row; NULL: nothing is */
    bool add, relu;    /* C is added, too; max(., 0) at the end, a NaN stays one */
    const float *mask; /* laid out as c: 0 in C where it is not above 0; NULL: nowhere */
    uint64_t *live;    /* (blocks) how many of C are not 0 is added; NULL: nobody counts */
};

struct wisp_tiles16 { /* the same of bf16, 32 columns of A to a product; see below for B's words */
    size_t m, blocks, n;
    const uint16_t
        *a;     /* product i reads A(r, p) = a[a_at[i] + r * ras + p], p < 32; rows up to the */
    size_t ras; /* next multiple of 16 are read, too */
    const uint32_t *b; /* and of block v the panel of 16 x 16 words at b[b_at[i] + v * b_block] */
    size_t b_block;
    const size_t *a_at, *b_at; /* (n) */
    float *c;                  /* C(r, j) of block v = c[c_at[r] + v * c_block + j] */
    size_t c_block;
    const int32_t *c_at; /* (m); below 0: nobody wants row r */
    const float *bias;   /* (blocks, 16) is added to each row; NULL: nothing is */
    bool relu;           /* max(., 0) at the end, a NaN stays one */
    const float *mask;   /* laid out as c: 0 in C where it is not above 0; NULL: nowhere */
    uint64_t *live;      /* (blocks) how many of the rows' numbers are not 0 is added; or NULL */
};

struct wisp_sums16 {        /* several products of bf16 that share B */
    size_t m, blocks, k, n; /* m a multiple of 16, k one of 32 */
    const uint16_t *a;      /* product i has A(r, p) = a[a_at[i] + r * lda + p] */
    size_t lda;
    const uint32_t *b; /* panels of 16 columns, ldb words apart */
    size_t ldb;
    float *c; /* and C(r, j) of block v = c[c_at[i] + r * ldc + v * 16 + j] */
    size_t ldc;
    const size_t *a_at, *c_at; /* (n) */
    bool add;                  /* to what C holds */
};

/* The transforms of Winograd's convolutions F(4x4, 3x3) and F(2x2, 5x5), each to = T from T^t: 36
 * products give 16 pixels of 3x3 taps, which take 144 otherwise, or 4 of 5x5 taps, which take 100.
 * y = A^t ((G w G^t) .* (B^t x B)) A, and its gradient.  Both have the points 0, 1, -1, 2, -2 and
 * infinity, so B is the same. */
enum wisp_winograd {
    WISP_WINOGRAD_X,   /* B^t: 6x6 pixels of x to 6x6 */
    WISP_WINOGRAD_Y,   /* A^t: 6x6 to 4x4 pixels of y */
    WISP_WINOGRAD_GY,  /* A: 4x4 pixels of gy to 6x6 */
    WISP_WINOGRAD_W,   /* G: 3x3 taps to 6x6 */
    WISP_WINOGRAD_GW,  /* G^t: 6x6 to the gradient of 3x3 taps */
    WISP_WINOGRAD_Y5,  /* of 5x5 taps: 6x6 to 2x2 pixels of y, */
    WISP_WINOGRAD_GY5, /* 2x2 pixels of gy to 6x6, */
    WISP_WINOGRAD_W5,  /* 5x5 taps to 6x6, */
    WISP_WINOGRAD_GW5, /* 6x6 to the gradient of 5x5 taps */
};
struct wisp_transform { /* of 16 numbers side by side */
    enum wisp_winograd which;
    float *to;
    size_t to_row, to_col; /* floats from row to row, from column to column */
    const float *from;
    size_t from_row, from_col;
    const float *bias; /* of Y, Y5: (16) is added at the end; NULL: nothing is */
    bool relu;         /* of these: max(., 0) at the end; a NaN stays one */
    const float *mask; /* of these: laid out as 'to', 0 where it is not above 0; NULL: nowhere */
    uint64_t *live;    /* of these: how many are not 0 is added; NULL: nobody counts */
};

/* Batch norm of n pixels of a block of 16 channels: y = (x - mean) * scale + shift, of which what
 * 'relu' says is kept; and its gradient, gx = g * times + (x - mean) * slope + rest, where g is gy,
 * or 0 where the ReLU was. */
struct wisp_norm {
    size_t n;
    const float *x, *gy;
    float *y, *gx;                     /* gx may be gy */
    const float *mean, *scale, *shift; /* (16) each */
    bool relu;        /* y = max(., 0), a NaN stays one; g is gy where y is above 0 */
    float *sum, *dot; /* (16) of norm_sums: added to */
    const float *times, *slope, *rest; /* (16) of norm_back */
    uint64_t *live;                    /* how many of y are not 0 is added; NULL: nobody counts */
};

/* Max pooling of windows side by side, 16 channels each: the largest of rows x cols pixels, the first
 * of several; a NaN is larger than all.  place: which it is, (row, column) as row * apart + column. */
struct wisp_maxpool {
    size_t n, rows, cols;
    size_t apart;        /* from row to row in a place */
    const float *x, *gy; /* the first window's first pixel; (n, 16) */
    size_t row, next;    /* floats from row to row of x, from window to window */
    float *y, *gx;       /* (n, 16); as x */
    uint8_t *place;      /* (n, 16); NULL: nobody will ask */
    bool relu;           /* of what is not above 0 the place is WISP_NO_PLACE: no gradient */
    bool add;            /* to gx, where windows overlap; else it is set */
    uint64_t *live;      /* how many of y are not 0 is added; NULL: nobody counts */
};
enum { WISP_NO_PLACE = 255 };

/* The way back through some rows of a large matrix W (rows, n) for few samples, in one read of it:
 *   gx(i, r) = sum over j of gy(i, j) w(r, j)      gw(r, j) = sum over i of x(i, r) gy(i, j) */
enum { WISP_BACK_SAMPLES = 8, WISP_BACK_ROWS = 2 };
struct wisp_back {
    size_t m, n, rows; /* samples, columns (a multiple of 16), rows: 1 to the most */
    const float *gy, *w, *x;
    size_t gy_row, w_row, x_row; /* floats from sample to sample, row to row, sample to sample */
    float *gx;                   /* NULL: nobody wants it; samples lie x_row apart, too */
    float *gw;                   /* (rows, n) */
    const float *soon
        [2]; /* laid out as w: is read next; NULL: nothing is known.  So are the rows behind w */
};

/* ---- sums over the numbers of a value that are not 0 (convolutions that skip the others) ---- */

enum {
    WISP_LIVE_SOURCES = 4, /* of 16 numbers: one word of bits */
    WISP_LIVE_TAPS = 3,    /* of live_row, and of a row of live_sums, at most */
    WISP_LIVE_COLS = 16,   /* places in a row of live_sums; four rows to a word */
};
struct wisp_live_row {    /* places along a row: c(i + t) += sum over j of x(i, j) w(j, t) */
    size_t n, sources;    /* places; vectors of 16 of each, at most WISP_LIVE_SOURCES */
    const uint64_t *live; /* (n): bit j is set where x(i, j) is not 0 */
    const float *x;       /* those that are not 0, side by side, place by place */
    size_t taps, blocks;  /* at most WISP_LIVE_TAPS; at most what wisp_live_forms says */
    const float *w;       /* (sources, 16, taps, blocks, 16) */
    float *c;             /* (n + taps - 1, blocks, 16) */
    const float *soon;    /* (n, 16) is read by calls to come; NULL: nothing is known */
};
struct wisp_live_sums {        /* c(i, r, t) += sum over places p of x(i, p) v(p + 16 r + t) */
    size_t n, words;           /* channels; places of each in words of 64 */
    const uint64_t *live;      /* (n, words): bits as above */
    const float *x;            /* (n, words, 64): of each channel those that are not 0 come first */
    size_t rows, taps, blocks; /* rows and taps: 1 to 3, at most what wisp_live_forms says */
    const float *v;            /* (4 words + rows - 1, 16, blocks, 16) */
    float *c;                  /* (n, rows, taps, blocks, 16) */
    const float *const
        *soon;            /* (n_soon): 'lines' of 16 floats from each are read by calls to come, */
    size_t n_soon, lines; /* where it is not NULL */
};
struct wisp_live_forms {                                       /* how much the registers hold */
    size_t row_blocks[WISP_LIVE_TAPS + 1];                     /* blocks of live_row by taps */
    size_t rows;                                               /* of live_sums */
    size_t sum_blocks[WISP_LIVE_TAPS + 1][WISP_LIVE_TAPS + 1]; /* blocks by rows and taps */
    size_t near_floats; /* weights of live_row, v of live_sums: so many stay in the first cache */
};

struct wisp_kernels {
    const char *name; /* of the best instruction set installed */

    /* y[i] += a * x[i] */
    void (*axpy)(float *y, const float *x, float a, size_t n);
    /* y[i] = a * x[i]; y may be x */
    void (*scale)(float *y, const float *x, float a, size_t n);
    /* sum of x[i] * y[i] */
    float (*dot)(const float *x, const float *y, size_t n);
    /* sum of x[i] */
    float (*sum)(const float *x, size_t n);
    /* out[j] += sum over i < nnz of val[i] * w[idx[i] * ld + j], j < n: a sparse row
     * times a dense matrix.  Rows to come are prefetched. */
    void (*bag)(float *out, const float *w, size_t ld, const int32_t *idx, const float *val,
                size_t nnz, size_t n);
    /* out[i] = sum over j < n of w[idx[i] * ld + j] * x[j], i < m: rows from all over a matrix
     * times a vector.  Rows to come are prefetched. */
    void (*dots)(float *out, const float *w, size_t ld, const int32_t *idx, size_t m,
                 const float *x, size_t n);
    /* Both in one read of the rows: out[j] += sum over i < nnz of val[i] * w[idx[i] * ld + j], and
     * dot[i] = sum over j < n of w[idx[i] * ld + j] * x[j], to which dot[i] is added when 'add'. */
    void (*bag_dots)(float *out, float *dot, const float *w, size_t ld, const int32_t *idx,
                     const float *val, size_t nnz, const float *x, size_t n, bool add);
    /* dots of rows 0 .. m-1, which follow each other in memory. */
    void (*matvec)(float *out, const float *w, size_t ld, size_t m, const float *x, size_t n);
    /* C = A B, or C += A B when 'add'.  C is (m, n) with rows ldc apart, B is (k, n) with rows
     * ldb apart, A(i, p) = a[i * ras + p * cas]: (ras, cas) = (lda, 1) for a plain A,
     * (1, lda) for a transposed one. */
    void (*gemm)(float *c, size_t ldc, const float *a, size_t ras, size_t cas, const float *b,
                 size_t ldb, size_t m, size_t n, size_t k, bool add);
    /* C += A B as gemm makes it, to the bit, for few rows (m <= 16) and a B that lies in no cache; A is
     * plain, rows lda apart, n is a multiple of 16. */
    void (*gemm_few)(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                     size_t m, size_t n, size_t k);
    /* The same without the columns of A, and rows of B, that are not among live (k), which ascends:
     * where A has zeros alone there, C is the same to the bit, but for the sign of a 0, and 0 times an
     * infinite number or a NaN of B, which is left out. */
    void (*gemm_live)(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                      const int32_t *live, size_t m, size_t n, size_t k);
    /* gw is what gemm makes of it, to the bit. */
    void (*back_few)(const struct wisp_back *t);
    /* C = A B + bias, bias(i) to all of row i; A is plain, rows lda apart. */
    void (*gemm_bias)(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                      const float *bias, size_t m, size_t n, size_t k);
    /* C = sum over i of A_i B_i, and what the struct says.  n = 0 is an empty sum. */
    void (*tiles)(const struct wisp_tiles *t);
    void (*winograd)(const struct wisp_transform *t);
    /* sum[c] += sum of x(i, c) - from[c], square[c] += sum of its squares, i < n, c < 16 */
    void (*norm_moments)(float *sum, float *square, const float *x, const float *from, size_t n);
    void (*norm)(const struct wisp_norm *b);
    /* sum[c] += sum of g, dot[c] += sum of g * (x - mean[c]) */
    void (*norm_sums)(const struct wisp_norm *b);
    void (*norm_back)(const struct wisp_norm *b);
    void (*maxpool)(const struct wisp_maxpool *p);
    void (*maxpool_back)(const struct wisp_maxpool *p);
    /* x(i, s) = the vector at from[s] + 16 i step, zeros where from[s] is NULL: the bits of those
     * that are not 0 in live[i], and these numbers side by side in x, which has room for all.  A NaN
     * is not 0.  i < n, s < sources. */
    void (*live_find)(float *x, uint64_t *live, const float *const *from, size_t sources, size_t n,
                      size_t step);
    /* The same of x (n, words, 64) itself: of each of n the bits, and those that are not 0 first. */
    void (*live_pack)(uint64_t *live, float *x, size_t n, size_t words);
    /* x(i, s) as above, all of it, for any number of sources. */
    void (*weave)(float *x, const float *const *from, size_t sources, size_t n, size_t step);
    void (*live_row)(const struct wisp_live_row *t);
    void (*live_sums)(const struct wisp_live_sums *t);
    const struct wisp_live_forms *live_forms;
    /* ---- bf16: the upper half of a float, rounded to nearest, ties to even; NaN stays NaN ----
     *
     * Products take A (m, k) plain, rows lda apart, and B (k, n) in panels: 16 columns side by
     * side, two rows of B to a word (the even row in the lower half), panels ldb words apart; a
     * panel is (k/2, 16) words.  k is a multiple of 32, filled up with zeros; so are the columns of
     * the last panel. */

    bool fast16; /* gemm16 is faster than gemm */
    void (*to16)(uint16_t *y, const float *x, size_t n);
    void (*from16)(float *y, const uint16_t *x, size_t n);
    /* x[i] + a * g[i] rounded up or down at random, so that on average nothing is lost: the 16
     * lower bits of random + i * WISP_GOLDEN16 are added before those of the sum are cut off.
     * Where 'random' is uniform each of these is, which is all that rounding needs. */
    void (*axpy16)(uint16_t *x, const float *g, float a, size_t n, uint32_t random);
    /* bag and dots with rows of bf16. */
    void (*bag16)(float *out, const uint16_t *w, size_t ld, const int32_t *idx, const float *val,
                  size_t nnz, size_t n);
    void (*dots16)(float *out, const uint16_t *w, size_t ld, const int32_t *idx, size_t m,
                   const float *x, size_t n);
    /* Panels of B(p, j) = s[p] * x[p * ldx + j], s NULL: 1, for p < k; zeros up to 'whole', which
     * is even (k is, or is whole - 1 or less).  n as it is, the rest of its panel filled up. */
    void (*pairs)(uint32_t *out, size_t ldo, const float *x, size_t ldx, const float *s, size_t k,
                  size_t whole, size_t n);
    /* Panels of B(p, j) = x[p * ldx + j], which are halves already. */
    void (*pairs16)(uint32_t *out, size_t ldo, const uint16_t *x, size_t ldx, size_t k,
                    size_t whole, size_t n);
    /* Panels of B(p, j) = x[j * ldx + p]. */
    void (*pairs_t)(uint32_t *out, size_t ldo, const float *x, size_t ldx, size_t k, size_t n);
    /* out (n, m) = transpose of in (m, n); rows of out are filled up to a multiple of 32. */
    void (*turn16)(uint16_t *out, size_t ldo, const uint16_t *in, size_t ldi, size_t m, size_t n);
    /* C = A B, plus bias(i) in row i unless it is NULL, plus C when 'add'; sums in float.  Rows of
     * A up to the next multiple of 16 may be read. */
    void (*gemm16)(float *c, size_t ldc, const uint16_t *a, size_t lda, const uint32_t *b,
                   size_t ldb, const float *bias, size_t m, size_t n, size_t k, bool add);

    /* Sums of small products for convolutions, products for their gradients, and the rows that they read: to (n, 32) = 16 numbers
     * of a and 16 of b, 'apart' floats from one to the next, rounded; b NULL: zeros. */
    void (*tiles16)(const struct wisp_tiles16 *t);
    void (*sums16)(const struct wisp_sums16 *t);
    void (*join16)(uint16_t *to, const float *a, const float *b, size_t apart, size_t n);

    /* ---- int8: a weight is q * scale, one scale per row ---- */

    /* y[i] = scale * x[i] */
    void (*from8)(float *y, const int8_t *x, float scale, size_t n);
    /* bag and dots with rows of int8; scale[row] beside each. */
    void (*bag8)(float *out, const int8_t *w, const float *scale, size_t ld, const int32_t *idx,
                 const float *val, size_t nnz, size_t n);
    void (*dots8)(float *out, const int8_t *w, const float *scale, size_t ld, const int32_t *idx,
                  size_t m, const float *x, size_t n);

    /* y[i] = scale * value[number i of the row 'codes'], numbers of 4 or 6 bits (codes.h) */
    void (*from_codes)(float *y, const uint8_t *codes, int bits, const float *value, float scale,
                       size_t n);

    /* out (n, m) = transpose of in (m, n) */
    void (*transpose)(float *out, size_t ldo, const float *in, size_t ldi, size_t m, size_t n);

    /* y[i] = max(x[i], 0) */
    void (*relu)(float *y, const float *x, size_t n);
    /* The same; returns how many of y are not 0. */
    size_t (*relu_live)(float *y, const float *x, size_t n);
    /* How many of x are not 0; a NaN is not. */
    size_t (*live_count)(const float *x, size_t n);
    /* gx[i] = y[i] > 0 ? gy[i] : 0 */
    void (*relu_back)(float *gx, const float *gy, const float *y, size_t n);
    /* g[i] += more where x[i] > 0 */
    void (*push)(float *g, const float *x, float more, size_t n);

    /* Blocks of logits lie with labels as rows and samples as columns: z (m, n), rows ldz
     * apart.  The next ones work on such a block. */

    /* max[j] = largest z(i, j) over i; m > 0 */
    void (*col_max)(float *max, const float *z, size_t ldz, size_t m, size_t n);
    /* z(i, j) = exp(z(i, j) - max[j]); sum[j] = its sum over i.  Arguments below -87 give 0. */
    void (*col_exp)(float *z, size_t ldz, float *sum, const float *max, size_t m, size_t n);
    /* loss[j] = sum over i of log(1 + exp(z(i, j))); z(i, j) = 1 / (1 + exp(-z(i, j))) */
    void (*col_sigmoid)(float *z, size_t ldz, float *loss, size_t m, size_t n);
    /* y[i] = 1 / (1 + exp(-x[i])), tanh(x[i]), exp(-x[i]^2); a NaN stays one; y may be x. */
    void (*row_sigmoid)(float *y, const float *x, size_t n);
    void (*row_tanh)(float *y, const float *x, size_t n);
    void (*row_gauss)(float *y, const float *x, size_t n);
    /* The indices j with x[j] above limit[j], in order, into where (room for n); returns how many.
     * A NaN is never at most anything, so it is found: nobody loses it. */
    size_t (*above)(int32_t *where, const float *x, const float *limit, size_t n);

    /* How many of x[0 .. n-1] are at least 'least'?  A NaN is not. */
    size_t (*count_from)(const float *x, size_t n, float least);
    /* Is v among x[0 .. n-1]? */
    bool (*holds)(const int32_t *x, size_t n, int32_t v);
    /* Columns of xt (any, 32) are vectors.  key[i] = key[i] << 3 | which of the coordinates
     * place[0 .. 7] is the largest of vector i, ties to the first; returns the vectors (bit i) all
     * of whose eight are -infinity.  No NaN. */
    uint32_t (*winner)(uint32_t key[32], const float *xt, const uint32_t place[8]);

    /* m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= step * m / (sqrt(v) + eps)
     */
    void (*adam)(float *w, float *m, float *v, const float *g, size_t n, const struct wisp_adam *c);
    /* m = beta m + g + decay w;  w -= step * m */
    void (*momentum)(float *w, float *m, const float *g, size_t n, float beta, float step,
                     float decay);

    /* ---- deep sparse layers: values of a panel's inputs lie side by side, x (neurons, lanes) ----
     */

    /* y(out, j) = what the layer makes of x(in, j), all 'lanes'.  Every edge is computed, each
     * output on its own.  seen (NULL: not wanted): which lanes have all outputs 0, all at the clip.
     */
    void (*groups)(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                   struct wisp_lanes *seen);
    /* x(i, j) = bit i of row[j], for i < 64 * words and the 16 lanes from x on; rows of x lie
     * 'lanes' apart. */
    void (*spread)(float *x, size_t lanes, const uint64_t *const row[16], size_t words);
    /* x(i, j) = how many of the bits i, i + 64 * words, ... ('planes' of them, at most 255) are set
     * in row[j]; i < 64 * words. */
    void (*tally)(float *x, size_t lanes, const uint64_t *const row[16], size_t words,
                  size_t planes);
    /* y(i, j) = x(i, which[j]), j < n <= 16, which[j] < 16, i < rows: live lanes side by side. */
    void (*pack)(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t which[16],
                 size_t n, size_t rows);
};

/* Fills the table with the best forms this machine runs.  'cap' (NULL: none) names the
 * instruction set to stop at; unknown names and sets this machine lacks are WISP_ENOTSUP. */
struct wisp_error;
int wisp_kernels_select(struct wisp_kernels *k, const char *cap, struct wisp_error *err);
/* Names of the sets in the table, plain to fancy; NULL past the end. */
const char *wisp_kernels_isa(size_t i, const char **what);

void wisp_kernels_scalar(struct wisp_kernels *k);
void wisp_kernels_avx2(struct wisp_kernels *k);
void wisp_kernels_avx512(struct wisp_kernels *k);
void wisp_kernels_bf16(struct wisp_kernels *k);
void wisp_kernels_amx(struct wisp_kernels *k);
/* The parts for sums of small products, with what else works on blocks of 16 channels, for sums that
 * skip zeros and for deep sparse layers, called by the ones above. */
void wisp_kernels_tiles_scalar(struct wisp_kernels *k);
void wisp_kernels_planes_scalar(struct wisp_kernels *k);
void wisp_kernels_tiles_avx2(struct wisp_kernels *k);
void wisp_kernels_tiles_avx512(struct wisp_kernels *k);
void wisp_kernels_live_scalar(struct wisp_kernels *k);
void wisp_kernels_live_avx2(struct wisp_kernels *k);
void wisp_kernels_live_avx512(struct wisp_kernels *k);
void wisp_kernels_codes_scalar(struct wisp_kernels *k);
void wisp_kernels_bags_avx2(struct wisp_kernels *k);
void wisp_kernels_codes_avx2(struct wisp_kernels *k);
void wisp_kernels_bags_avx512(struct wisp_kernels *k);
void wisp_kernels_codes_avx512(struct wisp_kernels *k);
void wisp_kernels_curves_avx2(struct wisp_kernels *k);
void wisp_kernels_curves_avx512(struct wisp_kernels *k);
void wisp_kernels_find_avx2(struct wisp_kernels *k);
void wisp_kernels_find_avx512(struct wisp_kernels *k);
void wisp_kernels_deep_scalar(struct wisp_kernels *k);
void wisp_kernels_deep_avx2(struct wisp_kernels *k);
void wisp_kernels_deep_avx512(struct wisp_kernels *k);

#endif
