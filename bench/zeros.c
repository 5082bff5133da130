/* What counting zeros costs where they are written (graph/zeros.h), beside a pass of its own.
 *
 *   bench/run build zeros            (one thread)
 *   zeros [set of kernels]
 *
 * A line is something that writes: a ReLU, batch norm with a ReLU, max pooling, a convolution with a
 * ReLU (VGG-16's conv3_2, 256 to 256 channels at 56 x 56 pixels).  It is run plainly, counting, and
 * plainly with a pass behind it that reads what was written once more and counts that, in turns; times
 * are the least of many runs, of processor time.  Instructions are those of the last run, where the
 * system lets a program count its own (perf_event_open); where it does not, small ones are run step by
 * step by another process that counts the steps (ptrace).  'cheaper' is what the pass adds over what
 * counting adds, by instructions, or by time where there are none. */
#include "base/mem.h"
#include "conv/conv.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#endif

enum { PIXEL = 16, LEAST_RUNS = 5, MOST_RUNS = 400, MOST_STEPPED = 1 << 16 };
static const double ENOUGH_SECONDS = 0.6;

static struct wisp_kernels k;

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- instructions ---- */

static int counter = -1;

static void open_counter(void)
{
#if defined(__linux__)
    struct perf_event_attr a = { .type = PERF_TYPE_HARDWARE,
                                 .size = sizeof a,
                                 .config = PERF_COUNT_HW_INSTRUCTIONS,
                                 .disabled = 1,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1 };
    counter = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
#endif
}

static void begin_counting(void)
{
#if defined(__linux__)
    if (counter < 0) return;
    ioctl(counter, PERF_EVENT_IOC_RESET, 0);
    ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
#endif
}

/* NAN: unknown. */
static double counted(void)
{
    uint64_t n = 0;
#if defined(__linux__)
    if (counter < 0) return NAN;
    ioctl(counter, PERF_EVENT_IOC_DISABLE, 0);
    if (read(counter, &n, sizeof n) != sizeof n) return NAN;
#endif
    return n ? (double)n : NAN;
}

/* ---- what writes ---- */

struct writer {
    const char *what;
    size_t n;      /* numbers that it writes */
    size_t pixels; /* along a side, of pooling */
    float *x, *y;
    uint8_t *place;                                      /* of pooling */
    void (*run)(const struct writer *w, uint64_t *live); /* live NULL: nobody counts */
    /* of a convolution */
    const struct wisp_conv_way *way;
    struct wisp_conv c;
    float *packed, *scratch;
};

static void run_relu(const struct writer *w, uint64_t *live)
{
    if (live) *live += k.relu_live(w->y, w->x, w->n);
    else k.relu(w->y, w->x, w->n);
}

static const float zeros16[PIXEL];
static float ones16[PIXEL];

static void run_norm(const struct writer *w, uint64_t *live)
{
    const struct wisp_norm b = { .n = w->n / PIXEL,
                                 .x = w->x,
                                 .y = w->y,
                                 .mean = zeros16,
                                 .scale = ones16,
                                 .shift = zeros16,
                                 .relu = true,
                                 .live = live };
    k.norm(&b);
}

static void run_pool(const struct writer *w, uint64_t *live)
{
    const size_t in = w->pixels, out = in / 2, planes = w->n / (out * out * PIXEL);
    for (size_t p = 0; p < planes * out; p++) {
        const struct wisp_maxpool m = { .n = out,
                                        .rows = 2,
                                        .cols = 2,
                                        .apart = 2,
                                        .x = w->x + p * 2 * in * PIXEL,
                                        .row = in * PIXEL,
                                        .next = 2 * PIXEL,
                                        .y = w->y + p * out * PIXEL,
                                        .place = w->place + p * out * PIXEL,
                                        .relu = true,
                                        .live = live };
        k.maxpool(&m);
    }
}

