/* The Fourier transform in four steps, for lengths that do not fit the caches.
 *
 * x of length n = n1 n2 is a matrix (n1, n2), j = j1 n2 + j2, k = k1 + n1 k2:
 *
 *   out[k] = sum_j2 e(j2 k2 / n2)  e(j2 k1 / n)  sum_j1 e(j1 k1 / n1) x[j],   e(t) = e^(-2 pi i t)
 *
 * so: transform columns, multiply by e(j2 k1 / n), transform rows, write them as columns.  Eight
 * columns (then eight rows) are carried through a short transform side by side; all of it lies in a
 * scratch of 8 max(n1, n2) numbers, so memory is passed over twice.  A short transform is the
 * self-sorting one (Stockham) with radix 4, 2 and odd primes; an element of it is
 *
 *   | real parts of 8 lanes | imaginary parts of 8 lanes |
 *
 * A length with a prime above MAX_PRIME is done as a convolution (Bluestein):
 * j k = (j^2 + k^2 - (k - j)^2) / 2. */
#include "spdnn/fft.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 8,
    ELEMENT = 2 * LANES,
    MAX_PRIME = 31,
    MAX_FACTORS = 64,
};

struct axis { /* short transforms of one length */
    size_t n, n_factors;
    unsigned factor[MAX_FACTORS];
    double *root; /* (n, 2) */
};

struct wisp_fft {
    size_t n;
    struct axis column, row; /* n1 and n2 */
    struct wisp_roots roots; /* of n; of 2 n for a convolution */
    struct wisp_fft *inner;  /* of the convolution; NULL: none */
    double *spectrum;        /* (2, length of inner) of its kernel */
};

static void unit_root(double out[2], size_t j, size_t n)
{
    double t = -2 * M_PI * (double)j / (double)n;
    out[0] = cos(t);
    out[1] = sin(t);
}

wisp_status wisp_roots_init(struct wisp_roots *r, size_t n, wisp_error *err)
{
    *r = (struct wisp_roots){ .n = n };
    while ((size_t)1 << 2 * r->shift < n) r->shift++;
    size_t n_low = (size_t)1 << r->shift, n_high = (n >> r->shift) + 1;
    r->low = wisp_alloc(n_low + n_high, 2 * sizeof *r->low);
    if (!r->low) return wisp_fail_mem(err, (n_low + n_high) * 16, "roots of unity");
    r->high = r->low + 2 * n_low;
    for (size_t j = 0; j < n_low; j++) unit_root(r->low + 2 * j, j, n);
    for (size_t j = 0; j < n_high; j++) unit_root(r->high + 2 * j, j << r->shift, n);
    return WISP_OK;
}

void wisp_roots_clear(struct wisp_roots *r)
{
    wisp_free(r->low);
    *r = (struct wisp_roots){ 0 };
}

/* ---- short transforms, eight side by side ---- */

/* out = (re, im) * (c, s) */
static inline void store_times(double *out, const double *re, const double *im, double c, double s)
{
    for (int b = 0; b < LANES; b++) {
        out[b] = re[b] * c - im[b] * s;
        out[LANES + b] = re[b] * s + im[b] * c;
    }
}

/* One pass takes y[(j p + r) l + k] = e(j r l / n) sum_q e(q r / p) x[(j + q m) l + k] for
 * j < m, k < l; l is the product of the radices before, n = m p l. */
struct pass {
    size_t m, l;
    const double *root;
};

static void pass2(double *y, const double *x, struct pass s)
{
    for (size_t j = 0; j < s.m; j++) {
        const double *w = s.root + 2 * j * s.l;
        for (size_t k = 0; k < s.l; k++) {
            const double *a = x + (j * s.l + k) * ELEMENT, *b = a + s.m * s.l * ELEMENT;
            double *out = y + (2 * j * s.l + k) * ELEMENT, d[ELEMENT];
            for (int i = 0; i < ELEMENT; i++) {
                out[i] = a[i] + b[i];
                d[i] = a[i] - b[i];
            }
            store_times(out + s.l * ELEMENT, d, d + LANES, w[0], w[1]);
        }
    }
}

