/* Files that break their format, and odd ones that a documented rule accepts: all formats but the
 * rows of xc and libsvm text, which test_malformed.c has.  One table: the reader, the bytes, and
 * either a part of the message or a summary of what came out.  Messages begin with the file's name
 * and, for text, the line. */
#include "folder_rig.h"
#include "error_rig.h"

#include "base/idx.h"
#include "base/mem.h"
#include "config/options.h"
#include "data/text.h"
#include "model/file.h"
#include "spdnn/mtx.h"
#include "spdnn/netfile.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static char done[200]; /* what a reader made of a file */

/* ---- readers ---- */

static wisp_status read_rows(const char *format, const char *path, wisp_error *err)
{
    const struct wisp_read_options o = {
        .format = format, .index_base = -1, .min_count = 1, .no_header = !strcmp(format, "xc")
    };
    struct wisp_data *d;
    wisp_status st = wisp_data_read(&d, NULL, path, &o, err);
    if (st == WISP_OK)
        snprintf(done, sizeof done, "%zu rows, %zu features, %zu labels, %zu values, %zu of labels",
                 d->n_rows, d->n_features, d->n_labels, d->nnz, d->n_lab);
    wisp_data_free(d);
    return st;
}

static wisp_status read_fasttext(const uint8_t *p, size_t n, wisp_error *err)
{
    return read_rows("fasttext", save_in("f", p, n), err);
}

static wisp_status read_npz(const uint8_t *p, size_t n, wisp_error *err)
{
    return read_rows("npz", save_in("f.npz", p, n), err);
}

static wisp_status read_idx(const uint8_t *p, size_t n, wisp_error *err)
{
    return read_rows("idx", save_in("f", p, n), err);
}

/* Text of 3 rows, packed: the bytes say how.  "gz-5": cut by 5; "gz+x": and then x; "gzgz": twice.
 */
static wisp_status read_packed(const uint8_t *p, size_t n, wisp_error *err)
{
    static const uint8_t rows[] = "0 1:1\n1 2:1\n0 3:1\n";
    static uint8_t b[1000];
    size_t at = 0;
    for (; n > 0; p++, n--) {
        if (*p == 'g') {
            z_stream z = { .next_in = (uint8_t *)rows,
                           .avail_in = sizeof rows - 1,
                           .next_out = b + at,
                           .avail_out = (unsigned)(sizeof b - at) };
            deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
            deflate(&z, Z_FINISH);
            deflateEnd(&z);
            at += z.total_out;
        } else if (*p == 'z') {
            at += ZSTD_compress(b + at, sizeof b - at, rows, sizeof rows - 1, 1);
        } else if (*p == '-') { /* and a digit */
            at -= p[1] - (size_t)'0';
            p++, n--;
        } else if (*p == '~') { /* the last byte but so many is another */
            b[at - 1 - (p[1] - (size_t)'0')] ^= 0x55;
            p++, n--;
        } else {
            b[at++] = *p;
        }
    }
    return read_rows("xc", save_in("f", b, at), err);
}

static wisp_status read_names(const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_names x;
    wisp_status st = wisp_names_load(&x, save_in("f", p, n), err);
    size_t at = 0;
    for (size_t i = 0; i < x.n; i++)
        at += (size_t)snprintf(done + at, sizeof done - at, "%.*s|",
                               (int)(x.start[i + 1] - x.start[i] - 1), x.text + x.start[i]);
    wisp_names_clear(&x);
    return st;
}

static wisp_status read_config(const uint8_t *p, size_t n, wisp_error *err)
{
    wisp_config *c;
    wisp_status st = wisp_config_create(&c, err);
    if (st == WISP_OK) st = wisp_config_load(c, save_in("f", p, n), err);
    if (st == WISP_OK) snprintf(done, sizeof done, "seed %s", wisp_config_get(c, "seed"));
    wisp_config_free(c);
    return st;
}

