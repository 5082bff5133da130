/* Speed of the matrix product on one core, for the shapes of the output layer.
 *
 *   cc -O2 -Iinclude -Isrc bench/gemm.c build/libwisp.a -o gemm -lm               ours alone
 *   cc -O2 -DHAVE_DNNL ... -ldnnl; OMP_NUM_THREADS=1 ./gemm                       with oneDNN
 *
 * GFLOP/s counts 2 m n k per product.  Each figure is the best of many runs, because the
 * machine may be busy with other things.  The floor is a loop of independent fused
 * multiply-adds in registers: no product can be faster than this. */
#include "kernels/kernels.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_DNNL
#include <dnnl.h>
#endif

enum { MAX_DIM = 1024, RUNS = 12, MAX_ISAS = 8 };
static const double RUN_SECONDS = 0.01;

static const struct shape {
    const char *what;
    size_t m, n, k;
    bool transposed, add;
} shapes[] = {
    { "logits: W block x H^T", 64, 256, 256, false, false },
    { "logits", 128, 256, 256, false, false },
    { "logits", 256, 256, 256, false, false },
    { "logits, hidden 128", 256, 256, 128, false, false },
    { "logits, 1024 samples", 256, 1024, 256, false, false },
    { "logits, 1024 rows", 1024, 256, 256, false, false },
    { "gradient of W: G block x H", 64, 256, 256, false, true },
    { "gradient of W, hidden 128", 256, 128, 256, false, true },
    { "gradient of H: G^T x W block", 256, 256, 64, true, true },
    { "gradient of H", 256, 256, 128, true, true },
    { "gradient of H", 256, 256, 256, true, true },
    { "gradient of H, hidden 128", 256, 128, 256, true, true },
    { "odd", 101, 203, 97, false, false },
    { "odd, transposed", 101, 203, 97, true, true },
    { "one row", 1, 256, 256, false, false },
    { "four rows", 4, 256, 256, false, false },
};

struct operands {
    float *c, *a, *b;
    const struct wisp_kernels *k; /* NULL: oneDNN */
};

static void product(const struct operands *o, const struct shape *s)
{
    size_t lda = s->transposed ? s->m : s->k;
    if (o->k) {
        o->k->gemm(o->c, s->n, o->a, s->transposed ? 1 : lda, s->transposed ? lda : 1, o->b, s->n,
                   s->m, s->n, s->k, s->add);
        return;
    }
#ifdef HAVE_DNNL
    dnnl_sgemm(s->transposed ? 'T' : 'N', 'N', (dnnl_dim_t)s->m, (dnnl_dim_t)s->n, (dnnl_dim_t)s->k,
               1.0f, o->a, (dnnl_dim_t)lda, o->b, (dnnl_dim_t)s->n, s->add ? 1.0f : 0.0f, o->c,
               (dnnl_dim_t)s->n);
#endif
}

static double gflops(const struct operands *o, const struct shape *s)
{
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now(), seconds;
        size_t times = 0;
        do {
            product(o, s);
            times++;
        } while ((seconds = now() - start) < RUN_SECONDS);
        double rate = 2e-9 * (double)(s->m * s->n * s->k) * (double)times / seconds;
        if (rate > best) best = rate;
    }
    return best;
}

static float *filled(size_t n)
{
    float *x = aligned_alloc(64, n * sizeof *x);
    if (!x) {
        fputs("gemm: out of memory\n", stderr);
        exit(1);
    }
    for (size_t i = 0; i < n; i++) x[i] = (float)(i * 7 % 13) * 1e-3f;
    return x;
}

int main(void)
{
    struct wisp_kernels tables[MAX_ISAS];
    size_t n_isas = 0;
    for (const char *name; n_isas < MAX_ISAS && (name = wisp_kernels_isa(n_isas, NULL)) != NULL;
         n_isas++)
        if (wisp_kernels_select(&tables[n_isas], name, NULL) != 0) break;

    struct operands o = { filled((size_t)MAX_DIM * MAX_DIM), filled((size_t)MAX_DIM * MAX_DIM),
                          filled((size_t)MAX_DIM * MAX_DIM), NULL };
    printf("%-30s %4s %4s %4s", "GFLOP/s, one thread", "m", "n", "k");
    for (size_t i = 0; i < n_isas; i++) printf(" %8s", tables[i].name);
#ifdef HAVE_DNNL
    printf(" %8s", "onednn");
#endif
    printf("\n%-45s", "multiply-add in registers");
    for (size_t i = 0; i < n_isas; i++) printf(" %8.1f", peak(tables[i].name));
    putchar('\n');
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        printf("%-30s %4zu %4zu %4zu", s->what, s->m, s->n, s->k);
        for (size_t j = 0; j < n_isas; j++) {
            o.k = &tables[j];
            printf(" %8.1f", gflops(&o, s));
        }
#ifdef HAVE_DNNL
        o.k = NULL;
        printf(" %8.1f", gflops(&o, s));
#endif
        putchar('\n');
        fflush(stdout);
    }
    free(o.a);
    free(o.b);
    free(o.c);
    return 0;
}
