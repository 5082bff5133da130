/* Convolution by cuDNN, opened at run time: wisp-cuda.so is built and runs without it.
 *
 * The few types, numbers and functions of its interface (version 9) that are used are declared here.
 * Only algorithms that it says repeat bit for bit are taken, of those the first that its own table
 * for these sizes names and whose memory is within bounds: no measurement, so that a run repeats.
 * Without tensor cores its fast algorithms want channels outermost and turn values in memory as
 * large as these: there a pass goes through the batch in as many pieces as that takes.
 * In bf16 its gradient of weights is rounded to bf16 before it is a float again, and the bias is
 * rounded; without a ReLU the bias is added to sums that are rounded already. */
#include "cuda/blas.cuh"
#include "cuda/conv.cuh"
#include "cuda/vector.cuh"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <mutex>
#include <new>

/* ---- the library ---- */

enum { FLOATS = 0, HALVES = 9, NHWC = 1, CROSS_CORRELATION = 1, RELU = 1, NO_NAN = 0, REPEATS = 1 };
enum { ANY_MATH = 0, TENSOR_MATH = 1, FMA_MATH = 3 }; /* of floats, any is TF32 */
enum { ALGORITHMS = 16 };

struct answer { /* cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, which are alike */
    int algorithm, status;
    float ms;
    size_t bytes;
    int repeats, math, reserved[3];
};

typedef void *handle_t;
typedef void *desc_t;
/* clang-format off */
#define FUNCTIONS(F) \
    F(Create, (handle_t *)) \
    F(SetStream, (handle_t, cudaStream_t)) \
    F(CreateTensorDescriptor, (desc_t *)) \
    F(SetTensor4dDescriptor, (desc_t, int, int, int, int, int, int)) \
    F(DestroyTensorDescriptor, (desc_t)) \
    F(CreateFilterDescriptor, (desc_t *)) \
    F(SetFilter4dDescriptor, (desc_t, int, int, int, int, int, int)) \
    F(DestroyFilterDescriptor, (desc_t)) \
    F(CreateActivationDescriptor, (desc_t *)) \
    F(SetActivationDescriptor, (desc_t, int, int, double)) \
    F(DestroyActivationDescriptor, (desc_t)) \
    F(CreateConvolutionDescriptor, (desc_t *)) \
    F(SetConvolution2dDescriptor, (desc_t, int, int, int, int, int, int, int, int)) \
    F(SetConvolutionMathType, (desc_t, int)) \
    F(SetConvolutionGroupCount, (desc_t, int)) \
    F(DestroyConvolutionDescriptor, (desc_t)) \
    F(GetConvolutionForwardAlgorithm_v7, (handle_t, desc_t, desc_t, desc_t, desc_t, int, int *, struct answer *)) \
    F(GetConvolutionBackwardDataAlgorithm_v7, (handle_t, desc_t, desc_t, desc_t, desc_t, int, int *, struct answer *)) \
    F(GetConvolutionBackwardFilterAlgorithm_v7, (handle_t, desc_t, desc_t, desc_t, desc_t, int, int *, struct answer *)) \
    F(FindConvolutionForwardAlgorithmEx, (handle_t, desc_t, const void *, desc_t, const void *, desc_t, desc_t, void *, int, int *, struct answer *, void *, size_t)) \
    F(FindConvolutionBackwardDataAlgorithmEx, (handle_t, desc_t, const void *, desc_t, const void *, desc_t, desc_t, void *, int, int *, struct answer *, void *, size_t)) \
    F(FindConvolutionBackwardFilterAlgorithmEx, (handle_t, desc_t, const void *, desc_t, const void *, desc_t, desc_t, void *, int, int *, struct answer *, void *, size_t)) \
    F(GetConvolutionForwardWorkspaceSize, (handle_t, desc_t, desc_t, desc_t, desc_t, int, size_t *)) \
    F(GetConvolutionBackwardDataWorkspaceSize, (handle_t, desc_t, desc_t, desc_t, desc_t, int, size_t *)) \
    F(GetConvolutionBackwardFilterWorkspaceSize, (handle_t, desc_t, desc_t, desc_t, desc_t, int, size_t *)) \
    F(ConvolutionForward, (handle_t, const void *, desc_t, const void *, desc_t, const void *, desc_t, int, void *, size_t, const void *, desc_t, void *)) \
    F(ConvolutionBiasActivationForward, (handle_t, const void *, desc_t, const void *, desc_t, const void *, desc_t, int, void *, size_t, const void *, desc_t, const void *, desc_t, const void *, desc_t, desc_t, void *)) \
    F(ConvolutionBackwardData, (handle_t, const void *, desc_t, const void *, desc_t, const void *, desc_t, int, void *, size_t, const void *, desc_t, void *)) \
    F(ConvolutionBackwardFilter, (handle_t, const void *, desc_t, const void *, desc_t, const void *, desc_t, int, void *, size_t, const void *, desc_t, void *))
