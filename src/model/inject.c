/* Bits that are wrong, and what numbers they leave.
 *
 * Between two wrong bits lie floor(log(u) / log(1 - rate)) right ones, u uniform: as many draws as
 * errors.  A piece of a place has its own numbers, so that any number of threads finds the same. */
#include "model/inject.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static const char *const memories[WISP_N_MEMORIES] = { "fp32", "bf16", "int8" };
static const int widths[WISP_N_MEMORIES] = { 32, 16, 8 };
static const char *const guards[WISP_N_GUARDS] = { "off", "clip", "zero" };

const char *wisp_memory_name(enum wisp_memory type)
{
    return memories[type];
}

enum wisp_memory wisp_memory_find(const char *name)
{
    int i = 0;
    while (i < WISP_N_MEMORIES && strcmp(memories[i], name) != 0) i++;
    return (enum wisp_memory)i;
}

int wisp_memory_bits(enum wisp_memory type)
{
    return widths[type];
}

const char *wisp_guard_name(enum wisp_guard g)
{
    return guards[g];
}

enum wisp_guard wisp_guard_find(const char *name)
{
    int i = 0;
    while (i < WISP_N_GUARDS && strcmp(guards[i], name) != 0) i++;
    return (enum wisp_guard)i;
}

/* ---- which bits ---- */

static void skip_right_ones(struct wisp_flips *f)
{
    const double gap = floor(log(wisp_rand_unit(f->seed, f->stream, f->drawn++)) * f->by);
    f->bit = gap < (double)(f->end - f->bit) ? f->bit + (uint64_t)gap : f->end;
}

void wisp_flips_begin(struct wisp_flips *f, const struct wisp_errors *e, uint64_t place, size_t i,
                      size_t n)
{
    const uint64_t stream = wisp_stream(WISP_STREAM_ERRORS, place);
    const uint64_t draw = e->fixed ? 0 : e->draw + 1;
    const size_t first = i * WISP_FLIP_PIECE, left = n - first;
    *f = (struct wisp_flips){ .seed = wisp_rand(wisp_rand(e->seed, stream, draw), stream, i),
                              .stream = stream,
                              .by = 1 / log1p(-e->rate),
                              .first = first,
                              .bits = (unsigned)widths[e->type] };
    f->end = f->bits * (left < WISP_FLIP_PIECE ? left : WISP_FLIP_PIECE);
    if (e->rate > 0) skip_right_ones(f);
    else f->bit = f->end;
}

bool wisp_flips_next(struct wisp_flip *out, struct wisp_flips *f)
{
    if (f->bit == f->end) return false;
    const uint64_t number = f->bit / f->bits;
    *out = (struct wisp_flip){ f->first + number, 0 };
    while (f->bit != f->end && f->bit / f->bits == number) {
        out->mask |= 1u << (f->bit++ % f->bits);
        skip_right_ones(f);
    }
    return true;
}