static void pass4(double *y, const double *x, struct pass s)
{
    size_t in_step = s.m * s.l * ELEMENT, out_step = s.l * ELEMENT;
    for (size_t j = 0; j < s.m; j++) {
        const double *w1 = s.root + 2 * j * s.l, *w2 = s.root + 4 * j * s.l,
                     *w3 = s.root + 6 * j * s.l;
        for (size_t k = 0; k < s.l; k++) {
            const double *a = x + (j * s.l + k) * ELEMENT, *b = a + in_step, *c = b + in_step,
                         *d = c + in_step;
            double *out = y + (4 * j * s.l + k) * ELEMENT;
            double sum[ELEMENT], one[ELEMENT], two[ELEMENT], three[ELEMENT];
            for (int i = 0; i < ELEMENT; i++) {
                out[i] = (a[i] + c[i]) + (b[i] + d[i]);
                sum[i] = (a[i] + c[i]) - (b[i] + d[i]);
                one[i] = a[i] - c[i];
                two[i] = b[i] - d[i];
            }
            for (int i = 0; i < LANES; i++) { /* one -+ i two */
                double re = two[LANES + i], im = two[i];
                three[i] = one[i] - re;
                three[LANES + i] = one[LANES + i] + im;
                one[i] += re;
                one[LANES + i] -= im;
            }
            store_times(out + out_step, one, one + LANES, w1[0], w1[1]);
            store_times(out + 2 * out_step, sum, sum + LANES, w2[0], w2[1]);
            store_times(out + 3 * out_step, three, three + LANES, w3[0], w3[1]);
        }
    }
}

/* An odd prime p: terms q and p - q have the same cosine and opposite sines, and so have results
 * r and p - r. */
static inline void butterfly(double *out, size_t out_step, const double *in, size_t in_step,
                             unsigned p, const double *turn, const double *w, size_t w_step)
{
    double plus[MAX_PRIME / 2][ELEMENT], minus[MAX_PRIME / 2][ELEMENT];
    unsigned half = p / 2;
    for (unsigned q = 1; q <= half; q++) {
        const double *a = in + q * in_step, *b = in + (p - q) * in_step;
        for (int i = 0; i < ELEMENT; i++) {
            plus[q - 1][i] = a[i] + b[i];
            minus[q - 1][i] = a[i] - b[i];
        }
    }
    double first[ELEMENT];
    memcpy(first, in, sizeof first);
    for (unsigned q = 0; q < half; q++)
        for (int i = 0; i < ELEMENT; i++) first[i] += plus[q][i];
    memcpy(out, first, sizeof first);
    for (unsigned r = 1; r <= half; r++) {
        double even[ELEMENT], odd[ELEMENT] = { 0 };
        memcpy(even, in, sizeof even);
        for (unsigned q = 1, at = r; q <= half; q++, at = at + r < p ? at + r : at + r - p) {
            double c = turn[2 * at], s = turn[2 * at + 1];
            for (int i = 0; i < ELEMENT; i++) {
                even[i] += c * plus[q - 1][i];
                odd[i] += s * minus[q - 1][i];
            }
        }
        double low[ELEMENT], high[ELEMENT]; /* even +- i odd */
        for (int i = 0; i < LANES; i++) {
            low[i] = even[i] - odd[LANES + i];
            low[LANES + i] = even[LANES + i] + odd[i];
            high[i] = even[i] + odd[LANES + i];
            high[LANES + i] = even[LANES + i] - odd[i];
        }
        const double *wl = w + r * w_step, *wh = w + (p - r) * w_step;
        store_times(out + r * out_step, low, low + LANES, wl[0], wl[1]);
        store_times(out + (p - r) * out_step, high, high + LANES, wh[0], wh[1]);
    }
}

static inline void pass_odd(double *y, const double *x, struct pass s, unsigned p)
{
    double turn[2 * MAX_PRIME];
    for (unsigned q = 0; q < p; q++) unit_root(turn + 2 * q, q, p);
    for (size_t j = 0; j < s.m; j++)
        for (size_t k = 0; k < s.l; k++)
            butterfly(y + (j * p * s.l + k) * ELEMENT, s.l * ELEMENT, x + (j * s.l + k) * ELEMENT,
                      s.m * s.l * ELEMENT, p, turn, s.root, 2 * j * s.l);
}

/* Transforms x (n elements) and says where the result is: in x or in y. */
static double *transform(const struct axis *a, double *x, double *y)
{
    struct pass s = { .m = a->n, .l = 1, .root = a->root };
    for (size_t f = 0; f < a->n_factors; f++) {
        unsigned p = a->factor[f];
        s.m /= p;
        switch (p) { /* constants let the compiler unroll */
        case 2:
            pass2(y, x, s);
            break;
        case 4:
            pass4(y, x, s);
            break;
        case 3:
            pass_odd(y, x, s, 3);
            break;
        case 5:
            pass_odd(y, x, s, 5);
            break;
        case 7:
            pass_odd(y, x, s, 7);
            break;
        default:
            pass_odd(y, x, s, p);
        }
        s.l *= p;
        double *t = x;
        x = y;
        y = t;
    }
    return x;
}

