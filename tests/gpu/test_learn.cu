/* What a step teaches (learn.cu) against plain code, written from its definition: the best active
 * rows, rings and memories of samples as hash/neighbours.c keeps them, carried rows. */
#include "gpu/find_rig.cuh"

/* ---- the best active rows ---- */

struct table { /* E of a batch */
    size_t n, batch, n_active, room, k, lde;
    bool half;
    enum wisp_loss_id loss;
    vector<float> e; /* (room, lde) as the card sees them */
    vector<int32_t> rows;
    vector<float> limit, origin;
    void *dev;
};

static void upload_e(table &t)
{
    vector<__nv_bfloat16> e16;
    if (t.half)
        for (float &v : t.e) {
            e16.push_back(__float2bfloat16(v));
            v = __bfloat162float(e16.back());
        }
    t.dev = t.half ? (void *)put(e16) : (void *)put(t.e);
}

static double limit_of(const table &t, size_t i)
{
    if (t.limit[i] == -INFINITY) return -INFINITY;
    double z = t.limit[i];
    return 0.98 * (t.loss == WISP_SOFTMAX ? exp(z - t.origin[i]) : 1 / (1 + exp(-z)));
}

/* kinds: 0: any numbers, 1: few different ones, 2: all equal, 3: some negative or not a number */
static void make_e(table &t, int kind)
{
    t.lde = (t.batch + 63) / 64 * 64;
    t.e.resize(t.room * t.lde);
    for (size_t i = 0; i < t.e.size(); i++) {
        float x = expf(3 * rig_float());
        if (kind == 1) x = (float)(1 + rig_below(5)) * 0.25f;
        if (kind == 2) x = 0.5f;
        if (kind == 3 && rig_below(4) == 0) x = rig_below(3) ? -x : rig_below(2) ? 0.0f : -0.0f;
        if (kind == 3 && rig_below(40) == 0) x = NAN;
        t.e[i] = x;
    }
    for (size_t i = 0; i < t.batch; i++) {
        t.origin.push_back(i % 5 ? 0 : rig_float());
        t.limit.push_back(i % 3 ? rig_float() * 3 : -INFINITY);
        if (kind == 2 && i % 3 == 1) t.limit[i] = 9; /* none is above */
    }
    vector<double> limits;
    for (size_t i = 0; i < t.batch; i++) limits.push_back(limit_of(t, i));
    for (size_t i = 0; i < t.e.size(); i++) { /* nothing so near the limit that rounding decides */
        size_t s = i % t.lde;
        if (s >= t.batch) continue;
        double limit = limits[s];
        if (fabs(t.e[i] - limit) < 0.01 * limit) t.e[i] = (float)(limit * 1.03);
    }
    for (size_t u = 0; u < t.room; u++) t.rows.push_back((int32_t)(3 * u + u % 3));
    upload_e(t);
}

static vector<int32_t> best_of(const table &t, size_t i)
{
    vector<std::pair<float, int32_t>> all;
    for (size_t u = 0; u < t.n_active; u++) {
        float e = t.e[u * t.lde + i];
        if (e > limit_of(t, i)) all.push_back({ -e, t.rows[u] }); /* best first: e, then rows */
    }
    std::sort(all.begin(), all.end());
    vector<int32_t> best(t.k, -1);
    for (size_t c = 0; c < t.k && c < all.size(); c++) best[c] = all[c].second;
    return best;
}

static void prepare(wisp_dfind &f, wisp_dout &o, const table &t, int32_t *best)
{
    f = wisp_dfind(), o = wisp_dout();
    wisp_dnow now = wisp_dnow();
    now.n = (uint32_t)t.n;
    f.now = put(vector<wisp_dnow>(1, now));
    f.batch = t.batch, f.k = t.k, f.last = 20;
    f.limit = put(t.limit), f.origin = put(t.origin), f.best = best;
    f.active.n_rows = 4 * t.room, f.active.room = t.room;
    f.active.n = put(vector<uint32_t>(1, (uint32_t)t.n_active));
    f.active.rows = put(t.rows);
    o.batch = t.batch, o.loss = t.loss, o.precision = t.half ? WISP_IN_BF16 : WISP_IN_FP32;
    o.e = t.dev, o.lde = t.lde;
}