static wisp_status read_mtx(const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_mtx m;
    wisp_status st = wisp_mtx_read(&m, save_in("f", p, n), false, err);
    if (st == WISP_OK)
        snprintf(done, sizeof done, "%u x %u, %llu edges", m.e.n_out, m.e.n_in,
                 (unsigned long long)m.own.start[m.e.n_out]);
    wisp_mtx_clear(&m);
    return st;
}

static wisp_status read_layer(const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_spnet *net;
    mkdir(in_folder("neuron70"), 0777);
    mkdir(in_folder("neuron70-l1.wispcache"), 0777); /* keeps a cache away */
    save_in("neuron70/n70-l1.tsv", p, n);
    wisp_status st = wisp_challenge_net(&net, folder, 70, 1, NULL, err);
    if (net) snprintf(done, sizeof done, "%llu edges", (unsigned long long)net->n_edges);
    wisp_spnet_free(net);
    return st;
}

static wisp_status read_images(const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_spinputs x;
    mkdir(in_folder("sparse-images-70.tsv.wispcache"), 0777);
    save_in("sparse-images-70.tsv", p, n);
    wisp_status st = wisp_challenge_inputs(&x, folder, 70, NULL, err);
    if (st == WISP_OK) snprintf(done, sizeof done, "%zu %s", x.n, x.bits ? "bits" : "numbers");
    wisp_spinputs_clear(&x);
    return st;
}

static wisp_status read_truth(const uint8_t *p, size_t n, wisp_error *err)
{
    uint32_t *rows;
    size_t n_rows;
    save_in("neuron70-l1-categories.tsv", p, n);
    wisp_status st = wisp_challenge_truth(&rows, &n_rows, folder, 70, 1, err);
    if (st == WISP_OK) snprintf(done, sizeof done, "%zu rows", n_rows);
    wisp_free(rows);
    return st;
}

/* The JSON of a header; its length goes before it, 64 bytes of zeros behind it. */
static wisp_status read_tensors(const uint8_t *p, size_t n, wisp_error *err)
{
    static uint8_t b[2000];
    const uint64_t head = n;
    struct wisp_tensor_file f;
    memset(b, 0, sizeof b);
    memcpy(b, &head, 8);
    memcpy(b + 8, p, n);
    wisp_status st = wisp_tensor_file_open(&f, NULL, save_in("f", b, 8 + n + 64), err);
    wisp_tensor_file_close(&f);
    return st;
}

static wisp_status read_model(const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_tensor_file f;
    wisp_status st = wisp_tensor_file_open(&f, NULL, save_in("f", p, n), err);
    wisp_tensor_file_close(&f);
    return st;
}

/* ---- the table ---- */

#define MM "%%MatrixMarket matrix coordinate real general\n"
#define U8(name, shape, offsets)                                                                   \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
typedef wisp_status reader(const uint8_t *p, size_t n, wisp_error *err);

