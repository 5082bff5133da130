/* Every kernel of every instruction set of this machine against the scalar form (guarded.h); those
 * of bf16 are in test_bf16.c. */
#include "guarded.h"

/* ---- calls: x[] are the arrays in the order in which they were filled ---- */

CALL(axpy)
{
    k->axpy(x[0], x[1], -0.7f, c->n);
}
CALL(scale)
{
    k->scale(x[0], x[1], -0.7f, c->n);
}
CALL(scale_here)
{
    k->scale(x[0], x[0], -0.7f, c->n);
}
CALL(dot)
{
    x[0][0] = k->dot(x[1], x[2], c->n);
}
CALL(sum)
{
    x[0][0] = k->sum(x[1], c->n);
}
CALL(relu)
{
    k->relu(x[0], x[1], c->n);
}
CALL(relu_back)
{
    k->relu_back(x[0], x[1], x[2], c->n);
}
CALL(push)
{
    k->push(x[0], x[1], 0.37f, c->n);
}
CALL(adam)
{
    k->adam(x[0], x[1], x[2], x[3], c->n, &c->adam);
}
CALL(momentum)
{
    k->momentum(x[0], x[1], x[2], c->n, 0.9f, 0.01f, c->n % 2 ? 0.3f : 0);
}
CALL(above)
{
    x[3][0] = (float)k->above((int32_t *)x[0], x[1], x[2], c->n);
}
CALL(count_from)
{
    x[3][0] = (float)k->count_from(x[1], c->n, 0.1f);
}
CALL(holds)
{
    int32_t v;
    memcpy(&v, x[1], sizeof v);
    x[2][0] = k->holds((const int32_t *)x[0], c->n, v);
}
CALL(bag)
{
    k->bag(x[0], x[1], c->n + c->gap, (const int32_t *)x[2], x[3], c->k, c->n);
}
CALL(dots)
{
    k->dots(x[0], x[1], c->n + c->gap, (const int32_t *)x[2], c->m, x[3], c->n);
}
CALL(bag_dots)
{
    k->bag_dots(x[0], x[4], x[1], c->n + c->gap, (const int32_t *)x[2], x[3], c->m, x[5], c->n,
                c->add);
}
CALL(matvec)
{
    k->matvec(x[0], x[1], c->n + c->gap, c->m, x[2], c->n);
}
CALL(col_max)
{
    k->col_max(x[0], x[1], c->n + c->gap, c->m, c->n);
}
CALL(col_exp)
{
    k->col_exp(x[0], c->n + c->gap, x[1], x[2], c->m, c->n);
}
CALL(col_sigmoid)
{
    k->col_sigmoid(x[0], c->n + c->gap, x[1], c->m, c->n);
}
CALL(rows)
{
    k->row_sigmoid(x[0], x[1], c->n);
    k->row_tanh(x[2], x[1], c->n);
    k->row_gauss(x[1], x[1], c->n); /* in place */
}
CALL(transpose)
{
    k->transpose(x[0], c->m + c->gap, x[1], c->n + c->gap, c->m, c->n);
}
CALL(gemm)
{
    size_t lda = (c->transposed ? c->m : c->k) + c->gap;
    k->gemm(x[0], c->n + c->gap, x[1], c->transposed ? 1 : lda, c->transposed ? lda : 1, x[2],
            c->n + c->gap, c->m, c->n, c->k, c->add);
}
CALL(gemm_bias)
{
    k->gemm_bias(x[0], c->n + c->gap, x[1], c->k + c->gap, x[2], c->n + c->gap, x[3], c->m, c->n,
                 c->k);
}
CALL(winner)
{
    uint32_t empty = k->winner((uint32_t *)x[0], x[1], (const uint32_t *)x[2]);
    memcpy(x[3], &empty, sizeof empty);
    (void)c;
}

/* ---- the tests ---- */