/* As forward leaves maxima: of E in which the true labels' numbers were others, and larger. */
static void give_maxima(wisp_dfind &f, wisp_dout &o, const table &t)
{
    size_t tiles = (t.room + 31) / 32;
    vector<float> max(tiles * t.lde, NAN);
    vector<uint32_t> yp(1, 5), bits(4 * t.room / 32 + 1), before(bits.size());
    vector<int32_t> yi(5, 7);
    for (size_t u = 0; u < t.n_active; u++) bits[(size_t)t.rows[u] / 32] |= 1u << t.rows[u] % 32;
    for (size_t w = 1; w < bits.size(); w++)
        before[w] = before[w - 1] + (uint32_t)__builtin_popcount(bits[w - 1]);
    for (size_t i = 0; i < t.n; i++) {
        vector<int32_t> places = some_rows(rig_below(i % 9 ? 12 : 50), t.n_active);
        std::sort(places.begin(), places.end());
        for (size_t tile = 0; tile * 32 < t.n_active; tile++) {
            float m = -INFINITY;
            for (size_t u = tile * 32; u < tile * 32 + 32 && u < t.n_active; u++)
                m = fmaxf(m, t.e[u * t.lde + i]);
            max[tile * t.lde + i] = m;
        }
        for (int32_t u : places) {
            float *m = &max[(size_t)u / 32 * t.lde + i], x = t.e[(size_t)u * t.lde + i];
            *m = fmaxf(*m, x + 30 * (float)rig_below(2));
            yi.push_back(t.rows[u]);
        }
        yp.push_back((uint32_t)yi.size());
    }
    wisp_dnow now = wisp_dnow();
    now.n = (uint32_t)t.n, now.yp = put(yp), now.yi = put(yi);
    f.now = put(vector<wisp_dnow>(1, now));
    f.active.bits = put(bits), f.active.before = put(before);
    o.fast = true, o.tile_max = put(max);
}

static void test_best(size_t n, size_t batch, size_t n_active, size_t room, size_t k, bool half,
                      enum wisp_loss_id loss, int kind, bool made)
{
    table t = { n, batch, n_active, room, k, 0, half, loss, {}, {}, {}, {}, NULL };
    make_e(t, kind);
    fenced<int32_t> best(batch * k);
    wisp_dfind f;
    wisp_dout o;
    prepare(f, o, t, best.dev());
    if (made) give_maxima(f, o, t);
    size_t bytes = wisp_find_lay(&f, NULL);
    fenced<unsigned char> scratch(bytes);
    wisp_find_lay(&f, scratch.dev());
    vector<int32_t> first;
    for (int run = 0; run < 2; run++) {
        best.poison();
        wisp_find_best(f, o, 0);
        rig_sync("best");
        best.down();
        if (run) CHECK(first == best.all, "two runs differ");
        first = best.all;
    }
    scratch.down();
    CHECK(best.clean(n * k) && scratch.clean(bytes), "written elsewhere");
    for (size_t i = 0; i < n; i++) {
        vector<int32_t> want = best_of(t, i);
        for (size_t c = 0; c < k; c++)
            CHECK(best[i * k + c] == want[c],
                  "n %zu of %zu, %zu rows, k %zu, half %d, kind %d, maxima %d: sample %zu, place "
                  "%zu: row %d, expected %d",
                  n, batch, n_active, k, half, kind, made, i, c, best[i * k + c], want[c]);
    }
}

/* ---- learning ---- */

struct memory { /* of neighbours */
    size_t n_rows, n_samples, ring, last, n_carried;
    vector<int32_t> rings, lasts;
    vector<uint8_t> next;
};

