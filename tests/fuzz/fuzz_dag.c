/* Fuzzing files of graphs, in either form: what is accepted has an order, and can be run. */
#define FUZZ_NAME   "fuzz_dag"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_ENOTSUP, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "input ", "output ", "node ", "node b relu\n", "a b 1\n", "b a 1\n", "tanh", "sigmoid", "nan", \
        "1e400", "-1", "\r\n", "#", "%%MatrixMarket matrix coordinate real general\n", "3 3 2\n",  \
        "4294967296"
#define FUZZ_MUTANTS 16000
#include "fuzz/rig.h"

#include "spdnn/dag.h"
#include "spdnn/mtx.h"

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

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_dag_file f;
    if (!fuzz_measuring) wisp_tsv_id_max = 1 << 12; /* arrays are as long as ids say */
    wisp_status st = wisp_dag_read(&f, fuzz_save("graph", p, n), how & 1 ? 2 : -1, err);
    if (!f.from != (st != WISP_OK)) fuzz_die("an error, and edges", err);
    if (st == WISP_OK) use(&f);
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

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < 2 * n ? fuzz_put(to, (unsigned)(i / n), seeds[i % n], strlen(seeds[i % n])) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
}
#endif