static const struct malformed {
    const char *name;
    reader *read;
    const char *bytes;
    size_t n;
    wisp_status st;
    const char *words;
} cases[] = {
#define BAD(name, reader, bytes, words)                                                            \
    {                                                                                              \
        name, read_##reader, bytes, sizeof(bytes) - 1, WISP_EFORMAT, words                         \
    }
#define ODD(name, reader, bytes, st, words)                                                        \
    {                                                                                              \
        name, read_##reader, bytes, sizeof(bytes) - 1, st, words                                   \
    }
#define GOOD(name, reader, bytes, words)                                                           \
    {                                                                                              \
        name, read_##reader, bytes, sizeof(bytes) - 1, WISP_OK, words                              \
    }
    /* fasttext */
    GOOD("two labels, words again", fasttext, "__label__a __label__b x y x\n",
         "1 rows, 2 features, 2 labels, 2 values, 2 of labels"),
    GOOD("labels anywhere, again", fasttext, "x __label__a y __label__a\n",
         "1 rows, 2 features, 1 labels, 2 values, 1 of labels"),
    GOOD("CRLF, BOM, no final line end", fasttext, "\xef\xbb\xbf__label__a x\r\n__label__b y",
         "2 rows, 2 features, 2 labels, 2 values, 2 of labels"),
    GOOD("lines of blanks are no rows", fasttext, " \n\n__label__a x\n\t\n",
         "1 rows, 1 features, 1 labels, 1 values, 1 of labels"),
    GOOD("no labels", fasttext, "x y\nz\n", "2 rows, 3 features, 0 labels, 3 values, 0 of labels"),
    GOOD("no words", fasttext, "__label__a\n",
         "1 rows, 0 features, 1 labels, 0 values, 1 of labels"),
    GOOD("bytes that are no UTF-8", fasttext, "__label__\xff \xfe\n",
         "1 rows, 1 features, 1 labels, 1 values, 1 of labels"),
    GOOD("empty", fasttext, "", "0 rows, 0 features, 0 labels, 0 values, 0 of labels"),
    BAD("label without a name", fasttext, "__label__a x\ny __label__ z\n",
        "f:2: a label without a name"),
    BAD("NUL", fasttext, "__label__a x\ny\0z\n", "f:2: a NUL byte"),
    /* packed text */
    GOOD("gz", packed, "g", "3 rows, 4 features, 2 labels, 3 values, 3 of labels"),
    GOOD("zst", packed, "z", "3 rows, 4 features, 2 labels, 3 values, 3 of labels"),
    GOOD("two pieces, gz", packed, "gg", "6 rows, 4 features, 2 labels, 6 values, 6 of labels"),
    GOOD("two pieces, zst", packed, "zz", "6 rows, 4 features, 2 labels, 6 values, 6 of labels"),
    GOOD("a skippable frame, zst", packed, "\x50\x2a\x4d\x18\2\0\0\0xyz",
         "3 rows, 4 features, 2 labels, 3 values, 3 of labels"),
    BAD("cut by a byte, gz", packed, "g-1", "the gzip data ends too early"),
    BAD("cut by 9 bytes, gz", packed, "g-9", "the gzip data ends too early"),
    BAD("cut by a byte, zst", packed, "z-1", "the zstd data ends too early"),
    BAD("second piece cut, gz", packed, "gg-3", "f:7: the gzip data ends too early"),
    BAD("second piece cut, zst", packed, "zz-3", "f:6: the zstd data ends too early"),
    BAD("checksum, gz", packed, "g~5", "the gzip data is damaged"),
    BAD("length, gz", packed, "g~1", "the gzip data is damaged"),
    BAD("a byte changed, gz", packed, "g~9", "f:"),
    BAD("text behind it, gz", packed, "g0 1:1\n", "other bytes follow the end of the gzip data"),
    BAD("text behind it, zst", packed, "z0 1:1\n", "other bytes follow the end of the zstd data"),
    BAD("zst behind gz", packed, "gz", "other bytes follow the end of the gzip data"),
    BAD("magic only, gz", packed, "\x1f\x8b", "f:1: the gzip data ends too early"),
    BAD("method, gz", packed, "\x1f\x8b\x07\0\0\0\0\0\0\3", "f:1: the gzip data is damaged"),
    BAD("magic only, zst", packed, "\x28\xb5\x2f\xfd", "f:1: the zstd data ends too early"),
    BAD("a window of 2 GiB, zst", packed, "\x28\xb5\x2f\xfd\0\xa8\1\0\0",
        "needs a window above 128 MiB"),
    /* npz: what test_npz.c does not have */
    BAD("no archive", npz, "0 1:1\n", "f.npz: not a whole zip archive: it is too short"),
    BAD("no end record", npz, "PK\3\4aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "no end record; is the file cut?"),
    BAD("an empty archive", npz, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        "array 'format': missing"),
    BAD("several parts", npz, "PK\5\6\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "it has several parts"),
    BAD("a directory too far", npz, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\377\0\0\0\0\0",
        "its directory is not before its end record"),
    BAD("2^16 - 1 entries", npz, "PK\5\6\0\0\0\0\377\377\377\377\0\0\0\0\0\0\0\0\0\0",
        "no zip64 locator"),
    BAD("an entry in no bytes", npz, "PK\5\6\0\0\0\0\1\0\1\0\0\0\0\0\0\0\0\0\0\0",
        "its directory is too short for its entries"),
    BAD("empty", npz, "", "it is too short"),
    /* idx */
    GOOD("an image", idx, "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\2\0\7",
         "1 rows, 2 features, 0 labels, 1 values, 0 of labels"),
    BAD("empty", idx, "", "f: 0 bytes; an idx file of 3 dimensions has 16"),
    BAD("cut in its head", idx, "\0\0\10\3\0\0\0\1", "f: 8 bytes"),
    BAD("cut in its data", idx, "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\2\7",
        "1 bytes of data, but its sizes are 1 x 1 x 2"),
    BAD("a byte more", idx, "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\1\7\7",
        "2 bytes of data, but its sizes are"),
    BAD("numbers of 4 bytes", idx, "\0\0\15\3\0\0\0\1\0\0\0\1\0\0\0\1\7", "expected 00 00 08 03"),
    BAD("labels", idx, "\0\0\10\1\0\0\0\1\7aaaaaaa",
        "begins with 00 00 08 01; expected 00 00 08 03"),
    BAD("no images", idx, "\0\0\10\3\0\0\0\0\0\0\0\1\0\0\0\1", "0 images of 1 x 1 pixels"),
    BAD("no pixels", idx, "\0\0\10\3\0\0\0\1\0\0\0\0\0\0\0\1", "1 images of 0 x 1 pixels"),
    BAD("2^96 bytes", idx, "\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377\377",
        "0 bytes of data, but"),
    /* MatrixMarket */
    GOOD("comments, blank lines, CRLF", mtx, MM "% x\r\n\r\n2 3 1\r\n2 3 .5\r\n", "2 x 3, 1 edges"),
    GOOD("capitals", mtx, "%%matrixmarket MATRIX Coordinate Pattern General\n1 1 1\n1 1\n",
         "1 x 1, 1 edges"),
    GOOD("BOM", mtx, "\xef\xbb\xbf" MM "2 3 1\n2 3 1\n", "2 x 3, 1 edges"),
    GOOD("no entries", mtx, MM "2 3 0\n", "2 x 3, 0 edges"),
    GOOD("no final line end", mtx, MM "2 3 1\n2 3 1", "2 x 3, 1 edges"),
    BAD("empty", mtx, "", "f:1: expected '%%MatrixMarket"),
    BAD("no banner", mtx, "2 3 1\n2 3 1\n", "f:1: expected '%%MatrixMarket"),
    ODD("array", mtx, "%%MatrixMarket matrix array real general\n1 1\n1\n", WISP_ENOTSUP,
        "word 3 is not 'coordinate'"),
    ODD("complex", mtx, "%%MatrixMarket matrix coordinate complex general\n", WISP_ENOTSUP,
        "f:1: expected a real"),
    ODD("symmetric", mtx, "%%MatrixMarket matrix coordinate real symmetric\n1 1 0\n", WISP_ENOTSUP,
        "that is 'general'"),
    BAD("no sizes", mtx, MM, "bad sizes"),
    BAD("sizes of 0", mtx, MM "0 3 1\n1 1 1\n", "f:2: bad sizes in '0 3 1'"),
    BAD("negative sizes", mtx, MM "-2 3 1\n1 1 1\n", "f:2: bad sizes"),
    BAD("four sizes", mtx, MM "2 3 1 1\n1 1 1\n", "f:2: bad sizes"),
    BAD("sizes beyond 2^31", mtx, MM "2 4294967296 1\n1 1 1\n", "f:2: bad sizes"),
    BAD("2^60 entries", mtx, MM "2 3 1152921504606846976\n1 1 1\n",
        "too short for the 1152921504606846976 entries"),
    BAD("fewer entries", mtx, MM "2 3 2\n1 1 1\n", "cut off: 1 of the 2 entries"),
    BAD("more entries", mtx, MM "2 3 1\n1 1 1\n2 2 1\n", "more than the 1 entries"),
    BAD("row 0", mtx, MM "2 3 1\n0 1 1\n", "f:3: an id of 0 in '0 1 1'"),
    BAD("row 3 of 2", mtx, MM "2 3 1\n3 1 1\n", "f:3: an id out of range in '3 1 1'"),
    BAD("negative column", mtx, MM "2 3 1\n1 -1 1\n", "f:3: no id in '1 -1 1'"),
    BAD("NaN", mtx, MM "2 3 1\n1 1 nan\n", "f:3: no finite number in '1 1 nan'"),
    BAD("1e400", mtx, MM "2 3 1\n1 1 1e400\n", "f:3: no finite number"),
    BAD("no value", mtx, MM "2 3 1\n1 1\n", "f:3: a field is missing"),
    BAD("four fields", mtx, MM "2 3 1\n1 1 1 1\n", "f:3: more than that"),
    BAD("twice", mtx, MM "2 3 3\n1 1 1\n2 2 1\n1 1 2\n", "f:5: an edge again in '1 1 2'"),
    BAD("NUL", mtx, MM "2 3 1\n1 1\0 1\n", "f:3: "),
    /* layers of the Graph Challenge */
    GOOD("unsorted, CRLF, no final line end", layer, "2\t1\t.5\r\n1\t1\t.5\r\n1\t2\t.5", "3 edges"),
    BAD("empty", layer, "", "n70-l1.tsv: empty"),
    BAD("an empty line", layer, "1\t1\t1\n\n2\t1\t1\n", "n70-l1.tsv:2: no id in ''"),
    BAD("neuron 0", layer, "1\t1\t1\n0\t1\t1\n", "n70-l1.tsv:2: an id of 0"),
    BAD("neuron 71 of 70", layer, "1\t71\t1\n", "n70-l1.tsv:1: an id out of range"),
    BAD("neuron 2^64", layer, "18446744073709551616\t1\t1\n", "n70-l1.tsv:1: "),
    BAD("inf", layer, "1\t1\tinf\n", "n70-l1.tsv:1: no finite number"),
    BAD("twice", layer, "1\t1\t1\n2\t1\t1\n1\t1\t1\n", "n70-l1.tsv:3: an edge again"),
    BAD("cut in its last number", layer, "1\t1\t.0625\n2\t1\t.0625\n1\t2\t.06",
        "n70-l1.tsv:3: no line end"),
    GOOD("BOM", layer,
         "\xef\xbb\xbf"
         "1\t1\t1\n",
         "1 edges"),
    BAD("nothing but a BOM", layer, "\xef\xbb\xbf", "n70-l1.tsv: empty"),
    BAD("BOM in the middle", layer,
        "1\t1\t1\n\xef\xbb\xbf"
        "2\t1\t1\n",
        "n70-l1.tsv:2: no id in '<U+FEFF>2 1 1'"),
    /* images */
    GOOD("ones", images, "2\t1\t1\n1\t70\t1\n", "2 bits"),
    GOOD("numbers", images, "2\t1\t.5\n1\t70\t1\n", "2 numbers"),
    BAD("empty", images, "", "sparse-images-70.tsv: empty"),
    BAD("pixel 71 of 70", images, "1\t71\t1\n", "sparse-images-70.tsv:1: an id out of range"),
    BAD("image -1", images, "-1\t1\t1\n", "sparse-images-70.tsv:1: no id"),
    BAD("a pixel again", images, "1\t1\t1\n2\t1\t1\n1\t1\t1\n",
        "sparse-images-70.tsv:3: a pixel again"),
    BAD("a pixel again, numbers", images, "1\t1\t2\n1\t1\t2\n",
        "sparse-images-70.tsv:2: a pixel again"),
    BAD("NaN", images, "1\t1\t1\n1\t2\tNaN\n", "sparse-images-70.tsv:2: no finite number"),
    /* categories */
    GOOD("rows", truth, "1\n7\r\n9", "3 rows"),
    GOOD("none", truth, "", "0 rows"),
    BAD("not ascending", truth, "1\n7\n7\n", "categories.tsv:3: not above the line before"),
    BAD("row 0", truth, "0\n", "categories.tsv:1: an id of 0"),
    BAD("two fields", truth, "1 2\n", "categories.tsv:1: more than that"),
    BAD("a word", truth, "1\nx\n", "categories.tsv:2: no id in 'x'"),
    /* names */
    GOOD("names", names, "a\nb c\n\nd", "a|b c||d|"),
    GOOD("BOM, CRLF, a field before a tab", names, "\xef\xbb\xbfu\ta\r\nb\r\n", "a|b|"),
    GOOD("empty", names, "", ""),
    BAD("NUL", names, "a\nb\0\n", "f:2: a NUL byte, expected a name"),
    /* files of options */
    GOOD("one option", config, "seed = 5", "seed 5"),
    GOOD("BOM", config, "\xef\xbb\xbfseed = 5\n", "seed 5"),
    GOOD("blank lines, comments, CRLF", config, "\r\n#\n   seed=5\t\r\n", "seed 5"),
    GOOD("the last of two counts", config, "seed = 4\nseed = 5\n", "seed 5"),
    GOOD("a comment behind it", config, "seed = 5 # = 6\n", "seed 5"),
    ODD("NUL on a line of its own", config, "seed = 5\n\0", WISP_EINVAL, "f:2: a NUL byte"),
    ODD("NUL in a value", config, "log = a\0b\n", WISP_EINVAL, "f:1: a NUL byte"),
    ODD("NUL, no final line end", config, "log = a\0b", WISP_EINVAL, "f:1: a NUL byte"),
    ODD("UTF-16", config, "\xff\xfes\0e\0e\0d\0", WISP_EINVAL, "f:1: a NUL byte"),
    ODD("no such option", config, "\n\nseeds = 5\n", WISP_EINVAL, "f:3: no option 'seeds'"),
    ODD("no value", config, "seed = 5\nseed\n", WISP_EINVAL,
        "f:2: expected 'key = value', found 'seed'"),
    ODD("an empty value", config, "seed = \n", WISP_EINVAL,
        "f:1: --seed: '' is not a whole number"),
    ODD("an empty key", config, "= 5\n", WISP_EINVAL, "f:1: no option ''"),
    ODD("1e400", config, "seed = 1e400\n", WISP_EINVAL, "f:1: --seed: 1e400 is not in"),
    ODD("negative", config, "seed = -1\n", WISP_EINVAL, "f:1: --seed: -1 is not in"),
    ODD("NaN for a whole number", config, "seed = nan\n", WISP_EINVAL,
        "f:1: --seed: 'nan' is not a whole"),
    ODD("NaN", config, "lr = nan\n", WISP_EINVAL, "f:1: --lr: nan is not in"),
    ODD("inf", config, "lr = inf\n", WISP_EINVAL, "f:1: --lr: inf is not in"),
    ODD("a size of no unit we know", config, "memory = 1Q\n", WISP_EINVAL,
        "f:1: --memory: '1Q' is not a size"),
    ODD("a negative size", config, "memory = -1\n", WISP_EINVAL,
        "f:1: --memory: '-1' is not a size"),
    ODD("2^70 bytes", config, "memory = 1073741824T\n", WISP_EINVAL, "f:1: --memory"),
    ODD("a word that is no choice", config, "loss = l2\n", WISP_EINVAL,
        "f:1: --loss: 'l2' is not one of"),
    ODD("a file that names another", config, "config = x\n", WISP_EINVAL,
        "f:1: a file of options cannot name another"),
    /* headers of model files */
    ODD("no JSON", tensors, "{", WISP_EMODEL, "f: the header is not valid JSON"),
    ODD("not an object", tensors, "[]", WISP_EMODEL, "f: the header is not a JSON object"),
    ODD("a key twice", tensors, "{" U8("a", "[8]", "[0,8]") "," U8("a", "[8]", "[0,8]") "}",
        WISP_EMODEL, "f: a duplicate key: tensor 'a'"),
    ODD("no tensors", tensors, "{}", WISP_EMODEL, "f: no tensors"),
    ODD("a tensor that is a number", tensors, "{\"a\":1}", WISP_EMODEL,
        "tensor 'a': expected dtype"),
    ODD("a hole", tensors,
        "{" U8("a", "[8]", "[8,16]") "," U8("__integrity__", "[8]", "[16,24]") "}", WISP_EMODEL,
        "leaves a hole before it"),
    ODD("a hole in a file from elsewhere", tensors, "{" U8("a", "[8]", "[8,16]") "}", WISP_EMODEL,
        "no __integrity__ tensor at the end: not written by wisp"),
    ODD("an overlap", tensors,
        "{" U8("a", "[8]", "[0,8]") "," U8("__integrity__", "[8]", "[4,12]") "}", WISP_EMODEL,
        "f: "),
    ODD("beyond the end", tensors, "{" U8("a", "[65]", "[0,65]") "}", WISP_EMODEL,
        "cut off: tensor 'a' ends at byte 65"),
    ODD("offsets that fall", tensors, "{" U8("a", "[8]", "[8,0]") "}", WISP_EMODEL,
        "expected data_offsets [begin, end]"),
    ODD("another size than its shape's", tensors, "{" U8("a", "[9]", "[0,8]") "}", WISP_EMODEL,
        "8 bytes, its shape needs 9"),
    ODD("a shape that overflows", tensors,
        "{\"a\":{\"dtype\":\"I64\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
        WISP_EMODEL, "its shape is too large"),
    ODD("a negative dimension", tensors, "{" U8("a", "[-8]", "[0,8]") "}", WISP_EMODEL,
        "is not a whole number from 0"),
    ODD("five dimensions", tensors, "{" U8("a", "[2,2,2,1,1]", "[0,8]") "}", WISP_EMODEL,
        "at most 4 numbers"),
    ODD("a shape that is no list", tensors, "{" U8("a", "8", "[0,8]") "}", WISP_EMODEL,
        "at most 4 numbers"),
    ODD("four dimensions that overflow", tensors,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[65536,65536,65536,65536],\"data_offsets\":[0,0]}}",
        WISP_EMODEL, "its shape is too large"),
    ODD("no integrity", tensors, "{" U8("a", "[64]", "[0,64]") "}", WISP_EMODEL, "f: "),
    ODD("empty file", model, "", WISP_EMODEL, "f: 0 bytes are too few"),
    ODD("7 bytes", model, "\1\0\0\0\0\0\0", WISP_EMODEL, "f: 7 bytes are too few"),
    ODD("a header of 2^60 bytes", model, "\0\0\0\0\0\0\0\20{}", WISP_EMODEL,
        "f: a header of 1152921504606846976 bytes"),
    ODD("a header that is cut", model, "\100\0\0\0\0\0\0\0{\"a\"", WISP_EMODEL,
        "f: cut off: a header of 64 bytes"),
};

int main(void)
{
    const long before = wisp_mem_live;
    if (!mkdtemp(folder)) return 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct malformed *c = &cases[i];
        wisp_error err = { 0 };
        char name[120];
        snprintf(name, sizeof name, "malformed file: %s", c->name);
        TEST(name);
        done[0] = 0;
        wisp_status st = c->read((const uint8_t *)c->bytes, c->n, &err);
        const char *got = st == WISP_OK ? done : err.text;
        CHECK(st == c->st, "status %d, expected %d: %s", st, c->st, got);
        CHECK(c->st == WISP_OK ? strcmp(got, c->words) == 0 : strstr(got, c->words) != NULL,
              "got '%s', expected '%s'", got, c->words);
        CHECK(c->st == WISP_OK || strstr(err.text, folder) == err.text ||
                  strstr(err.text, "out of memory"),
              "no file: '%s'", err.text);
        CHECK(!strpbrk(err.text, "\n\r\t"), "not one line: '%s'", err.text);
        CHECK(strstr(err.text, folder) != err.text || place_agrees(&err),
              "line %zu, %u and %u bytes: '%s'", err.line, err.file_bytes, err.place_bytes,
              err.text);
        CHECK(wisp_mem_live == before, "%ld blocks leaked", wisp_mem_live - before);
        test_close();
    }
    return folder_end();
}