/* clang-format on */

struct library {
#define F(name, arguments) int(*name) arguments;
    FUNCTIONS(F)
#undef F
    handle_t handle, aside; /* one per stream */
    bool open;
    char says[96];
};

/* Opened once; a handle serves one caller at a time. */
static struct library load_library()
{
    struct library l = {};
    void *file = wisp_dlibraries_off ? NULL : dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    size_t (*version)(void) = file ? (size_t(*)(void))dlsym(file, "cudnnGetVersion") : NULL;
    if (!version) {
        snprintf(l.says, sizeof l.says, "no cuDNN: libcudnn.so.9 cannot be opened");
        return l;
    }
    const size_t v = version();
    const unsigned major = (unsigned)(v / 10000), minor = (unsigned)(v / 100 % 100);
    snprintf(l.says, sizeof l.says, "cuDNN %u.%u.%u", major, minor, (unsigned)(v % 100));
    bool all = major == 9;
#define F(name, arguments)                                                                         \
    l.name = (int(*) arguments)dlsym(file, "cudnn" #name);                                         \
    all = all && l.name;
    FUNCTIONS(F)
#undef F
    if (!all) snprintf(l.says, sizeof l.says, "no cuDNN: that of libcudnn.so.9 is %zu, not 9.x", v);
    else if (l.Create(&l.handle) || l.Create(&l.aside))
        snprintf(l.says, sizeof l.says, "no cuDNN: it finds no card");
    else l.open = true;
    return l;
}
static const struct library &library_of()
{
    static const struct library l = load_library();
    return l;
}
static std::mutex one_caller;

const char *wisp_dconv_library(void)
{
    return library_of().says;
}

/* ---- a pass, prepared ---- */

/* Of an algorithm's memory: those that are taken for the layers of known nets have up to 18 MiB, and
 * 256 where values are turned (cuDNN 9.19 on an H200, fp32, 64 to 64 channels, 3 x 3 at 32 pixels, 512
 * samples: 25 TFLOP/s forward with them, 10 without). */
static const size_t MOST_BYTES = (size_t)64 << 20;
size_t wisp_dconv_turned = (size_t)256 << 20;

struct made {
    desc_t x, y, w, conv, bias, relu;
    int algorithm;
    size_t pieces; /* of the batch, one after the other: x and y are of one */
    size_t bytes;  /* of the algorithm; what is ours lies before them */
};

static void destroy(void *p)
{
    struct made *m = (struct made *)p;
    const struct library &l = library_of();
    if (m->x) l.DestroyTensorDescriptor(m->x);
    if (m->y) l.DestroyTensorDescriptor(m->y);
    if (m->bias) l.DestroyTensorDescriptor(m->bias);
    if (m->w) l.DestroyFilterDescriptor(m->w);
    if (m->conv) l.DestroyConvolutionDescriptor(m->conv);
    if (m->relu) l.DestroyActivationDescriptor(m->relu);
    delete m;
}

static int math_of(const struct wisp_dconv *c)
{
    if (c->math == WISP_DCONV_FP32) return FMA_MATH;
    return c->math == WISP_DCONV_TF32 ? ANY_MATH : TENSOR_MATH;
}

static int type_of(const struct wisp_dconv *c)
{
    return c->math == WISP_DCONV_BF16 ? HALVES : FLOATS;
}

static bool cut(struct made *m, const struct wisp_dconv *c, size_t pieces)
{
    const struct library &l = library_of();
    const int type = type_of(c), n = (int)(c->n / pieces);
    m->pieces = pieces;
    return !l.SetTensor4dDescriptor(m->x, NHWC, type, n, (int)c->in, (int)c->h, (int)c->w) &&
           !l.SetTensor4dDescriptor(m->y, NHWC, type, n, (int)c->out, (int)c->oh, (int)c->ow);
}

static bool describe(struct made *m, const struct wisp_dconv *c)
{
    const struct library &l = library_of();
    const int type = type_of(c), in = (int)c->in, out = (int)c->out, groups = (int)c->groups;
    const int pad_h = (int)c->pad_h, pad_w = (int)c->pad_w, stride = (int)c->stride;
    if (l.CreateTensorDescriptor(&m->x) || l.CreateTensorDescriptor(&m->y) ||
        l.CreateTensorDescriptor(&m->bias) || l.CreateFilterDescriptor(&m->w) ||
        l.CreateConvolutionDescriptor(&m->conv) || l.CreateActivationDescriptor(&m->relu))
        return false;
    return cut(m, c, 1) && !l.SetTensor4dDescriptor(m->bias, NHWC, type, 1, out, 1, 1) &&
           !l.SetFilter4dDescriptor(m->w, type, NHWC, out, in / groups, (int)c->kh, (int)c->kw) &&
           !l.SetConvolution2dDescriptor(m->conv, pad_h, pad_w, stride, stride, 1, 1,
                                         CROSS_CORRELATION, FLOATS) &&
           !l.SetConvolutionGroupCount(m->conv, groups) &&
           !l.SetConvolutionMathType(m->conv, math_of(c)) &&
           !l.SetActivationDescriptor(m->relu, RELU, NO_NAN, 0);
}

static int list(struct answer (&found)[ALGORITHMS], const struct made *m, enum wisp_dconv_pass pass)
{
    const struct library &l = library_of();
    int n = 0, bad;
    if (pass == WISP_DCONV_FORWARD)
        bad = l.GetConvolutionForwardAlgorithm_v7(l.handle, m->x, m->w, m->conv, m->y, ALGORITHMS,
                                                  &n, found);
    else if (pass == WISP_DCONV_DATA)
        bad = l.GetConvolutionBackwardDataAlgorithm_v7(l.handle, m->w, m->y, m->conv, m->x,
                                                       ALGORITHMS, &n, found);
    else
        bad = l.GetConvolutionBackwardFilterAlgorithm_v7(l.handle, m->x, m->y, m->conv, m->w,
                                                         ALGORITHMS, &n, found);
    return bad ? 0 : n;
}

static size_t memory_of(const struct made *m, enum wisp_dconv_pass pass)
{
    const struct library &l = library_of();
    size_t bytes = 0;
    int bad;
    if (pass == WISP_DCONV_FORWARD)
        bad = l.GetConvolutionForwardWorkspaceSize(l.handle, m->x, m->w, m->conv, m->y,
                                                   m->algorithm, &bytes);
    else if (pass == WISP_DCONV_DATA)
        bad = l.GetConvolutionBackwardDataWorkspaceSize(l.handle, m->w, m->y, m->conv, m->x,
                                                        m->algorithm, &bytes);
    else
        bad = l.GetConvolutionBackwardFilterWorkspaceSize(l.handle, m->x, m->y, m->conv, m->w,
                                                          m->algorithm, &bytes);
    return bad ? SIZE_MAX : bytes;
}

/* Is the algorithm's memory within bounds?  It may be for pieces of the batch. */
static bool fits(struct made *m, const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const bool turns = c->math == WISP_DCONV_FP32 && pass != WISP_DCONV_WEIGHTS;
    for (size_t pieces = 1; c->n % pieces == 0; pieces *= 2) {
        if (!cut(m, c, pieces)) return false;
        m->bytes = memory_of(m, pass);
        if (m->bytes <= (turns ? wisp_dconv_turned : MOST_BYTES)) return true;
        if (!turns) return false;
    }
    return false;
}

/* The first that repeats and whose memory is within bounds. */
static bool choose(struct made *m, const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    struct answer found[ALGORITHMS];
    const int n = list(found, m, pass);
    for (int i = 0; i < n; i++) {
        if (found[i].status || found[i].repeats != REPEATS) continue;
        if (c->math == WISP_DCONV_FP32 && found[i].math != FMA_MATH) continue;
        m->algorithm = found[i].algorithm;
        if (library_of().SetConvolutionMathType(m->conv, found[i].math)) continue;
        if (fits(m, c, pass)) return true;
    }
    return false;
}

static bool can(const struct wisp_dconv *c, enum wisp_dconv_pass)
{
    return library_of().open && c->n * c->h * c->w * c->in <= 0x7fffffff &&
           c->n * c->oh * c->ow * c->out <= 0x7fffffff;
}

static bool make(void **out, const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const std::lock_guard<std::mutex> alone(one_caller);
    struct made *m = new (std::nothrow) made{};
    if (m && describe(m, c) && choose(m, c, pass)) {
        *out = m;
        return true;
    }
    if (m) destroy(m);
    return false;
}

/* ---- what it leaves to do ---- */

enum { THREADS = 256 };

/* to (n) = from, rounded, or 0 where there is none. */
template <class T> __global__ static void round_bias(T *to, const float *from, size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) to[i] = (T)(from ? from[i] : 0);
}

