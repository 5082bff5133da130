/* Products of matrices by cuBLASLt (blas.cuh).
 *
 * The few types, numbers and functions of its interface that are used are declared here.  It counts
 * columns first: what lies by rows is turned there, so c^T = b^T a^T is what it is asked for.  The
 * algorithm is the first that its own table names, within bounds of memory: no measurement, so that a
 * run repeats. */
#include "cuda/blas.cuh"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include <new>

enum { FLOATS = 0, HALVES = 14 };      /* cudaDataType_t */
enum { IN_FLOATS = 68, IN_TF32 = 77 }; /* cublasComputeType_t */
enum { TURN_A = 3 };                   /* cublasLtMatmulDescAttributes_t */
enum { TURNED = 1, MOST_MEMORY = 1 };  /* cublasOperation_t; of preferences */
static const uint64_t MOST_BYTES = (uint64_t)32 << 20;

struct algorithm { /* cublasLtMatmulHeuristicResult_t, with its algorithm */
    uint64_t algo[8];
    size_t bytes;
    int state;
    float waves;
    int reserved[4];
};

typedef void *handle_t;
typedef void *desc_t;
/* clang-format off */
#define FUNCTIONS(F) \
    F(Create, (handle_t *)) \
    F(MatmulDescCreate, (desc_t *, int, int)) \
    F(MatmulDescSetAttribute, (desc_t, int, const void *, size_t)) \
    F(MatmulDescDestroy, (desc_t)) \
    F(MatrixLayoutCreate, (desc_t *, int, uint64_t, uint64_t, int64_t)) \
    F(MatrixLayoutDestroy, (desc_t)) \
    F(MatmulPreferenceCreate, (desc_t *)) \
    F(MatmulPreferenceSetAttribute, (desc_t, int, const void *, size_t)) \
    F(MatmulPreferenceDestroy, (desc_t)) \
    F(MatmulAlgoGetHeuristic, (handle_t, desc_t, desc_t, desc_t, desc_t, desc_t, desc_t, int, struct algorithm *, int *)) \
    F(Matmul, (handle_t, desc_t, const void *, const void *, desc_t, const void *, desc_t, const void *, const void *, desc_t, void *, desc_t, const void *, void *, size_t, cudaStream_t))
/* clang-format on */

struct library {
#define F(name, arguments) int(*name) arguments;
    FUNCTIONS(F)
#undef F
    handle_t handle;
    bool open;
    char says[96];
};

bool wisp_dlibraries_off;

/* That of the toolkit that this was built with: its numbers are those above. */
static struct library load_library()
{
    struct library l = {};
    char name[32];
    snprintf(name, sizeof name, "libcublasLt.so.%d", CUDART_VERSION / 1000);
    void *file = wisp_dlibraries_off ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    size_t (*version)(void) = file ? (size_t(*)(void))dlsym(file, "cublasLtGetVersion") : NULL;
    if (!version) {
        snprintf(l.says, sizeof l.says, "no cuBLAS: %s cannot be opened", name);
        return l;
    }
    const size_t v = version();
    snprintf(l.says, sizeof l.says, "cuBLAS %u.%u.%u", (unsigned)(v / 10000),
             (unsigned)(v / 100 % 100), (unsigned)(v % 100));
    bool all = true;
#define F(name, arguments)                                                                         \
    l.name = (int(*) arguments)dlsym(file, "cublasLt" #name);                                      \
    all = all && l.name;
    FUNCTIONS(F)
#undef F
    if (!all) snprintf(l.says, sizeof l.says, "no cuBLAS: %s lacks a function", name);
    else if (l.Create(&l.handle)) snprintf(l.says, sizeof l.says, "no cuBLAS: it finds no card");
    else l.open = true;
    return l;
}
static const struct library &library_of()
{
    static const struct library l = load_library();
    return l;
}

const char *wisp_dblas_library(void)
{
    return library_of().says;
}

struct wisp_dblas {
    desc_t how, a, b, c; /* of the library's: its a is our b */
    struct algorithm found;
};

static bool describe(struct wisp_dblas *p, const struct wisp_dblas_sizes *z)
{
    const struct library &l = library_of();
    const int type = z->half ? HALVES : FLOATS, turned = TURNED;
    if (l.MatmulDescCreate(&p->how, z->half ? IN_FLOATS : IN_TF32, FLOATS)) return false;
    if (z->turned && l.MatmulDescSetAttribute(p->how, TURN_A, &turned, sizeof turned)) return false;
    const size_t down = z->turned ? z->depth : z->cols, across = z->turned ? z->cols : z->depth;
    return !l.MatrixLayoutCreate(&p->a, type, down, across, (int64_t)down) &&
           !l.MatrixLayoutCreate(&p->b, type, z->depth, z->rows, (int64_t)z->depth) &&
           !l.MatrixLayoutCreate(&p->c, FLOATS, z->cols, z->rows, (int64_t)z->cols);
}

static bool choose(struct wisp_dblas *p)
{
    const struct library &l = library_of();
    desc_t wanted = NULL;
    int n = 0;
    if (l.MatmulPreferenceCreate(&wanted)) return false;
    bool bad =
        l.MatmulPreferenceSetAttribute(wanted, MOST_MEMORY, &MOST_BYTES, sizeof MOST_BYTES) ||
        l.MatmulAlgoGetHeuristic(l.handle, p->how, p->a, p->b, p->c, p->c, wanted, 1, &p->found,
                                 &n);
    l.MatmulPreferenceDestroy(wanted);
    return !bad && n == 1 && !p->found.state;
}

struct wisp_dblas *wisp_dblas_make(const struct wisp_dblas_sizes *z)
{
    if (!library_of().open) return NULL;
    struct wisp_dblas *p = new (std::nothrow) wisp_dblas{};
    if (p && describe(p, z) && choose(p)) return p;
    wisp_dblas_free(p);
    return NULL;
}

void wisp_dblas_free(struct wisp_dblas *p)
{
    const struct library &l = library_of();
    if (!p) return;
    if (p->how) l.MatmulDescDestroy(p->how);
    for (desc_t d : { p->a, p->b, p->c })
        if (d) l.MatrixLayoutDestroy(d);
    delete p;
}

size_t wisp_dblas_bytes(const struct wisp_dblas *p)
{
    return p->found.bytes;
}

bool wisp_dblas_run(const struct wisp_dblas *p, float *c, const void *a, const void *b, void *work,
                    cudaStream_t s)
{
    static const float one = 1, zero = 0;
    const struct library &l = library_of();
    return !l.Matmul(l.handle, p->how, &one, b, p->a, a, p->b, &zero, c, p->c, c, p->c,
                     p->found.algo, work, p->found.bytes, s);
}
