/* Fuzzing MatrixMarket files, and matrices in either form: what is accepted makes a layer. */
#define FUZZ_NAME   "fuzz_mtx"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_ENOTSUP
#define FUZZ_WORDS                                                                                 \
    "%%MatrixMarket matrix coordinate ", "real", "integer", "pattern", "general\n", "symmetric",   \
        "%", "3 4 4\n", "4294967296", "99999999999999999999", "-1", "\r\n", "1e400", "nan",        \
        "array"
#define FUZZ_MUTANTS 16000
#include "fuzz/nets.h"

#include "spdnn/mtx.h"

enum { TURNED = 1, ANY = 2, OF_3 = 4 }; /* how: rows are inputs; either form; of 3 outputs */
enum { N_IN = 4 };

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    const char *path = fuzz_save("a.mtx", p, n);
    if (!fuzz_measuring) wisp_tsv_id_max = 1 << 12; /* arrays are as long as ids say */

    struct wisp_mtx m;
    struct wisp_splayer l;
    wisp_status st = how & ANY ? wisp_mtx_read_any(&m, path, N_IN, how & OF_3 ? 3 : 0, err)
                               : wisp_mtx_read(&m, path, how & TURNED, err);
    if (!m.own.start != (st != WISP_OK)) fuzz_die("an error, and edges", err);
    if (st == WISP_OK && how & ANY && (m.e.n_in != N_IN || (how & OF_3 && m.e.n_out != 3)))
        fuzz_die("a matrix of another size", err);
    if (st == WISP_OK) {
        st = wisp_splayer_make(&l, &m.e, err);
        if (st != WISP_OK && st != WISP_ENOMEM) fuzz_die("edges that make no layer", err);
        if (st == WISP_OK) use_layer(&l);
        if (st == WISP_OK) wisp_splayer_clear(&l);
    }
    wisp_mtx_clear(&m);
    return st;
}

#define BANNER "%%MatrixMarket matrix coordinate real general\n"
static const char *const seeds[] = {
    BANNER "% x\n\n3 4 4\n3 1 2\n1 1 .5\n\n2 4 1e2\n1 2 -3\n",
    "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n2 2\n1 1\n",
    "%%MatrixMarket Matrix Coordinate Integer General\r\n2 2 2\r\n1 1 3\r\n2 2 3",
    BANNER "2 2 0\n",
    BANNER "1500000000 2 1\n1 1 1\n",      /* 24 GB, once */
    BANNER "2 2 3\n1 1 1\n2 1 1\n1 1 1\n", /* twice */
    BANNER "2 2 2\n1 1 1\n",               /* cut */
    BANNER "2 2 1\n1 1 1\n2 2 1\n",        /* more */
    BANNER "2 2 1\n3 1 1\n",
    BANNER "2 2 1\n1 1 1e400\n",
    BANNER "0 2 1\n1 1 1\n",
    BANNER "2 2 1152921504606846976\n1 1 1\n", /* 2^60 */
    BANNER "2 2 99999999999999999999999\n",
    BANNER "1500000000 2 1\n1 1 1\n", /* ids out of proportion */
    "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 5.5\n",
    BANNER "% only a comment",
    BANNER,
    "%%MatrixMarket matrix array real general\n2 2\n",
    "%%MatrixMarket matrix coordinate complex general\n2 2 0\n",
    "%%MatrixMarket matrix coordinate real symmetric\n2 2 0\n",
    "%%MatrixMarket matrix coordinate real general more\n2 2 0\n",
    "%MatrixMarket\n",
    "1 1\n4 3\n\n2 2\r\n",
    "1\t1\t0.5\n4\t3\t-2\n2\t1\t1e-3",
    "1 1 1\n1 1 2\n",
    "1 1\n1 2 3\n",
    "5 1\n",
    "1 1048577\n",
    "\1 1\n",
    "\n \n",
    "",
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < 8 * n ? fuzz_put(to, (unsigned)(i / n), seeds[i % n], strlen(seeds[i % n])) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": no such file");
    struct wisp_mtx m;
    wisp_error err;
    CHECK(wisp_mtx_read(&m, fuzz_path("nowhere"), false, &err) == WISP_EIO, "%s", err.text);
}
#endif