static void test_arrays(size_t n)
{
    float *y = fill(0, n), *x = fill(1, n);
    for (size_t i = 0; i < n; i++) arrays[0].mass[i] = fabsf(y[i]) + fabsf(x[i]);
    check_case(&(struct call){ .name = "axpy", .fn = axpy, .n = n });
    for (size_t i = 0; i < n; i++) arrays[0].mass[i] = 0;
    if (n > 6) x[6] = NAN, y[6] = INFINITY;
    check_case(&(struct call){ .name = "scale", .fn = scale, .n = n });
    check_case(&(struct call){ .name = "scale in place", .fn = scale_here, .n = n });

    fill(0, 1), x = fill(1, n), y = fill(2, n);
    for (size_t i = 0; i < n; i++) arrays[0].mass[0] += fabsf(x[i] * y[i]);
    check_case(&(struct call){ .name = "dot", .fn = dot, .n = n });
    arrays[0].mass[0] = 0;
    for (size_t i = 0; i < n; i++) arrays[0].mass[0] += fabsf(x[i]);
    check_case(&(struct call){ .name = "sum", .fn = sum, .n = n });

    fill(0, n), x = fill(1, n), y = fill(2, n), fill(3, 1);
    for (size_t i = 0; i < n; i += 3) x[i] = i % 2 ? NAN : y[i];
    if (n > 5) y[5] = NAN;
    check_case(&(struct call){ .name = "relu", .fn = relu, .n = n });
    check_case(&(struct call){ .name = "relu_back", .fn = relu_back, .n = n });
    check_case(&(struct call){ .name = "push", .fn = push, .n = n });
    for (size_t a = 0; a < 3; a++)
        for (size_t i = 0; i < n; i++) arrays[a].mass[i] = 1;
    check_case(&(struct call){ .name = "row_sigmoid, row_tanh, row_gauss", .fn = rows, .n = n });
    if (n > 1) x[1] = 0.1f;
    check_case(&(struct call){ .name = "count_from", .fn = count_from, .n = n });
    check_case(&(struct call){ .name = "above", .fn = above, .n = n });
    size_t nans = 0;
    for (size_t i = 0; i < n; i++) nans += isnan(x[i]) || isnan(y[i]);
    CHECK(arrays[3].want[0] >= (float)nans, "a NaN was lost");
}

/* A number that is in at one place, at none, and one that unused lanes would have. */
static void test_holds(size_t n)
{
    float *x = fill(0, n), *v = fill(1, 1);
    fill(2, 1);
    for (size_t i = 0; i < n; i++) {
        int32_t other = (int32_t)(i * 3 + 1) * (i % 2 ? 1 : -1);
        memcpy(&x[i], &other, sizeof other);
    }
    for (size_t at = 0; at <= n; at += n < 40 ? 1 : 1 + at % 7) {
        int32_t wanted = at % 3 ? (int32_t)at * 3 : 0, was = 0;
        memcpy(v, &wanted, sizeof wanted);
        check_case(&(struct call){ .name = "holds", .fn = holds, .n = n });
        CHECK(arrays[2].want[0] == 0, "%d is not in", (int)wanted);
        if (at == n) break;
        memcpy(&was, &x[at], sizeof was);
        memcpy(&x[at], &wanted, sizeof wanted);
        check_case(&(struct call){ .name = "holds", .fn = holds, .n = n });
        CHECK(arrays[2].want[0] == 1, "%d is in", (int)wanted);
        memcpy(&x[at], &was, sizeof was);
    }
}

static void test_optimisers(size_t n)
{
    for (int zero_eps = 0; zero_eps < 2; zero_eps++) {
        fill(0, n), fill(1, n);
        float *v = fill(2, n), *g = fill(3, n);
        for (size_t i = 0; i < n; i++) v[i] *= v[i];
        for (size_t i = 0; i < n; i += 3) v[i] = g[i] = 0;
        if (n > 7) g[7] = NAN;
        check_case(&(struct call){ .name = "adam",
                                   .fn = adam,
                                   .n = n,
                                   .adam = { 0.9f, 0.999f, 1e-3f, zero_eps ? 0 : 1e-8f } });
        for (size_t i = 0; i < n; i++)
            CHECK(i == 7 ? isnan(arrays[0].want[i]) : isfinite(arrays[0].want[i]), "adam [%zu]", i);
    }
    check_case(&(struct call){ .name = "momentum", .fn = momentum, .n = n });
}

