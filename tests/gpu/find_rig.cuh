/* What the tests of finding and learning share: fenced arrays, batches, timing in a graph. */
#ifndef WISP_TESTS_GPU_FIND_RIG_CUH
#define WISP_TESTS_GPU_FIND_RIG_CUH

#include "gpu/rig.cuh"

#include <algorithm>
#include <set>

using std::set;
using std::vector;

/* ---- arrays on the card ---- */

enum { PAD = 64 };
template <class T> struct fenced { /* with a fence before and behind; all is poisoned at first */
    vector<T> all;
    T *base;
    size_t n;
    explicit fenced(size_t size) : all(size + 2 * PAD), n(size)
    {
        OK(cudaMalloc((void **)&base, all.size() * sizeof(T)));
        poison();
    }
    fenced(const fenced &) = delete;
    ~fenced()
    {
        cudaFree(base);
    }
    void poison()
    {
        memset((void *)all.data(), 0x5b, all.size() * sizeof(T));
        up();
    }
    void set_to(const vector<T> &x)
    {
        std::copy(x.begin(), x.end(), all.begin() + PAD);
        up();
    }
    void fill(T x)
    {
        std::fill(all.begin() + PAD, all.end() - PAD, x);
        up();
    }
    void up()
    {
        OK(cudaMemcpy(base, all.data(), all.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void down()
    {
        OK(cudaMemcpy(all.data(), base, all.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
    T *dev()
    {
        return base + PAD;
    }
    T &operator[](size_t i)
    {
        return all[PAD + i];
    }
    vector<T> part(size_t m)
    {
        return vector<T>(all.begin() + PAD, all.begin() + PAD + m);
    }
    bool clean(size_t from) /* the fences, and all from there on, are as they were */
    {
        const unsigned char *p = (const unsigned char *)all.data();
        for (size_t b = 0; b < all.size() * sizeof(T); b++) {
            size_t i = b / sizeof(T);
            if ((i < PAD || i >= PAD + from) && p[b] != 0x5b) return false;
        }
        return true;
    }
};

template <class T> static T *put(const vector<T> &x) /* stays until the program ends */
{
    T *p;
    OK(cudaMalloc((void **)&p, (x.size() + 1) * sizeof(T)));
    if (!x.empty()) OK(cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

/* ---- a batch ---- */

struct batch {
    vector<uint32_t> id;
    vector<vector<int32_t>> labels;
    wisp_dnow now, *dev;
};

static vector<int32_t> some_rows(size_t n, size_t n_rows) /* no row twice */
{
    vector<int32_t> rows;
    set<int32_t> had;
    while (rows.size() < n && rows.size() < n_rows) {
        int32_t row = (int32_t)rig_below(n_rows);
        if (had.insert(row).second) rows.push_back(row);
    }
    return rows;
}

static void upload(batch &b, uint64_t step)
{
    const uint32_t before = 3; /* lists need not begin at 0 */
    vector<uint32_t> yp(1, before), lp(1, before), ls(before, 9);
    vector<int32_t> yi(before, 7), distinct;
    for (auto &l : b.labels) {
        yi.insert(yi.end(), l.begin(), l.end());
        yp.push_back((uint32_t)yi.size());
    }
    set<int32_t> all(yi.begin() + before, yi.end());
    vector<vector<uint32_t>> of(all.size());
    distinct.assign(all.begin(), all.end());
    for (size_t i = 0; i < b.labels.size(); i++)
        for (int32_t y : b.labels[i])
            of[std::lower_bound(distinct.begin(), distinct.end(), y) - distinct.begin()].push_back(
                (uint32_t)i);
    for (auto &o : of) {
        ls.insert(ls.end(), o.begin(), o.end());
        lp.push_back((uint32_t)ls.size());
    }
    b.now = wisp_dnow();
    b.now.n = (uint32_t)b.labels.size();
    b.now.step = step;
    b.now.id = put(b.id), b.now.yp = put(yp), b.now.yi = put(yi);
    b.now.n_distinct = (uint32_t)distinct.size();
    b.now.distinct = put(distinct), b.now.lp = put(lp), b.now.ls = put(ls);
    b.dev = put(vector<wisp_dnow>(1, b.now));
}

/* most: labels of a sample; popular: how many of the rows are labels */
static void make_batch(batch &b, size_t n, size_t n_rows, size_t n_samples, size_t most,
                       size_t popular, uint64_t step)
{
    b.id.clear(), b.labels.clear();
    for (size_t i = 0; i < n; i++) {
        b.id.push_back((uint32_t)((i * 7919 + step) % (n_samples + n / 8 + 1))); /* some unknown */
        b.labels.push_back(some_rows(rig_below(most + 1), popular < n_rows ? popular : n_rows));
        std::sort(b.labels[i].begin(), b.labels[i].end());
    }
    for (size_t i = 0; i < n; i++) /* no sample twice */
        for (size_t k = 0; k < i; k++)
            if (b.id[k] == b.id[i]) b.id[i] = (uint32_t)(n_samples + i);
    upload(b, step);
}

/* ---- timing ---- */

/* Microseconds of fn(stream, turn), of many turns in a graph: nothing waits for the host. */
template <class F> static double graph_us(F fn, int turns)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&s));
    fn(s, 0); /* kernels are loaded when they are first used */
    OK(cudaStreamSynchronize(s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    for (int t = 0; t < turns; t++) fn(s, t);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    double ms = rig_ms([&] { OK(cudaGraphLaunch(exec, 0)); }, 10);
    rig_sync("a graph");
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(s));
    return ms * 1000 / turns;
}

#endif
