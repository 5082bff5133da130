/* What layers do with blocks of 16 channels, with vectors: the text that tiles_avx2.c and
 * tiles_avx512.c share.  Beside what tiles.h wants, who includes it has named
 *
 *   MASK             of lanes: ABOVE(a, b), MORE(a, b) (not at most b: also where one is NaN),
 *                    NUMBER(a) (not NaN), SAME(a, b), AND(m, n)
 *   KEEP(m, a)       a, or 0 where the mask is not set
 *   PICK(m, a, b)    a where it is set, else b
 *   PLACES(to, w)    the whole numbers of w[PER] as 16 bytes; NUMBERS(w, from) back
 *
 * Sums run in strands, so that additions need not wait for each other. */
#ifndef WISP_KERNELS_PLANES_H
#define WISP_KERNELS_PLANES_H

enum { PIXEL = 16, STRANDS = 4 / PER };
#define EACH(v)   UNROLL for (int v = 0; v < PER; v++)
#define STRAND(i) UNROLL for (int i = 0; i < STRANDS; i++)

struct sums { /* two of each channel */
    VEC a[STRANDS][PER], b[STRANDS][PER];
};

INLINE void clear_sums(struct sums *s)
{
    STRAND(i) EACH(v) s->a[i][v] = s->b[i][v] = ZERO();
}

INLINE void add_sums(const struct sums *s, float *a, float *b)
{
    EACH(v)
    {
        VEC x = s->a[0][v], y = s->b[0][v];
        UNROLL for (int i = 1; i < STRANDS; i++) x = ADD(x, s->a[i][v]), y = ADD(y, s->b[i][v]);
        STORE(a + v * LANES, ADD(LOAD(a + v * LANES), x));
        STORE(b + v * LANES, ADD(LOAD(b + v * LANES), y));
    }
}

INLINE void moments(struct sums *s, const int strand, const float *x, const VEC from[PER])
{
    EACH(v)
    {
        const VEC d = SUB(LOAD(x + v * LANES), from[v]);
        s->a[strand][v] = ADD(s->a[strand][v], d);
        s->b[strand][v] = FMA(d, d, s->b[strand][v]);
    }
}

static void norm_moments(float *sum, float *square, const float *x, const float *from, size_t n)
{
    VEC start[PER];
    struct sums s;
    clear_sums(&s);
    EACH(v) start[v] = LOAD(from + v * LANES);
    for (; n >= STRANDS; n -= STRANDS, x += STRANDS * PIXEL)
        STRAND(i) moments(&s, i, x + i * PIXEL, start);
    for (; n > 0; n--, x += PIXEL) moments(&s, 0, x, start);
    add_sums(&s, sum, square);
}

struct normed { /* the channels of a block */
    VEC mean[PER], scale[PER], shift[PER];
};

INLINE void norm_begin(struct normed *c, const struct wisp_norm *b)
{
    EACH(v)
    {
        c->mean[v] = LOAD(b->mean + v * LANES);
        c->scale[v] = LOAD(b->scale + v * LANES);
        c->shift[v] = LOAD(b->shift + v * LANES);
    }
}

INLINE void norm_all(const struct wisp_norm *b, const bool relu, const bool count)
{
    struct normed c;
    uint64_t found = 0;
    norm_begin(&c, b);
    for (size_t i = 0; i < b->n * PIXEL; i += PIXEL) EACH(v)
        {
            const size_t at = i + (size_t)v * LANES;
            VEC y = FMA(SUB(LOAD(b->x + at), c.mean[v]), c.scale[v], c.shift[v]);
            if (relu) y = MAX(ZERO(), y);
            if (count) found += LIVE(y);
            STORE(b->y + at, y);
        }
    if (count) *b->live += found;
}

static void norm(const struct wisp_norm *b)
{
    if (b->live && b->relu) norm_all(b, true, true);
    else if (b->live) norm_all(b, false, true);
    else if (b->relu) norm_all(b, true, false);
    else norm_all(b, false, false);
}

/* g, and x - mean. */
INLINE VEC norm_gradient(const struct wisp_norm *b, const struct normed *c, size_t at, const int v,
                         const bool relu, VEC *away)
{
    const VEC g = LOAD(b->gy + at);
    *away = SUB(LOAD(b->x + at), c->mean[v]);
    return relu ? KEEP(ABOVE(FMA(*away, c->scale[v], c->shift[v]), ZERO()), g) : g;
}