static void test_bag(size_t n, size_t nnz, size_t gap)
{
    enum { ROWS = 13 };
    float *out = fill(0, n), *w = fill_rows(1, ROWS, n, gap);
    float *ids = fill(2, nnz), *val = fill(3, nnz);
    for (size_t j = 0; j < n; j++) arrays[0].mass[j] = fabsf(out[j]);
    for (size_t i = 0; i < nnz; i++) {
        int32_t id = (int32_t)(test_rand(&seed) % ROWS);
        memcpy(&ids[i], &id, sizeof id);
        for (size_t j = 0; j < n; j++)
            arrays[0].mass[j] += fabsf(val[i] * w[(size_t)id * (n + gap) + j]);
    }
    check_case(&(struct call){ .name = "bag", .fn = bag, .n = n, .k = nnz, .gap = gap });
}

static void test_dots(size_t n, size_t m, size_t gap)
{
    enum { ROWS = 13 };
    fill(0, m);
    float *w = fill_rows(1, ROWS, n, gap), *ids = fill(2, m), *x = fill(3, n);
    for (size_t i = 0; i < m; i++) {
        int32_t id = (int32_t)(test_rand(&seed) % ROWS);
        memcpy(&ids[i], &id, sizeof id);
        for (size_t j = 0; j < n; j++)
            arrays[0].mass[i] += fabsf(w[(size_t)id * (n + gap) + j] * x[j]);
    }
    check_case(&(struct call){ .name = "dots", .fn = dots, .m = m, .n = n, .gap = gap });
}

static void test_bag_dots(size_t n, size_t m, size_t gap)
{
    enum { ROWS = 13 };
    float *out = fill(0, n), *w = fill_rows(1, ROWS, n, gap), *ids = fill(2, m), *val = fill(3, m);
    float *dot_of = fill(4, m), *x = fill(5, n);
    for (size_t j = 0; j < n; j++) arrays[0].mass[j] = fabsf(out[j]);
    for (size_t i = 0; i < m; i++) {
        const int32_t id = (int32_t)(test_rand(&seed) % ROWS);
        memcpy(&ids[i], &id, sizeof id);
        arrays[4].mass[i] = fabsf(dot_of[i]);
        for (size_t j = 0; j < n; j++) {
            const float y = w[(size_t)id * (n + gap) + j];
            arrays[0].mass[j] += fabsf(y * val[i]);
            arrays[4].mass[i] += fabsf(y * x[j]);
        }
    }
    for (int add = 0; add < 2; add++)
        check_case(&(struct call){
            .name = "bag_dots", .fn = bag_dots, .m = m, .n = n, .gap = gap, .add = add });
}

static void test_matvec(size_t n, size_t m, size_t gap)
{
    fill(0, m);
    float *w = fill_rows(1, m, n, gap), *x = fill(2, n);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) arrays[0].mass[i] += fabsf(w[i * (n + gap) + j] * x[j]);
    check_case(&(struct call){ .name = "matvec", .fn = matvec, .m = m, .n = n, .gap = gap });
}

static void test_columns(size_t m, size_t n, size_t gap)
{
    struct call c = { .m = m, .n = n, .gap = gap };
    fill(0, n), fill_rows(1, m, n, gap);
    c.name = "col_max", c.fn = col_max;
    check_case(&c);

    float *z = fill_rows(0, m, n, gap);
    fill(1, n), fill(2, n);
    for (size_t j = 0; j < n; j++) arrays[1].mass[j] = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float *at = &z[i * (n + gap) + j];
            *at = *at * 100 - 10; /* -110 .. 90: exp reaches 0 and infinity */
            if ((i * 7 + j) % 41 == 40) *at = NAN;
            arrays[0].mass[i * (n + gap) + j] = expf(*at - arrays[2].init[j]);
            arrays[1].mass[j] += expf(*at - arrays[2].init[j]);
        }
    c.name = "col_exp", c.fn = col_exp;
    check_case(&c);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            CHECK(!isnan(z[i * (n + gap) + j]) || isnan(arrays[1].want[j]), "NaN got lost");

    for (size_t j = 0; j < n; j++) arrays[1].mass[j] = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float x = z[i * (n + gap) + j], e = expf(-fabsf(x));
            arrays[0].mass[i * (n + gap) + j] = (x < 0 ? e : 1) / (1 + e);
            arrays[1].mass[j] += (x > 0 ? x : 0) + log1pf(e);
        }
    c.name = "col_sigmoid", c.fn = col_sigmoid;
    check_case(&c);
}