__global__ static void widen(float *to, const __nv_bfloat16 *from, size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) to[i] = (float)from[i];
}

/* y += bias, then max(., 0) where relu; n pieces of N values. */
template <class T, int N>
__global__ static void finish(T *y, const float *bias, bool relu, size_t channels, size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    auto v = wisp_vector<T, N>::at(y + i * N);
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (bias) v.v[k] += bias[(i * N + k) % channels];
        if (relu && !(v.v[k] > 0)) v.v[k] = 0;
    }
    v.to(y + i * N);
}

/* gx = 0 where the gate is not positive; n pieces of N values. */
template <class T, int N> __global__ static void close_gate(T *gx, const T *gate, size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    auto v = wisp_vector<T, N>::at(gx + i * N);
    const auto h = wisp_vector<T, N>::at(gate + i * N);
#pragma unroll
    for (int k = 0; k < N; k++) v.v[k] = h.v[k] > 0 ? v.v[k] : 0;
    v.to(gx + i * N);
}

static unsigned blocks(size_t n)
{
    return (unsigned)wisp_parts(n, THREADS);
}

/* ---- the way ---- */

/* Bytes of ours, before the algorithm's: the bias, or the gradient of weights in bf16. */
static size_t head(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    size_t bytes = 0;
    if (pass == WISP_DCONV_FORWARD) bytes = c->out * wisp_dconv_size(c);
    if (pass == WISP_DCONV_WEIGHTS && c->math == WISP_DCONV_BF16)
        bytes = c->out * wisp_dconv_row(c) * 2;
    return wisp_up(bytes, 256);
}