struct lesson { /* what a step gives */
    size_t size, k, deep;
    batch b;
    vector<int32_t> best, found, rows;
    vector<float> heat;
};

static bool is_in(const vector<int32_t> &list, int32_t row)
{
    return std::count(list.begin(), list.end(), row) > 0;
}

static void put_row(memory &m, int32_t label, int32_t row)
{
    int32_t *ring = &m.rings[label * m.ring];
    for (size_t c = 0; c < m.ring; c++)
        if (ring[c] == row) return;
    ring[m.next[label]] = row;
    m.next[label] = (uint8_t)((m.next[label] + 1u) % m.ring);
}

static void learn(memory &m, const lesson &l)
{
    for (size_t i = 0; i < l.b.labels.size(); i++) {
        const vector<int32_t> &labels = l.b.labels[i];
        vector<int32_t> wrong;
        const int32_t *best = &l.best[i * l.k], *found = l.found.data() + i * l.deep;
        for (size_t c = 0; c < l.k && wrong.size() < m.last && best[c] >= 0; c++)
            if (!is_in(labels, best[c])) wrong.push_back(best[c]);
        for (size_t c = 0; c < l.deep && wrong.size() < m.last && found[c] >= 0; c++)
            if (!is_in(wrong, found[c])) wrong.push_back(found[c]);
        for (size_t c = 0; l.b.id[i] < m.n_samples && c < m.last; c++)
            m.lasts[l.b.id[i] * m.last + c] = c < wrong.size() ? wrong[c] : -1;
        size_t n = labels.size();
        for (size_t y = 0; y < n; y++) {
            for (size_t c = 1; c < n && c <= 6; c++) put_row(m, labels[y], labels[(y + c) % n]);
            for (size_t w = 0; w < wrong.size(); w++)
                if (w < 4 || w % n == y) put_row(m, labels[y], wrong[w]);
        }
    }
}

static vector<int32_t> carried_of(const memory &m, const lesson &l)
{
    vector<std::pair<float, int32_t>> hot;
    for (size_t u = 0; u < l.rows.size(); u++)
        if (l.heat[u] > 0) hot.push_back({ -l.heat[u], l.rows[u] });
    std::sort(hot.begin(), hot.end());
    vector<int32_t> rows;
    for (size_t c = 0; c < hot.size() && c < m.n_carried; c++) rows.push_back(hot[c].second);
    std::sort(rows.begin(), rows.end());
    return rows;
}

/* Rows of few numbers, so that rings know them; the list ends anywhere. */
static void make_list(vector<int32_t> &all, size_t size, size_t n_rows,
                      const vector<int32_t> *not_in)
{
    vector<int32_t> list = some_rows(rig_below(size + 1), n_rows);
    size_t n = 0;
    for (size_t c = 0; c < size; c++) {
        while (n < list.size() && not_in && is_in(*not_in, list[n])) n++;
        all.push_back(n < list.size() ? list[n++] : -1);
    }
}

static void make_lesson(lesson &l, const memory &m, size_t n, size_t most, size_t popular,
                        uint64_t step)
{
    make_batch(l.b, n, m.n_rows, m.n_samples, most, popular, step);
    l.best.clear(), l.found.clear(), l.rows.clear(), l.heat.clear();
    for (size_t i = 0; i < n; i++) {
        make_list(l.best, l.k, m.n_rows, NULL);
        make_list(l.found, l.deep, m.n_rows, &l.b.labels[i]);
    }
    l.best.resize(l.size * l.k + 1, -1), l.found.resize(l.size * l.deep + 1, -1);
    for (size_t r = 0; r < m.n_rows; r++)
        if (rig_below(3)) {
            l.rows.push_back((int32_t)r);
            l.heat.push_back(rig_below(4) ? rig_float() : 0.25f * (float)rig_below(3));
        }
}

