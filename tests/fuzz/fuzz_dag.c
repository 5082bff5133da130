/* Fuzzing files of graphs, in either form: what is accepted has an order, and can be run.
 *
 * The bytes are a file, or a graph in short (how & SHORT): three of them an edge, so that changes of
 * bytes are other graphs, mostly good ones, and not only broken words.  Of a graph in short it is
 * known whether it must be accepted, and with which edges. */
#define FUZZ_NAME   "fuzz_dag"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_ENOTSUP, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "input ", "output ", "node ", "node b relu\n", "a b 1\n", "b a 1\n", "tanh", "sigmoid", "nan", \
        "1e400", "-1", "\r\n", "#", "%%MatrixMarket matrix coordinate real general\n", "3 3 2\n",  \
        "4294967296"
#define FUZZ_MUTANTS 16000
#include "fuzz/rig.h"

#include "dag_rig.h"
#include "spdnn/mtx.h"

/* how: */
enum {
    FUNCTION = 1, /* one is named, for MatrixMarket */
    SHORT = 2,
};

static void use(const struct wisp_dag_file *f)
{
    const struct wisp_dag *d = &f->dag;
    const size_t all = d->n_nodes + d->n_in;
    size_t bad;
    char name[WISP_NODE_NAME];
    if (d->n_nodes == 0 || d->n_in == 0 || d->n_out == 0 || d->start[0] != 0 ||
        (size_t)d->start[d->n_nodes] != d->n_edges || !wisp_dag_ordered(d, &bad))
        fuzz_die("a graph without an order", NULL);
    for (size_t i = 0; i < d->n_nodes; i++) {
        if (!wisp_node_function_at((size_t)d->function[i]) || d->bias[i] - d->bias[i] != 0)
            fuzz_die("a node without a function or bias", NULL);
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++)
            if (d->w[e] - d->w[e] != 0 || (e > d->start[i] && d->from[e] <= d->from[e - 1]))
                fuzz_die("an edge again, or without a weight", NULL);
    }
    for (size_t i = 0; i < all; i++)
        if (!*wisp_dag_name(name, f, i)) fuzz_die("a node without a name", NULL);
    for (size_t o = 0; o < d->n_out; o++)
        if (d->out[o] < 0 || (size_t)d->out[o] >= all) fuzz_die("an output that is no node", NULL);
    if (wisp_dag_measure(d, NULL).n_levels == 0) fuzz_die("no levels", NULL);
}

/* ---- graphs in short ---- */

enum { IN_MOST = 4, NODES_MOST = 12, ALL_MOST = IN_MOST + NODES_MOST };
enum {
    MARKET = 1,
    CRLF = 2,
    EDGES_FIRST = 4
}; /* in the third byte; edges follow from the fourth on */

struct brief {
    unsigned n_in, n, flags; /* nodes from n_in on are no inputs */
    char text[FUZZ_ROOM];
    size_t bytes, n_edges;
    bool joined[ALL_MOST][ALL_MOST]; /* from, to */
    bool good;
};

__attribute__((format(printf, 2, 3))) static void put(struct brief *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(b->text + b->bytes, sizeof b->text - b->bytes, fmt, ap);
    va_end(ap);
    if (n < 0 || b->bytes + (size_t)n + 3 > sizeof b->text) fuzz_die("too long a graph", NULL);
    b->bytes += (size_t)n;
    b->bytes += (size_t)sprintf(b->text + b->bytes, b->flags & CRLF ? "\r\n" : "\n");
}

static void put_nodes(struct brief *b)
{
    for (unsigned i = 0; i < b->n_in; i++) put(b, "input n%u", i);
    for (unsigned i = b->n_in; i < b->n; i++)
        put(b, "node n%u %s 0.%u", i,
            wisp_node_function_name((size_t)i * 7 % wisp_node_functions()), i);
}

/* Edges go to a node from one before it, none is there twice; but for one in 16, which is as the
 * bytes say. */
static void put_edges(struct brief *b, const uint8_t *p, size_t n)
{
    for (const uint8_t *end = p + n / 3 * 3; p < end && b->bytes + 100 < sizeof b->text; p += 3) {
        const unsigned u = p[0] % b->n, v = p[1] % b->n, late = u > v ? u : v;
        unsigned from = u < v ? u : v, to = late < b->n_in ? b->n_in : late;
        const bool any = p[2] >> 4 == 15, once = from != to && !b->joined[from][to];
        if (any) from = u, to = v;
        else if (!once) continue;
        b->good = b->good && !any;
        b->joined[from][to] = true;
        b->n_edges++;
        if (b->flags & MARKET) put(b, "%u %u 0.%u", to + 1, from + 1, p[2] + 1u);
        else put(b, "n%u n%u 0.%u", from, to, p[2] + 1u);
    }
}

static void write_out(struct brief *b, const uint8_t *p, size_t n)
{
    const uint8_t head[3] = { n > 0 ? p[0] : 0, n > 1 ? p[1] : 0, n > 2 ? p[2] : 0 };
    b->n_in = 1 + head[0] % IN_MOST;
    b->n = b->n_in + 1 + head[1] % NODES_MOST;
    b->flags = head[2];
    b->good = true;
    p += n < 3 ? n : 3, n -= n < 3 ? n : 3;
    if (b->flags & MARKET) { /* the number of edges is said first */
        static struct brief edges;
        edges = *b;
        put_edges(&edges, p, n);
        put(b, "%%%%MatrixMarket matrix coordinate real general");
        put(b, "%u %u %zu", b->n, b->n, edges.n_edges);
    } else if (!(b->flags & EDGES_FIRST)) {
        put_nodes(b);
    }
    put_edges(b, p, n);
    b->good = b->good && (b->n_edges > 0 || !(b->flags & MARKET));
    if (b->flags & MARKET) return;
    if (b->flags & EDGES_FIRST) put_nodes(b);
    put(b, "output n%u n0", b->n - 1);
}