INLINE void sum_pixel(struct sums *s, const int strand, const struct wisp_norm *b,
                      const struct normed *c, size_t at, const bool relu)
{
    EACH(v)
    {
        VEC away;
        const VEC g = norm_gradient(b, c, at + (size_t)v * LANES, v, relu, &away);
        s->a[strand][v] = ADD(s->a[strand][v], g);
        s->b[strand][v] = FMA(g, away, s->b[strand][v]);
    }
}

INLINE void sums_all(const struct wisp_norm *b, const bool relu)
{
    struct normed c;
    struct sums s;
    size_t left = b->n, at = 0;
    norm_begin(&c, b);
    clear_sums(&s);
    for (; left >= STRANDS; left -= STRANDS, at += STRANDS * PIXEL)
        STRAND(i) sum_pixel(&s, i, b, &c, at + (size_t)i * PIXEL, relu);
    for (; left > 0; left--, at += PIXEL) sum_pixel(&s, 0, b, &c, at, relu);
    add_sums(&s, b->sum, b->dot);
}

static void norm_sums(const struct wisp_norm *b)
{
    if (b->relu) sums_all(b, true);
    else sums_all(b, false);
}

INLINE void back_all(const struct wisp_norm *b, const bool relu)
{
    struct normed c;
    VEC times[PER], slope[PER], rest[PER];
    norm_begin(&c, b);
    EACH(v)
    {
        times[v] = LOAD(b->times + v * LANES);
        slope[v] = LOAD(b->slope + v * LANES);
        rest[v] = LOAD(b->rest + v * LANES);
    }
    for (size_t i = 0; i < b->n * PIXEL; i += PIXEL) EACH(v)
        {
            VEC away;
            const size_t at = i + (size_t)v * LANES;
            const VEC g = norm_gradient(b, &c, at, v, relu, &away);
            STORE(b->gx + at, FMA(g, times[v], FMA(away, slope[v], rest[v])));
        }
}

static void norm_back(const struct wisp_norm *b)
{
    if (b->relu) back_all(b, true);
    else back_all(b, false);
}

/* ---- pooling ---- */

static void maxpool(const struct wisp_maxpool *p)
{
    uint64_t found = 0;
    for (size_t i = 0; i < p->n; i++) {
        VEC most[PER], where[PER];
        EACH(v)
        {
            most[v] = LOAD(p->x + i * p->next + v * LANES);
            where[v] = ZERO();
        }
        for (size_t r = 0; r < p->rows; r++)
            for (size_t q = 0; q < p->cols; q++) {
                const float *x = p->x + i * p->next + r * p->row + q * PIXEL;
                const VEC which = SET1((float)(r * p->apart + q));
                EACH(v)
                {
                    const VEC at = LOAD(x + v * LANES);
                    const MASK more = AND(MORE(at, most[v]), NUMBER(most[v]));
                    most[v] = PICK(more, at, most[v]);
                    where[v] = PICK(more, which, where[v]);
                }
            }
        EACH(v)
        {
            STORE(p->y + i * PIXEL + v * LANES, most[v]);
            if (p->live) found += LIVE(most[v]);
            if (p->relu)
                where[v] = PICK(ABOVE(most[v], ZERO()), where[v], SET1((float)WISP_NO_PLACE));
        }
        if (p->place) PLACES(p->place + i * PIXEL, where);
    }
    if (p->live) *p->live += found;
}

INLINE void back_windows(const struct wisp_maxpool *p, const bool add)
{
    for (size_t i = 0; i < p->n; i++) {
        VEC g[PER], where[PER];
        NUMBERS(where, p->place + i * PIXEL);
        EACH(v) g[v] = LOAD(p->gy + i * PIXEL + v * LANES);
        for (size_t r = 0; r < p->rows; r++)
            for (size_t q = 0; q < p->cols; q++) {
                float *to = p->gx + i * p->next + r * p->row + q * PIXEL;
                const VEC which = SET1((float)(r * p->apart + q));
                EACH(v)
                {
                    const VEC mine = KEEP(SAME(where[v], which), g[v]);
                    STORE(to + v * LANES, add ? ADD(LOAD(to + v * LANES), mine) : mine);
                }
            }
    }
}

static void maxpool_back(const struct wisp_maxpool *p)
{
    if (p->add) back_windows(p, true);
    else back_windows(p, false);
}

INLINE void install_planes(struct wisp_kernels *k)
{
    k->norm_moments = norm_moments;
    k->norm = norm;
    k->norm_sums = norm_sums;
    k->norm_back = norm_back;
    k->maxpool = maxpool;
    k->maxpool_back = maxpool_back;
}

#endif