static void test_learn(size_t n_rows, size_t batch, size_t n, size_t ring, size_t last, size_t k,
                       size_t deep, size_t most, size_t popular, size_t n_carried)
{
    memory m = { n_rows, 2 * batch, ring, last, n_carried, {}, {}, vector<uint8_t>(n_rows) };
    lesson l = { batch, k, deep, {}, {}, {}, {}, {} };
    m.rings.assign(n_rows * ring, -1);
    m.lasts.assign(m.n_samples * last, -1);
    fenced<int32_t> rings(n_rows * ring), lasts(m.n_samples * last), carried(1 + n_carried);
    fenced<uint8_t> next(n_rows);
    rings.set_to(m.rings), lasts.set_to(m.lasts), next.set_to(m.next);
    for (uint64_t step = 0; step < 6; step++) {
        make_lesson(l, m, step == 3 ? (n + 1) / 2 : n, most, popular, step);
        wisp_dfind f = wisp_dfind();
        wisp_dout o = wisp_dout();
        f.now = l.b.dev, f.batch = batch, f.n_rows = n_rows, f.k = k, f.deep = deep;
        f.neighbours = true, f.ring = ring, f.last = last, f.n_samples = m.n_samples;
        f.rings = rings.dev(), f.next = next.dev(), f.lasts = lasts.dev();
        f.n_carried = n_carried, f.carried = carried.dev();
        f.best = put(l.best), f.found = put(l.found);
        f.active.n_rows = n_rows, f.active.room = n_rows;
        f.active.n = put(vector<uint32_t>(1, (uint32_t)l.rows.size()));
        f.active.rows = put(l.rows);
        o.heat = put(l.heat);
        o.lab_room = batch * most;
        fenced<unsigned char> scratch(wisp_find_lay(&f, NULL));
        wisp_find_lay(&f, scratch.dev());
        carried.poison();
        wisp_find_learn(f, o, 0);
        rig_sync("learn");
        learn(m, l);
        rings.down(), next.down(), lasts.down(), carried.down(), scratch.down();
        CHECK(rings.part(n_rows * ring) == m.rings, "rings differ after step %d", (int)step);
        CHECK(next.part(n_rows) == m.next, "places differ after step %d", (int)step);
        CHECK(lasts.part(m.n_samples * last) == m.lasts, "memories differ after step %d",
              (int)step);
        CHECK(rings.clean(rings.n) && next.clean(next.n) && lasts.clean(lasts.n) &&
                  scratch.clean(scratch.n),
              "written elsewhere");
        if (!n_carried) continue;
        vector<int32_t> want = carried_of(m, l), got;
        CHECK(carried[0] == (int32_t)want.size() && carried.clean(1 + want.size()),
              "%d carried, expected %zu", carried[0], want.size());
        for (size_t c = 0; c < want.size(); c++) got.push_back(carried[1 + c]);
        CHECK(got == want, "other rows are carried");
    }
}

/* ---- timing ---- */

static void time_best(size_t n, size_t n_active, bool half, bool limits, bool made)
{
    table t = { n, n, n_active, n_active, 32, 0, half, WISP_SOFTMAX, {}, {}, {}, {}, NULL };
    make_e(t, 0);
    for (float &x : t.limit) x = limits ? 2.9f : -INFINITY;
    wisp_dfind f;
    wisp_dout o;
    fenced<int32_t> best(n * t.k);
    prepare(f, o, t, best.dev());
    if (made) give_maxima(f, o, t);
    fenced<unsigned char> scratch(wisp_find_lay(&f, NULL));
    wisp_find_lay(&f, scratch.dev());
    double us = graph_us([&](cudaStream_t s, int) { wisp_find_best(f, o, s); }, 32);
    double mb = (double)(n * n_active) * (half ? 2 : 4) / 1e6;
    printf("  time find_best, %zu samples, %zu rows, %s%s%s: %.1f us, %.1f MB, %.0f GB/s\n", n,
           n_active, half ? "bf16" : "fp32", limits ? ", with limits" : "",
           made ? ", with maxima" : "", us, mb, mb / us * 1e3);
    cudaFree(t.dev);
}