static unsigned said(const struct wisp_dag_file *f, size_t node)
{
    char name[WISP_NODE_NAME];
    wisp_dag_name(name, f, node);
    return f->names ? (unsigned)atoi(name + 1) : (unsigned)atoi(name) - 1;
}

static void compare(const struct brief *b, wisp_status st, const struct wisp_dag_file *f,
                    const wisp_error *err)
{
    if (b->good && st != WISP_OK && !fuzz_starved) fuzz_die("a good graph is refused", err);
    if (st != WISP_OK) return;
    const struct wisp_dag *d = &f->dag;
    if (d->n_edges != b->n_edges || d->n_nodes + d->n_in != b->n) fuzz_die("other numbers", NULL);
    for (size_t i = 0; i < d->n_nodes; i++)
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++)
            if (!b->joined[said(f, (size_t)d->from[e])][said(f, i)]) fuzz_die("another edge", NULL);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static struct brief brief;
    struct wisp_dag_file f;
    if (how & SHORT) {
        brief = (struct brief){ 0 };
        write_out(&brief, p, n);
        p = (const uint8_t *)brief.text, n = brief.bytes;
        if (!(brief.flags & MARKET)) how &= ~(unsigned)FUNCTION;
    }
    if (!fuzz_measuring) wisp_tsv_id_max = 1 << 12; /* arrays are as long as ids say */
    wisp_status st = wisp_dag_read(&f, fuzz_save("graph", p, n), how & FUNCTION ? 2 : -1, err);
    if (!f.from != (st != WISP_OK)) fuzz_die("an error, and edges", err);
    if (st == WISP_OK) use(&f);
    if (how & SHORT) compare(&brief, st, &f, err);
    wisp_dag_file_clear(&f);
    return st;
}

#define BANNER "%%MatrixMarket matrix coordinate real general\n"
static const char *const seeds[] = {
    "input a b\nnode c tanh 0.5\nnode d sin\na c 1\nb c -2e-1\nc d 3\na d 1\noutput d a\n",
    "# x\r\na c 1\r\noutput c\r\ninput a\r\n\r\nnode c step -1\r\n",
    "input a\nnode b relu\nnode c relu\na b 1\nb c 1\nc b 1\noutput b\n", /* a cycle */
    "input a\nnode b relu\nb b 1\noutput b",
    "input a\nnode b relu\na b 1\na b 1\noutput b",
    "input a\nnode b relu\na x 1\noutput b",
    "input a\nnode b relu\nb a 1\noutput b",
    "input a\nnode b relu 1e400\noutput b",
    "input a\nnode b relu\na b nan\noutput b",
    "input a\nnode b none\noutput b",
    "input a a\n",
    "input a output\n",
    "input a\nnode b relu\na b 1\noutput b b",
    "input a\nnode b relu 1 2\n",
    "node b\n",
    "a b\n",
    "a b 1 2\n",
    "input \xff\n",
    "input a\n",
    "",
    "\x1f\x8b\x08\x00",
    BANNER "4 4 3\n2 1 1\n4 2 1\n3 1 5\n",
    BANNER "4 4 4\n1 2 1\n2 1 1\n1 3 1\n4 1 1\n", /* a cycle */
    BANNER "3 4 1\n1 2 1\n",
    BANNER "3 3 0\n",
    BANNER "2147483648 2147483648 1\n1 2 1\n",
};

/* Random graphs as files. */
static const struct dag_text graphs[] = {
    { 1, 1, 1, false, true }, { 2, 6, 6, false, true }, { 3, 20, 2, false, true },
    { 1, 2, 1, true, true },  { 2, 9, 3, true, true },
};

static const char *const briefs[] = {
    /* digits are bytes below 240: edges as they should be */
    "13",
    "130ab0",
    "391ab0bc0cd0de0ef0",
    "3:4abcdefghijklmnopqrstuvwxyz0123456789",
    "291abcdefghijklmnopqrstuvwxyz0123456789",
    "172ab\xff"
    "cd0ba\xf1",
};

static size_t put_graph(uint8_t *to, size_t i)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) fuzz_die("no memory", NULL);
    dag_write(f, i, &graphs[i]);
    fclose(f);
    const size_t n = fuzz_put(to, 0, text, bytes);
    free(text);
    return n;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n_files = sizeof seeds / sizeof *seeds, n_graphs = sizeof graphs / sizeof *graphs,
                 n_briefs = sizeof briefs / sizeof *briefs;
    if (i < n_files) return fuzz_put(to, 0, seeds[i], strlen(seeds[i]));
    i -= n_files;
    if (i == 0) return fuzz_put(to, FUNCTION, seeds[0], strlen(seeds[0]));
    if (i == 1)
        return fuzz_put(to, FUNCTION, BANNER "3 3 1\n3 1 5\n", strlen(BANNER "3 3 1\n3 1 5\n"));
    i -= 2;
    if (i < n_graphs) return put_graph(to, i);
    i -= n_graphs;
    if (i >= 4 * n_briefs) return 0; /* each four times as often as a file */
    return fuzz_put(to, i / n_briefs % 2 ? SHORT | FUNCTION : SHORT, briefs[i % n_briefs],
                    strlen(briefs[i % n_briefs]));
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
}
#endif