static size_t bytes(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *p)
{
    return head(c, pass) + ((const struct made *)p)->bytes;
}

static const float one = 1, zero = 0;

/* call(values before a piece's in x, and in y) of all pieces, until one fails. */
template <class F>
static int each_piece(const struct wisp_dconv *c, const struct made *m, const F &call)
{
    const size_t x = c->n / m->pieces * c->h * c->w * c->in,
                 y = c->n / m->pieces * c->oh * c->ow * c->out;
    int bad = 0;
    for (size_t i = 0; i < m->pieces && !bad; i++) bad = call(i * x, i * y);
    return bad;
}

template <class T>
static int forward(const struct wisp_dconv *c, const struct made *m, const struct wisp_dconv_job *j,
                   cudaStream_t s)
{
    const struct library &l = library_of();
    char *work = (char *)j->work + head(c, WISP_DCONV_FORWARD);
    const size_t values = c->n * c->oh * c->ow * c->out;
    const T *from = (const T *)j->x;
    T *to = (T *)j->y;
    if (j->relu) {
        round_bias<<<blocks(c->out), THREADS, 0, s>>>((T *)j->work, j->bias, c->out);
        const int bad = each_piece(c, m, [&](size_t x, size_t y) {
            return l.ConvolutionBiasActivationForward(
                l.handle, &one, m->x, from + x, m->w, j->w, m->conv, m->algorithm, work, m->bytes,
                &zero, m->y, to + y, m->bias, j->work, m->relu, m->y, to + y);
        });
        if (!bad) return 0;
    }
    const int bad = each_piece(c, m, [&](size_t x, size_t y) {
        return l.ConvolutionForward(l.handle, &one, m->x, from + x, m->w, j->w, m->conv,
                                    m->algorithm, work, m->bytes, &zero, m->y, to + y);
    });
    if (bad || !(j->bias || j->relu)) return bad;
    constexpr int N = 16 / (int)sizeof(T);
    if (values % N == 0)
        finish<T, N><<<blocks(values / N), THREADS, 0, s>>>((T *)j->y, j->bias, j->relu, c->out,
                                                            values / N);
    else
        finish<T, 1>
            <<<blocks(values), THREADS, 0, s>>>((T *)j->y, j->bias, j->relu, c->out, values);
    return 0;
}