static void time_learn(size_t n, size_t n_rows, size_t popular, size_t n_carried)
{
    const size_t N_SAMPLES = 490449;
    memory m = { n_rows, N_SAMPLES, 24, 20, n_carried, {}, {}, {} };
    lesson l = { n, 32, 20, {}, {}, {}, {}, {} };
    make_lesson(l, m, n, 11, popular, 1);
    size_t active = std::min(l.rows.size(), (size_t)6400);
    fenced<int32_t> rings(n_rows * 24), lasts(N_SAMPLES * 20), carried(1 + n_carried);
    fenced<uint8_t> next(n_rows);
    rings.fill(-1), next.fill(0);
    wisp_dfind f = wisp_dfind();
    wisp_dout o = wisp_dout();
    f.now = l.b.dev, f.batch = n, f.n_rows = n_rows, f.k = 32, f.deep = 20, f.neighbours = true;
    f.ring = 24, f.last = 20, f.n_samples = N_SAMPLES;
    f.rings = rings.dev(), f.next = next.dev(), f.lasts = lasts.dev();
    f.n_carried = n_carried, f.carried = carried.dev(), f.best = put(l.best);
    f.found = put(l.found), f.active.room = active, f.active.rows = put(l.rows);
    f.active.n = put(vector<uint32_t>(1, (uint32_t)active));
    o.heat = put(l.heat), o.lab_room = n * 11;
    fenced<unsigned char> scratch(wisp_find_lay(&f, NULL));
    wisp_find_lay(&f, scratch.dev());
    double us = graph_us([&](cudaStream_t s, int) { wisp_find_learn(f, o, s); }, 32);
    printf("  time find_learn, %zu samples, %u labels, %zu carried: %.1f us\n", n,
           l.b.now.n_distinct, n_carried, us);
}

int main(void)
{
    static const size_t shapes[][5] = {
        /* n, batch, active, room, k */
        { 1, 1, 1, 1, 1 },          { 1, 3, 31, 40, 32 },     { 7, 20, 100, 333, 4 },
        { 64, 64, 1025, 1025, 32 }, { 65, 100, 700, 900, 8 }, { 30, 70, 2000, 2500, 64 },
        { 5, 5, 4500, 4500, 128 },  { 9, 9, 0, 50, 32 },      { 0, 9, 10, 50, 32 },
        { 33, 33, 3000, 3001, 33 }, { 300, 300, 65, 80, 2 },  { 250, 256, 97, 100, 3 },
        { 517, 600, 300, 310, 7 },
    };
    TEST("best active rows");
    for (auto &s : shapes)
        for (int v = 0; v < 8; v++)
            test_best(s[0], s[1], s[2], s[3], s[4], v % 2 == (int)(s[2] % 2),
                      s[4] % 3 ? WISP_SOFTMAX : WISP_BCE, v % 4, v / 4);
    TEST("rings, memories and carried rows");
    test_learn(500, 30, 30, 24, 20, 32, 20, 8, 500, 75);
    test_learn(300, 40, 37, 56, 40, 64, 40, 12, 20, 0); /* the same labels again and again */
    test_learn(80, 100, 100, 24, 20, 32, 20, 3, 2, 300);
    test_learn(200, 9, 1, 7, 3, 5, 0, 20, 200, 1);
    test_learn(3000, 20, 20, 255, 70, 128, 64, 40, 60, 450);
    test_learn(3000, 20, 20, 30, 26, 40, 30, 40, 600, 2000);
    if (!getenv("RIG_SMALL")) {
        time_best(256, 6400, true, false, false);
        time_best(256, 6400, true, true, false);
        time_best(256, 6400, true, false, true);
        time_best(256, 6400, false, false, false);
        time_best(1024, 20000, true, false, false);
        time_best(1024, 20000, true, false, true);
        time_best(1024, 20000, false, false, false);
        time_learn(256, 670091, 670091, 0);
        time_learn(1024, 670091, 670091, 0);
        time_learn(256, 30000, 50, 500);
    }
    return test_end();
}