static wisp_status axis_init(struct axis *a, size_t n, wisp_error *err)
{
    *a = (struct axis){ .n = n };
    a->root = wisp_alloc(n, 2 * sizeof *a->root);
    if (!a->root) return wisp_fail_mem(err, n * 2 * sizeof *a->root, "roots of unity");
    for (size_t j = 0; j < n; j++) unit_root(a->root + 2 * j, j, n);
    for (; n % 4 == 0; n /= 4) a->factor[a->n_factors++] = 4;
    for (unsigned p = 2; n > 1; p++)
        for (; n % p == 0; n /= p) a->factor[a->n_factors++] = p;
    return WISP_OK;
}

/* ---- the four steps ---- */

static size_t lanes_at(size_t first, size_t n)
{
    return n - first < LANES ? n - first : LANES;
}

/* Columns first .. first + 7 of x. */
static void do_columns(const struct wisp_fft *f, double *re, double *im, size_t first, double *s)
{
    size_t n1 = f->column.n, n2 = f->row.n, n = lanes_at(first, n2);
    for (size_t j = 0; j < n1; j++) {
        memcpy(s + j * ELEMENT, re + j * n2 + first, n * sizeof *re);
        memcpy(s + j * ELEMENT + LANES, im + j * n2 + first, n * sizeof *im);
    }
    const double *t = transform(&f->column, s, s + n1 * ELEMENT);
    for (size_t k = 0; k < n1; k++) {
        const double *a = t + k * ELEMENT;
        double *to_re = re + k * n2 + first, *to_im = im + k * n2 + first;
        for (size_t b = 0; b < n; b++) {
            double c, d;
            wisp_root(&c, &d, &f->roots, k * (first + b));
            to_re[b] = a[b] * c - a[LANES + b] * d;
            to_im[b] = a[b] * d + a[LANES + b] * c;
        }
    }
}

/* Rows first .. first + 7 of x become columns of out. */
static void do_rows(const struct wisp_fft *f, double *out_re, double *out_im, const double *re,
                    const double *im, size_t first, double *s)
{
    size_t n1 = f->column.n, n2 = f->row.n, n = lanes_at(first, n1);
    for (size_t b = 0; b < n; b++) {
        const double *from_re = re + (first + b) * n2, *from_im = im + (first + b) * n2;
        for (size_t j = 0; j < n2; j++) {
            s[j * ELEMENT + b] = from_re[j];
            s[j * ELEMENT + LANES + b] = from_im[j];
        }
    }
    const double *t = transform(&f->row, s, s + n2 * ELEMENT);
    for (size_t k = 0; k < n2; k++) {
        memcpy(out_re + k * n1 + first, t + k * ELEMENT, n * sizeof *out_re);
        memcpy(out_im + k * n1 + first, t + k * ELEMENT + LANES, n * sizeof *out_im);
    }
}

static size_t steps_scratch(const struct wisp_fft *f)
{
    return 2 * ELEMENT * (f->column.n > f->row.n ? f->column.n : f->row.n);
}

static void run_steps(const struct wisp_fft *f, double *out_re, double *out_im, double *re,
                      double *im, double *scratch)
{
    memset(scratch, 0,
           steps_scratch(f) * sizeof *scratch); /* lanes of a short batch are computed */
    for (size_t j = 0; j < f->row.n; j += LANES) do_columns(f, re, im, j, scratch);
    for (size_t k = 0; k < f->column.n; k += LANES) do_rows(f, out_re, out_im, re, im, k, scratch);
}

/* ---- as a convolution ---- */

/* e(j^2 / (2 n)) */
static void chirp(double *c, double *s, const struct wisp_fft *f, size_t j)
{
    wisp_root(c, s, &f->roots, (size_t)((uint64_t)j * j % (2 * (uint64_t)f->n)));
}

/* (re, im) of 'to' = (re, im) of 'from' times (c, s) */
static void times(double *to_re, double *to_im, double re, double im, double c, double s)
{
    *to_re = re * c - im * s;
    *to_im = re * s + im * c;
}