static void run_conv(const struct writer *w, uint64_t *live)
{
    uint64_t counts[64] = { 0 };
    const struct wisp_conv_job j = { .k = &k,
                                     .n = w->c.batch,
                                     .x = w->x,
                                     .w = w->packed,
                                     .y = w->y,
                                     .relu = true,
                                     .live = live ? counts : NULL,
                                     .live_apart = 64,
                                     .thread_scratch = w->scratch };
    if (w->way->run(&w->c, WISP_CONV_FORWARD, &j, NULL) != WISP_OK) exit(1);
    for (int i = 0; live && i < 64; i++) *live += counts[i];
}

/* ---- measuring ---- */

enum { PLAIN, COUNTING, PASS, HOWS };

static uint64_t run_once(const struct writer *w, int how, double *seconds, double *instructions)
{
    uint64_t live = 0;
    begin_counting();
    const double began = cpu_now();
    w->run(w, how == COUNTING ? &live : NULL);
    if (how == PASS) live = k.live_count(w->y, w->n);
    const double took = cpu_now() - began, n = counted();
    if (took < *seconds) *seconds = took;
    *instructions = n;
    return live;
}

/* Instructions, step by step, with some hundred around the run itself; NAN: that cannot be. */
static double stepped(const struct writer *w, int how)
{
    double n = NAN;
#if defined(__linux__)
    int state;
    const pid_t child = fork();
    if (child == 0) {
        double seconds = INFINITY, none;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(1);
        raise(SIGSTOP);
        run_once(w, how, &seconds, &none);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &state, 0) != child || !WIFSTOPPED(state)) return NAN;
    for (n = 0; WIFSTOPPED(state); n++)
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &state, 0) != child)
            return NAN;
#endif
    return n;
}

static void measure(const struct writer *w)
{
    double s[HOWS] = { INFINITY, INFINITY, INFINITY }, n[HOWS];
    uint64_t live[HOWS];
    const double began = cpu_now();
    for (int i = 0; i < MOST_RUNS && (i < LEAST_RUNS || cpu_now() - began < ENOUGH_SECONDS); i++)
        for (int how = 0; how < HOWS; how++) live[how] = run_once(w, how, &s[how], &n[how]);
    if (live[COUNTING] != live[PASS]) {
        printf("%s: %llu are not 0, by a pass %llu\n", w->what, (unsigned long long)live[COUNTING],
               (unsigned long long)live[PASS]);
        exit(1);
    }
    for (int how = 0; counter < 0 && w->n <= MOST_STEPPED && how < HOWS; how++)
        n[how] = stepped(w, how);
    const double extra = s[COUNTING] - s[PLAIN], pass = s[PASS] - s[PLAIN];
    printf("%-36s %6.1f %%  %9.1f us  %+8.1f us (%+5.2f %%)  %+9.1f us (%+6.2f %%)", w->what,
           100 * (1 - (double)live[PASS] / (double)w->n), 1e6 * s[PLAIN], 1e6 * extra,
           100 * extra / s[PLAIN], 1e6 * pass, 100 * pass / s[PLAIN]);
    if (isnan(n[PLAIN])) {
        if (extra > 0) printf("  %6.1fx by time\n", pass / extra);
        else printf("  not measurable by time\n");
        return;
    }
    const double each = 16 / (double)w->n;
    printf("  %8.2f %+6.2f %+6.2f  %6.1fx\n", each * n[PLAIN], each * (n[COUNTING] - n[PLAIN]),
           each * (n[PASS] - n[PLAIN]), (n[PASS] - n[PLAIN]) / (n[COUNTING] - n[PLAIN]));
}

/* ---- what is measured ---- */

static float *room(size_t n)
{
    float *x = wisp_alloc(n, sizeof *x);
    if (!x) {
        fputs("zeros: out of memory\n", stderr);
        exit(1);
    }
    return x;
}

/* So many are above 0, the others 'else_is'. */
static float *drawn(size_t n, double above, float else_is)
{
    float *x = room(n);
    uint64_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = (double)(s >> 33) < above * 2147483648.0 ? 0.5f : else_is;
    }
    return x;
}