/* exp, log(1 + exp) and what is made of them in fine steps against double precision: a few units in the last place. */
static void test_accuracy(const struct wisp_kernels *k)
{
    enum { N = 64 };
    const float special[] = {
        0, -0.0f, -87, -87.00001f, -INFINITY, INFINITY, NAN, 1e-30f, 88.7f, 89
    };
    for (float x0 = -90; x0 < 90; x0 += 0.17f) {
        float z[N], p[N], x[N], total[N], loss[N], zero[N] = { 0 };
        for (size_t j = 0; j < N; j++) {
            x[j] = x0 == -90 && j < 10 ? special[j] : x0 + (float)j * 0.0027f;
            z[j] = p[j] = x[j];
        }
        k->col_exp(z, N, total, zero, 1, N);
        k->col_sigmoid(p, N, loss, 1, N);
        float rows[3][N];
        k->row_sigmoid(rows[0], x, N), k->row_tanh(rows[1], x, N), k->row_gauss(rows[2], x, N);
        for (size_t j = 0; j < N; j++) {
            double d = x[j], e = d < -87 ? 0 : exp(d);
            double l = d < -87 ? 0 : d > 30 ? d + exp(-d) : log1p(exp(d));
            double s = d < -87 ? 0 : 1 / (1 + exp(-d));
            CHECK(near(z[j], (float)e, 2.5e-7f * (float)e), "exp(%a) = %g: %g", d, e, z[j]);
            CHECK(near(loss[j], (float)l, 4e-7f * (float)l), "log1p(exp(%a)) = %g: %g", d, l,
                  loss[j]);
            CHECK(near(p[j], (float)s, 4e-7f * (float)s), "sigmoid(%a) = %g: %g", d, s, p[j]);
            const double t = tanh(d), g = d * d > 87 ? 0 : exp(-d * d);
            const double w = isinf(d) ? 0 : 1e-7 * d * d * g; /* d * d is rounded */
            CHECK(near(rows[0][j], (float)s, 4e-7f * (float)s), "row_sigmoid(%a) = %g: %g", d, s,
                  rows[0][j]);
            CHECK(near(rows[1][j], (float)t, 4e-7f * fabsf((float)t)), "row_tanh(%a) = %g: %g", d,
                  t, rows[1][j]);
            CHECK(signbit(rows[1][j]) == signbit(x[j]) || isnan(d), "row_tanh(%a) = %g", d,
                  rows[1][j]);
            CHECK(near(rows[2][j], (float)g, 4e-7f * (float)g + (float)w), "row_gauss(%a) = %g: %g",
                  d, g, rows[2][j]);
        }
    }
}

static void test_gemm(size_t m, size_t n, size_t k, size_t gap, bool transposed, bool add)
{
    float *c = fill_rows(0, m, n, gap);
    float *a = transposed ? fill_rows(1, k, m, gap) : fill_rows(1, m, k, gap);
    float *b = fill_rows(2, k, n, gap);
    size_t ras = transposed ? 1 : k + gap, cas = transposed ? m + gap : 1;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float mass = add ? fabsf(c[i * (n + gap) + j]) : 0;
            for (size_t p = 0; p < k; p++)
                mass += fabsf(a[i * ras + p * cas] * b[p * (n + gap) + j]);
            arrays[0].mass[i * (n + gap) + j] = mass;
        }
    check_case(&(struct call){ .name = "gemm",
                               .fn = gemm,
                               .m = m,
                               .n = n,
                               .k = k,
                               .gap = gap,
                               .transposed = transposed,
                               .add = add });
}

static void test_gemm_bias(size_t m, size_t n, size_t k, size_t gap)
{
    float *old = fill_rows(0, m, n, gap), *mass = arrays[0].mass;
    float *a = fill_rows(1, m, k, gap), *b = fill_rows(2, k, n, gap), *bias = fill(3, m);
    double *sum = calloc(m * (n + gap) + 1, sizeof *sum); /* of C */
    if (!sum) abort();
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            size_t at = i * (n + gap) + j;
            sum[at] = bias[i], mass[at] = fabsf(bias[i]);
            for (size_t p = 0; p < k; p++) {
                float term = a[i * (k + gap) + p] * b[p * (n + gap) + j];
                sum[at] += term, mass[at] += fabsf(term);
            }
            if (j % 2) old[at] = NAN; /* C is not read: this does not stay */
        }
    check_case(
        &(struct call){ .name = "gemm_bias", .fn = gemm_bias, .m = m, .n = n, .k = k, .gap = gap });
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            size_t at = i * (n + gap) + j;
            CHECK(near(arrays[0].want[at], (float)sum[at], 1e-6f * mass[at]),
                  "%zu x %zu x %zu: %g, not %g", m, n, k, arrays[0].want[at], sum[at]);
        }
    free(sum);
}