/* ---- what they do ---- */

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int8_t nearest8(float x, float scale)
{
    const float q = scale > 0 ? rintf(x / scale) : 0;
    return (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
}

float wisp_flipped(enum wisp_memory type, float x, uint32_t mask, float scale)
{
    uint32_t bits;
    if (type == WISP_MEMORY_INT8)
        return (float)(int8_t)((uint8_t)nearest8(x, scale) ^ mask) * scale;
    if (type == WISP_MEMORY_BF16) return of_bits((uint32_t)(wisp_round16(x) ^ mask) << 16);
    memcpy(&bits, &x, sizeof bits);
    return of_bits(bits ^ mask);
}

float wisp_largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

bool wisp_errors_in(const struct wisp_param *p)
{
    return p->role == WISP_TRAINED && p->rows > 1 && p->cols > 1;
}

enum wisp_memory wisp_param_memory(const struct wisp_param *p, enum wisp_memory wanted)
{
    return p->i8 ? WISP_MEMORY_INT8 : p->b16 ? WISP_MEMORY_BF16 : wanted;
}

/* ---- a parameter ---- */

struct reading {
    const struct wisp_param *p;
    const struct wisp_errors *e;
    uint64_t place;
    float limit;  /* of the guard */
    float *scale; /* (rows) of int8; NULL: another type */
    void *to;
    struct wisp_misread *lots; /* counts, of PIECES pieces each */
};
enum { PIECES = 256 }; /* of a task */

size_t wisp_param_row_of(const struct wisp_param *p, size_t at)
{
    if (!p->start) return at / p->cols;
    size_t low = 0, high = p->rows;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if ((size_t)p->start[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}

static float scale_at(const struct reading *r, size_t at)
{
    return r->scale ? r->scale[wisp_param_row_of(r->p, at)] : 0;
}

/* A number that is wrong, where it lies; what it is now. */
static float put(const struct reading *r, const struct wisp_flip *f)
{
    const struct wisp_param *p = r->p;
    const enum wisp_guard g = r->e->guard;
    if (p->i8) {
        const float scale = p->scale[wisp_param_row_of(p, f->at)];
        const int8_t q = (int8_t)((uint8_t)p->i8[f->at] ^ f->mask);
        const float x = (float)q * scale, y = wisp_guarded(g, x, r->limit);
        ((int8_t *)r->to)[f->at] = x == y ? q : nearest8(y, scale);
        return y;
    }
    if (p->b16) {
        const uint16_t half = (uint16_t)(p->b16[f->at] ^ f->mask);
        const float y = wisp_guarded(g, of_bits((uint32_t)half << 16), r->limit);
        ((uint16_t *)r->to)[f->at] = isnan(y) ? half : wisp_round16(y);
        return y;
    }
    const float x = wisp_flipped(r->e->type, p->w[f->at], f->mask, scale_at(r, f->at));
    return ((float *)r->to)[f->at] = wisp_guarded(g, x, r->limit);
}

static void read_piece(const struct reading *r, size_t i, struct wisp_misread *out)
{
    const struct wisp_param *p = r->p;
    const size_t first = i * WISP_FLIP_PIECE,
                 end = p->n - first < WISP_FLIP_PIECE ? p->n : first + WISP_FLIP_PIECE;
    const size_t bytes = p->i8 ? 1 : p->b16 ? 2 : 4;
    const void *from = p->i8 ? (const void *)p->i8 : p->b16 ? (const void *)p->b16 : p->w;
    struct wisp_flips flips;
    struct wisp_flip f;
    if (!p->w || r->e->type == WISP_MEMORY_FP32)
        memcpy((char *)r->to + first * bytes, (const char *)from + first * bytes,
               (end - first) * bytes);
    else
        for (size_t k = first; k < end; k++)
            ((float *)r->to)[k] = wisp_flipped(r->e->type, p->w[k], 0, scale_at(r, k));
    wisp_flips_begin(&flips, r->e, r->place, i, p->n);
    while (wisp_flips_next(&f, &flips)) {
        out->bits += (size_t)__builtin_popcount(f.mask);
        out->numbers_hit++;
        if (isfinite(put(r, &f))) continue;
        if (out->odd++ == 0) out->odd_at = f.at;
    }
}

static void read_lot(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct reading *r = arg;
    r->lots[i] = (struct wisp_misread){ .odd_at = SIZE_MAX };
    for (size_t k = i * PIECES; k < (i + 1) * PIECES && k * WISP_FLIP_PIECE < r->p->n; k++)
        read_piece(r, k, &r->lots[i]);
}

static float widest(const struct wisp_param *p, size_t at, size_t n)
{
    float most = 0;
    if (p->w) return wisp_largest(p->w + at, n);
    for (size_t i = at; i < at + n; i++) {
        const float x = p->i8 ? fabsf((float)p->i8[i] * p->scale[wisp_param_row_of(p, i)])
                              : fabsf(of_bits((uint32_t)p->b16[i] << 16));
        most = x > most ? x : most;
    }
    return most;
}

wisp_status wisp_errors_read(struct wisp_misread *out, const struct wisp_param *p, uint64_t place,
                             const struct wisp_errors *e, struct wisp_pool *pool, wisp_error *err)
{
    const size_t lots = wisp_parts(p->n, (size_t)WISP_FLIP_PIECE * PIECES), bytes = p->n * 4;
    const bool scales = p->w && e->type == WISP_MEMORY_INT8;
    struct reading r = {
        .p = p, .e = e, .place = place, .limit = wisp_guard_limit(e->type, widest(p, 0, p->n))
    };
    wisp_status st = WISP_OK;
    *out = (struct wisp_misread){ .odd_at = SIZE_MAX };
    r.to = wisp_alloc(bytes, 1);
    r.lots = wisp_alloc(lots, sizeof *r.lots);
    if (scales) r.scale = wisp_alloc(p->rows, sizeof *r.scale);
    if (!r.to || !r.lots || (scales && !r.scale))
        st = wisp_fail_mem(err, bytes, "weights with errors");
    for (size_t row = 0, n; st == WISP_OK && scales && row < p->rows; row++) {
        const size_t at = wisp_param_row(p, row, &n);
        r.scale[row] = wisp_memory_scale(wisp_largest(p->w + at, n));
    }
    if (st == WISP_OK) {
        wisp_parallel_for(pool, lots, read_lot, &r);
        out->numbers = r.to;
    } else wisp_free(r.to);
    for (size_t i = 0; st == WISP_OK && i < lots; i++) {
        out->bits += r.lots[i].bits;
        out->numbers_hit += r.lots[i].numbers_hit;
        out->odd += r.lots[i].odd;
        if (r.lots[i].odd_at < out->odd_at) out->odd_at = r.lots[i].odd_at;
    }
    wisp_free(r.lots);
    wisp_free(r.scale);
    return st;
}

/* ---- a value ---- */

/* Where unit i lies: channels in blocks, the pixels of a block side by side. */
static size_t place_of(size_t i, size_t pixels)
{
    if (pixels == 0) return i;
    const size_t channel = i / pixels, pixel = i % pixels;
    return (channel / WISP_PLANE_BLOCK * pixels + pixel) * WISP_PLANE_BLOCK +
           channel % WISP_PLANE_BLOCK;
}

size_t wisp_errors_in_value(float *x, size_t units, size_t pixels, uint64_t place,
                            const struct wisp_errors *e, float largest)
{
    float own = 0;
    for (size_t i = 0; i < units && e->type == WISP_MEMORY_INT8; i++)
        own = fmaxf(own, fabsf(x[place_of(i, pixels)]));
    const float scale = wisp_memory_scale(own), limit = wisp_guard_limit(e->type, largest);
    struct wisp_flips flips;
    struct wisp_flip f;
    size_t bits = 0;
    for (size_t i = 0; i < units && e->type != WISP_MEMORY_FP32; i++) {
        float *at = &x[place_of(i, pixels)];
        *at = wisp_flipped(e->type, *at, 0, scale);
    }
    for (size_t i = 0; i < wisp_parts(units, WISP_FLIP_PIECE); i++) {
        wisp_flips_begin(&flips, e, place, i, units);
        while (wisp_flips_next(&f, &flips)) {
            float *at = &x[place_of(f.at, pixels)];
            *at = wisp_guarded(e->guard, wisp_flipped(e->type, *at, f.mask, scale), limit);
            bits += (size_t)__builtin_popcount(f.mask);
        }
    }
    return bits;
}