static void run_convolution(const struct wisp_fft *f, double *out_re, double *out_im,
                            const double *re, const double *im, double *scratch)
{
    size_t n = f->n, size = f->inner->n;
    double *a = scratch, *b = a + size, *c = b + size, *d = c + size, *rest = d + size, w, v;
    memset(a, 0, 2 * size * sizeof *a);
    for (size_t j = 0; j < n; j++) {
        chirp(&w, &v, f, j);
        times(&a[j], &b[j], re[j], im[j], w, v);
    }
    wisp_fft_run(f->inner, c, d, a, b, rest);
    for (size_t k = 0; k < size; k++)
        times(&c[k], &d[k], c[k], d[k], f->spectrum[k], f->spectrum[size + k]);
    wisp_fft_run(f->inner, b, a, d, c, rest); /* back: parts exchanged */
    for (size_t k = 0; k < n; k++) {
        chirp(&w, &v, f, k);
        times(&out_re[k], &out_im[k], a[k], b[k], w, v);
    }
}

static wisp_status init_convolution(struct wisp_fft *f, wisp_error *err)
{
    size_t n = f->n, size = 1;
    while (size < 2 * n) size *= 2;
    wisp_status st = wisp_roots_init(&f->roots, 2 * n, err);
    if (!st) st = wisp_fft_create(&f->inner, size, err);
    if (st) return st;
    f->spectrum = wisp_alloc(size, 2 * sizeof *f->spectrum);
    size_t more = 2 * size + wisp_fft_scratch(f->inner);
    double *a = wisp_alloc(more, sizeof *a);
    if (!f->spectrum || !a) {
        wisp_free(a);
        return wisp_fail_mem(err, more * sizeof *a, "a Fourier transform");
    }
    memset(a, 0, 2 * size * sizeof *a);
    for (size_t j = 0; j < n; j++) { /* conjugates, at j and -j; the inverse divides by 'size' */
        double c, s;
        chirp(&c, &s, f, j);
        a[j] = a[(size - j) % size] = c / (double)size;
        a[size + j] = a[size + (size - j) % size] = -s / (double)size;
    }
    wisp_fft_run(f->inner, f->spectrum, f->spectrum + size, a, a + size, a + 2 * size);
    wisp_free(a);
    return WISP_OK;
}

/* ---- all ---- */

static size_t largest_prime(size_t n)
{
    size_t largest = 1;
    for (size_t p = 2; p * p <= n; p++)
        for (; n % p == 0; n /= p) largest = p;
    return n > 1 ? n : largest;
}

static wisp_status init_steps(struct wisp_fft *f, wisp_error *err)
{
    size_t n1 = (size_t)sqrt((double)f->n);
    while (f->n % n1) n1--;
    wisp_status st = axis_init(&f->column, n1, err);
    if (!st) st = axis_init(&f->row, f->n / n1, err);
    return st ? st : wisp_roots_init(&f->roots, f->n, err);
}

wisp_status wisp_fft_create(struct wisp_fft **out, size_t n, wisp_error *err)
{
    *out = NULL;
    if (n == 0 || n > (size_t)1 << 31) /* squares of places must fit */
        return wisp_fail(err, WISP_EINVAL,
                         "a Fourier transform of %zu numbers: 1 to 2^31 is "
                         "possible",
                         n);
    struct wisp_fft *f = wisp_zalloc(1, sizeof *f);
    if (!f) return wisp_fail_mem(err, sizeof *f, "a Fourier transform");
    f->n = n;
    wisp_status st = largest_prime(n) > MAX_PRIME ? init_convolution(f, err) : init_steps(f, err);
    if (st) wisp_fft_free(f);
    else *out = f;
    return st;
}

void wisp_fft_free(struct wisp_fft *f)
{
    if (!f) return;
    wisp_fft_free(f->inner);
    wisp_free(f->spectrum);
    wisp_free(f->column.root);
    wisp_free(f->row.root);
    wisp_roots_clear(&f->roots);
    wisp_free(f);
}

size_t wisp_fft_scratch(const struct wisp_fft *f)
{
    return f->inner ? 4 * f->inner->n + wisp_fft_scratch(f->inner) : steps_scratch(f);
}

void wisp_fft_run(const struct wisp_fft *f, double *out_re, double *out_im, double *re, double *im,
                  double *scratch)
{
    if (f->inner) run_convolution(f, out_re, out_im, re, im, scratch);
    else run_steps(f, out_re, out_im, re, im, scratch);
}