static void test_gemms(void)
{
    static const size_t dims[] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100
    };
    enum { N = sizeof dims / sizeof *dims };
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) /* k takes every value with every m */
            for (int form = 0; form < 4; form++)
                test_gemm(dims[i], dims[j], dims[(i * 5 + j * 7 + (size_t)form) % N],
                          (i + j) % 2 * 3, form & 1, form & 2);
    static const size_t deep[] = { 255, 256, 257, 520 };
    for (size_t i = 0; i < 4; i++)
        for (int form = 0; form < 4; form++)
            test_gemm(7 + 20 * i, 70, deep[i], 1, form & 1, form & 2);

    TEST("kernels: gemm_bias = scalar = double precision");
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            test_gemm_bias(dims[i], dims[j], dims[(i * 5 + j * 7) % N], (i + j) % 2 * 3);
    for (size_t i = 0; i < 4; i++)
        for (size_t n = 64; n < 80; n += 5) test_gemm_bias(7 + 20 * i, n, deep[i], 1);
}

/* A product done in pieces of C has the bytes of the whole: threads may cut where they like. */
static void test_pieces(const struct wisp_kernels *k, bool biased)
{
    enum { M = 41, N = 150, K = 300, CUT_M = 10, CUT_N = 37 };
    float *a = fill(0, M * K), *b = fill(1, K * N), *whole = fill(2, M * N), *cut = fill(3, M * N);
    float *bias = fill(4, M);
    if (biased) k->gemm_bias(whole, N, a, K, b, N, bias, M, N, K);
    else k->gemm(whole, N, a, K, 1, b, N, M, N, K, false);
    for (size_t i = 0; i < M; i += CUT_M)
        for (size_t j = 0; j < N; j += CUT_N) {
            size_t m = M - i < CUT_M ? M - i : CUT_M, n = N - j < CUT_N ? N - j : CUT_N;
            float *to = cut + i * N + j;
            if (biased) k->gemm_bias(to, N, a + i * K, K, b + j, N, bias + i, m, n, K);
            else k->gemm(to, N, a + i * K, K, 1, b + j, N, m, n, K, false);
        }
    CHECK(memcmp(whole, cut, M * N * sizeof *cut) == 0, "%s", k->name);

    b[5 * N + 70] = NAN; /* reaches its column and no other */
    if (biased) k->gemm_bias(whole, N, a, K, b, N, bias, M, N, K);
    else k->gemm(whole, N, a, K, 1, b, N, M, N, K, false);
    for (size_t i = 0; i < M * N; i++)
        CHECK(isnan(whole[i]) == (i % N == 70), "%s: NaN at %zu", k->name, i);
}

/* Few different values, so that ties are frequent; some vectors are empty, places may repeat. */
static void test_winner(size_t rows, size_t values)
{
    uint32_t key[32], place[8];
    float *keys = fill(0, 32), *xt = fill(1, rows * 32), *places = fill(2, 8);
    fill(3, 1);
    arrays[3].mass[0] = -1;
    for (size_t i = 0; i < 32; i++) {
        key[i] = (uint32_t)test_rand(&seed), arrays[0].mass[i] = -1;
        bool empty = test_rand(&seed) % 4 == 0;
        for (size_t r = 0; r < rows; r++) {
            float v = (float)(test_rand(&seed) % values) - (float)(values / 2);
            if (v == 0 && test_rand(&seed) % 2) v = -0.0f; /* no less than 0 */
            xt[r * 32 + i] = empty || test_rand(&seed) % 3 == 0 ? -INFINITY : v;
        }
    }
    for (size_t j = 0; j < 8; j++) place[j] = (uint32_t)(test_rand(&seed) % rows);
    place[test_rand(&seed) % 8] = (uint32_t)rows - 1; /* up to the end of the array */
    memcpy(keys, key, sizeof key);
    memcpy(places, place, sizeof place);
    check_case(&(struct call){ .name = "winner", .fn = winner, .m = rows, .n = values });

    uint32_t got[32], got_empty, want_empty = 0; /* scalar against another way to say it */
    memcpy(got, arrays[0].want, sizeof got);
    memcpy(&got_empty, arrays[3].want, sizeof got_empty);
    for (size_t i = 0; i < 32; i++) {
        uint32_t at = 7;
        for (uint32_t j = 7; j-- > 0;)
            if (xt[place[j] * 32 + i] >= xt[place[at] * 32 + i]) at = j;
        CHECK(got[i] == (key[i] * 8 | at), "vector %zu: %x, not %u", i, (unsigned)got[i],
              (unsigned)at);
        want_empty |= (uint32_t)(xt[place[at] * 32 + i] < -1e30f) << i;
    }
    CHECK(got_empty == want_empty, "%x are empty, not %x", (unsigned)got_empty,
          (unsigned)want_empty);
}