template <class T>
static int data(const struct wisp_dconv *c, const struct made *m, const struct wisp_dconv_job *j,
                cudaStream_t s)
{
    const struct library &l = library_of();
    const size_t values = c->n * c->h * c->w * c->in;
    const T *from = (const T *)j->gy;
    T *to = (T *)j->gx;
    const int bad = each_piece(c, m, [&](size_t x, size_t y) {
        return l.ConvolutionBackwardData(l.handle, &one, m->w, j->w, m->y, from + y, m->conv,
                                         m->algorithm, j->work, m->bytes, j->add ? &one : &zero,
                                         m->x, to + x);
    });
    if (bad || !j->gate) return bad;
    constexpr int N = 16 / (int)sizeof(T);
    if (values % N == 0)
        close_gate<T, N>
            <<<blocks(values / N), THREADS, 0, s>>>((T *)j->gx, (const T *)j->gate, values / N);
    else
        close_gate<T, 1><<<blocks(values), THREADS, 0, s>>>((T *)j->gx, (const T *)j->gate, values);
    return 0;
}

static int weights(const struct wisp_dconv *c, const struct made *m, const struct wisp_dconv_job *j,
                   cudaStream_t s)
{
    const struct library &l = library_of();
    const bool widens = c->math == WISP_DCONV_BF16 && !j->as_made;
    const size_t n = c->out * wisp_dconv_row(c);
    const int bad = l.ConvolutionBackwardFilter(j->aside ? l.aside : l.handle, &one, m->x, j->x,
                                                m->y, j->gy, m->conv, m->algorithm,
                                                (char *)j->work + head(c, WISP_DCONV_WEIGHTS),
                                                m->bytes, &zero, m->w, widens ? j->work : j->gw);
    if (!bad && widens)
        widen<<<blocks(n), THREADS, 0, s>>>(j->gw, (const __nv_bfloat16 *)j->work, n);
    return bad;
}

static bool run(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *p,
                const struct wisp_dconv_job *j, cudaStream_t s)
{
    const std::lock_guard<std::mutex> alone(one_caller);
    const struct made *m = (const struct made *)p;
    const bool half = c->math == WISP_DCONV_BF16;
    const struct library &l = library_of();
    if (l.SetStream(j->aside ? l.aside : l.handle, s)) return false;
    if (pass == WISP_DCONV_WEIGHTS) return !weights(c, m, j, s);
    if (pass == WISP_DCONV_DATA)
        return !(half ? data<__nv_bfloat16>(c, m, j, s) : data<float>(c, m, j, s));
    return !(half ? forward<__nv_bfloat16>(c, m, j, s) : forward<float>(c, m, j, s));
}

const struct wisp_dconv_way wisp_dconv_cudnn = {
    "cudnn", "NVIDIA's library", can, make, destroy, bytes, run
};

/* ---- measured, for those who ask ---- */

size_t wisp_dconv_cudnn_measure(struct wisp_dconv_seen *seen, size_t most,
                                const struct wisp_dconv *c, enum wisp_dconv_pass pass,
                                const struct wisp_dconv_job *j, size_t work_bytes)
{
    const std::lock_guard<std::mutex> alone(one_caller);
    const struct library &l = library_of();
    struct answer found[ALGORITHMS];
    struct made *m = l.open ? new (std::nothrow) made{} : NULL;
    int n = 0, bad = 1;
    if (m && describe(m, c) && !l.SetStream(l.handle, 0)) {
        if (pass == WISP_DCONV_FORWARD)
            bad = l.FindConvolutionForwardAlgorithmEx(l.handle, m->x, j->x, m->w, j->w, m->conv,
                                                      m->y, j->y, ALGORITHMS, &n, found, j->work,
                                                      work_bytes);
        else if (pass == WISP_DCONV_DATA)
            bad = l.FindConvolutionBackwardDataAlgorithmEx(l.handle, m->w, j->w, m->y, j->gy,
                                                           m->conv, m->x, j->gx, ALGORITHMS, &n,
                                                           found, j->work, work_bytes);
        else
            bad = l.FindConvolutionBackwardFilterAlgorithmEx(l.handle, m->x, j->x, m->y, j->gy,
                                                             m->conv, m->w, j->gw, ALGORITHMS, &n,
                                                             found, j->work, work_bytes);
    }
    if (m) destroy(m);
    size_t kept = 0;
    for (int i = 0; i < n && !bad; i++)
        if (!found[i].status && kept < most)
            seen[kept++] = { found[i].algorithm, found[i].repeats == REPEATS, found[i].ms,
                             found[i].bytes };
    return kept;
}