static void elementwise(const char *what, void (*run)(const struct writer *, uint64_t *), size_t n)
{
    struct writer w = { .what = what, .n = n, .run = run, .x = drawn(n, 0.4, -0.5f), .y = room(n) };
    measure(&w);
    wisp_free(w.x), wisp_free(w.y);
}

static void pool(const char *what, size_t planes, size_t pixels)
{
    const size_t out = planes * pixels * pixels / 4 * PIXEL;
    struct writer w = { .what = what,
                        .n = out,
                        .pixels = pixels,
                        .run = run_pool,
                        .x = drawn(4 * out, 0.15, 0),
                        .y = room(out),
                        .place = wisp_alloc(out, 1) };
    if (!w.place) exit(1);
    measure(&w);
    wisp_free(w.x), wisp_free(w.y), wisp_free(w.place);
}

static void conv(const char *what, const struct wisp_conv_way *way, size_t channels, size_t pixels)
{
    struct writer w = { .what = what,
                        .run = run_conv,
                        .way = way,
                        .c = { .in = channels,
                               .out = channels,
                               .h = pixels,
                               .w = pixels,
                               .oh = pixels,
                               .ow = pixels,
                               .kh = 3,
                               .kw = 3,
                               .stride = 1,
                               .pad_h = 1,
                               .pad_w = 1,
                               .groups = 1,
                               .block = PIXEL,
                               .batch = 1,
                               .threads = 1 } };
    if (!way->can(&w.c, WISP_CONV_FORWARD, &k)) return;
    const size_t row = wisp_conv_row(&w.c), floats = way->weight_floats(&w.c, WISP_CONV_FORWARD);
    float *plain = drawn(w.c.out * row, 0.49, -0.5f);
    w.n = w.c.batch * wisp_conv_out_floats(&w.c);
    w.x = drawn(w.c.batch * wisp_conv_in_floats(&w.c), 0.4, 0), w.y = room(w.n);
    w.packed = room(floats), w.scratch = room(way->thread_floats(&w.c, WISP_CONV_FORWARD) + 1);
    wisp_conv_pack(way, &w.c, WISP_CONV_FORWARD, NULL, &k, w.packed, plain);
    measure(&w);
    wisp_free(plain), wisp_free(w.x), wisp_free(w.y), wisp_free(w.packed), wisp_free(w.scratch);
}

int main(int argc, char **argv)
{
    wisp_error err = { 0 };
    if (wisp_kernels_select(&k, argc > 1 ? argv[1] : NULL, &err) != WISP_OK) {
        fprintf(stderr, "zeros: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < PIXEL; i++) ones16[i] = 1;
    open_counter();
    printf("%s kernels, one thread%s\n", k.name,
           counter < 0
               ? "; the system has no counter of instructions: small ones are counted step by step"
               : "");
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%-36s %8s  %12s  %21s  %23s%s  cheaper\n", "what writes", "zeros", "plain",
           "counting adds", "a pass of its own adds",
           "  instructions per 16: plain, counting, pass");
    elementwise("ReLU, 64 Ki numbers", run_relu, 1 << 16);
    elementwise("ReLU, 4 Mi numbers", run_relu, 1 << 22);
    elementwise("ReLU, 32 Mi numbers", run_relu, 1 << 25);
    elementwise("batch norm + ReLU, 64 Ki", run_norm, 1 << 16);
    elementwise("batch norm + ReLU, 4 Mi", run_norm, 1 << 22);
    elementwise("batch norm + ReLU, 32 Mi", run_norm, 1 << 25);
    pool("max pooling 2x2, 16 planes of 28", 16, 28);
    pool("max pooling 2x2, 64 planes of 112", 64, 112);
    conv("32 channels of 8 px + ReLU, direct", &wisp_conv_direct, 32, 8);
    conv("32 channels of 8 px + ReLU, winograd", &wisp_conv_winograd, 32, 8);
    conv("conv3_2 + ReLU, direct", &wisp_conv_direct, 256, 56);
    conv("conv3_2 + ReLU, winograd", &wisp_conv_winograd, 256, 56);
    conv("conv3_2 + ReLU, bf16", &wisp_conv_bf16, 256, 56);
    return 0;
}