int main(void)
{
    TEST("kernels: select every set this machine has, refuse unknown ones");
    find_sets();
    struct wisp_kernels none;
    CHECK(wisp_kernels_select(&none, "abacus", NULL) != 0, "accepted");
    make_arrays();

    static const size_t more[] = { 127, 128, 129, 255, 256, 257, 300, 1000 };
    size_t lengths[101 + sizeof more / sizeof *more], n_lengths = 0;
    for (size_t n = 0; n <= 100; n++) lengths[n_lengths++] = n;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) lengths[n_lengths++] = more[i];

    TEST(
        "kernels: axpy, scale, dot, sum, relu, relu_back, above, count_from = scalar, all lengths");
    for (size_t i = 0; i < n_lengths; i++) test_arrays(lengths[i]);
    TEST("kernels: holds = scalar, all lengths, all places");
    for (size_t i = 0; i < n_lengths; i++) test_holds(lengths[i]);
    TEST("kernels: adam, momentum = scalar bit for bit, also with eps = 0");
    for (size_t i = 0; i < n_lengths; i++) test_optimisers(lengths[i]);
    TEST("kernels: bag = scalar, all lengths");
    for (size_t i = 0; i < n_lengths; i++)
        for (size_t nnz = 0; nnz < 20; nnz += 4 + i % 3) test_bag(lengths[i], nnz, i % 2 * 5);
    TEST("kernels: dots = scalar, all lengths");
    for (size_t i = 0; i < n_lengths; i++)
        for (size_t m = 0; m < 24; m += 1 + i % 4)
            test_dots(lengths[i], m, i % 2 * 5), test_bag_dots(lengths[i], m, i % 2 * 5);
    TEST("kernels: matvec = scalar, all lengths");
    for (size_t i = 0; i < n_lengths; i++)
        for (size_t m = 0; m < 11; m += 1 + i % 3) test_matvec(lengths[i], m, i % 2 * 5);
    TEST("kernels: col_max, col_exp, col_sigmoid = scalar, NaN stays");
    for (size_t i = 0; i < n_lengths; i++)
        for (size_t m = 1; m < 12; m += 5) test_columns(m, lengths[i], i % 2 * 3);
    TEST("kernels: transpose, all sizes to 35");
    for (size_t m = 0; m < 36; m++)
        for (size_t n = 0; n < 36; n++) {
            fill_rows(0, n, m, 2), fill_rows(1, m, n, 2);
            check_case(
                &(struct call){ .name = "transpose", .fn = transpose, .m = m, .n = n, .gap = 2 });
        }
    TEST("kernels: gemm = scalar, both layouts of A");
    test_gemms();
    TEST("kernels: gemm in pieces gives the bytes of the whole, NaN stays in its column");
    for (size_t s = 0; s < n_sets; s++) test_pieces(&sets[s], false), test_pieces(&sets[s], true);
    TEST("kernels: winner = scalar: ties go to the first, nobody wins an empty vector");
    for (size_t i = 0; i < 600; i++) test_winner(1 + i % 40, 1 + i % 7 * 3);
    TEST("kernels: exp and log1p to a few units in the last place");
    for (size_t s = 0; s < n_sets; s++) test_accuracy(&sets[s]);
    return test_end();
}
