/* Ids beyond what is in proportion to a text: those that a model knows, or the rows that these go
 * with, or the model to go on from, are kept; all others are left out, by name or refused, and a
 * number of features that only a header claims takes no memory. */
#include "data_rig.h"
#include "data/ids.h"

static const struct wisp_format *const formats[] = { &wisp_format_xc, &wisp_format_libsvm };
enum { N_FORMATS = 2, FREE = 64, KNOWN = 1000, MOST = 900 };

/* ids about KNOWN, which is far more than FREE and than the bytes of the text */
static const char text[] = "7 3:1 899:2\n890 998:1\n950 2000:1\n";

static struct wisp_data *read_with(const struct wisp_read_options *o, const char *rows,
                                   wisp_status want)
{
    struct wisp_data *d;
    wisp_error err = { 0 };
    const wisp_status st = wisp_data_read_text(&d, &one, rows, strlen(rows), "t", o, &err);
    CHECK(st == want && !d == (st != WISP_OK), "status %d: %s", st, err.text);
    return st == WISP_OK ? d : NULL;
}

static void test_model(void)
{
    TEST("ids that a model knows are kept, however short the text");
    for (int f = 0; f < N_FORMATS; f++) {
        const int base = formats[f]->index_base;
        const struct wisp_read_options o = { .format = formats[f]->name,
                                             .index_base = -1,
                                             .no_header = true,
                                             .n_features = KNOWN,
                                             .n_labels = MOST,
                                             .like = formats[f],
                                             .like_base = formats[f]->index_base,
                                             .decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES };
        struct wisp_data *d = read_with(&o, text, WISP_OK);
        if (!d) continue;
        size_t r;
        const struct wisp_rows *b = wisp_data_row(d, 0, &r);
        CHECK(d->n_rows == 3 && d->nnz == 3 && d->n_dropped_features == 1,
              "%s: %zu values, %zu left out", o.format, d->nnz, d->n_dropped_features);
        CHECK(d->nnz == 3 && b->xi[0] == 3 - base && b->xi[1] == 899 - base &&
                  b->xi[2] == 998 - base,
              "%s: ids", o.format);
        CHECK(d->n_lab == 3 && b->yi[1] == 890 && b->yi[2] == MOST && d->n_dropped_labels == 1,
              "%s: labels %d, %d; %zu unknown", o.format, b->yi[1], b->yi[2], d->n_dropped_labels);
        wisp_data_free(d);
    }
}

static void test_grow(void)
{
    TEST("ids of the model to go on from are in proportion; further ones are not");
    for (int f = 0; f < N_FORMATS; f++) {
        struct wisp_read_options o = { .format = formats[f]->name,
                                       .index_base = -1,
                                       .no_header = true,
                                       .old_features = KNOWN,
                                       .old_labels = 960,
                                       .grow = true,
                                       .like = formats[f],
                                       .like_base = formats[f]->index_base,
                                       .decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES };
        struct wisp_data *d = read_with(&o, "7 3:1 899:2\n950 999:1\n", WISP_OK);
        if (d) CHECK(d->nnz == 3 && d->n_dropped_features == 0, "%zu values", d->nnz);
        wisp_data_free(d);
        read_with(&o, text, WISP_EFORMAT);
        o.old_features = 0;
        read_with(&o, "7 3:1 899:2\n", WISP_EFORMAT);
        o.old_features = KNOWN, o.old_labels = 0;
        read_with(&o, "950 3:1\n", WISP_EFORMAT);
    }
}

/* What a header says of a model's ids is in proportion as well. */
static void test_grow_header(void)
{
    TEST("a header of no more than the model to go on from has");
    enum { MANY = 50 * FREE };
    struct wisp_read_options o = { .format = "xc",
                                   .index_base = -1,
                                   .old_features = MANY,
                                   .old_labels = MANY,
                                   .grow = true,
                                   .like = &wisp_format_xc,
                                   .decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES };
    struct wisp_data *d = read_with(&o, "1 3200 3200\n0 1:2 3199:1\n", WISP_OK);
    if (d) CHECK(d->n_features == MANY && d->n_labels == MANY, "%zu features", d->n_features);
    wisp_data_free(d);
    read_with(&o, "1 3201 3200\n0 1:2 3199:1\n", WISP_EFORMAT);
    o.old_labels = 0;
    read_with(&o, "1 3200 3200\n0 1:2 3199:1\n", WISP_EFORMAT);
}

static void test_header(void)
{
    TEST("a header claims no more than is in proportion, or known");
    static const struct {
        size_t known, want_features, want_labels;
    } cases[] = { { 0, FREE, FREE }, { KNOWN, KNOWN, KNOWN }, { 10, 10, FREE } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wisp_read_options o = { .format = "xc",
                                             .index_base = -1,
                                             .n_features = cases[i].known,
                                             .n_labels = cases[i].known,
                                             .like = &wisp_format_xc,
                                             .decided = WISP_NAMED_LABELS | WISP_NAMED_FEATURES };
        struct wisp_data *d = read_with(&o, "1 999999999 888888888\n0 1:2\n", WISP_OK);
        if (d)
            CHECK(d->n_features == cases[i].want_features && d->n_labels == cases[i].want_labels,
                  "known %zu: %zu features, %zu labels", cases[i].known, d->n_features,
                  d->n_labels);
        wisp_data_free(d);
    }
}

/* A list has as many names as it says, whatever its text goes on with. */
static void test_numbers(void)
{
    TEST("names that are numbers");
    size_t start[] = { 0, 2, 5, 8 };
    char names[] = "7\n12\nab\n";
    const struct wisp_names three = { .n = 3, .text = names, .bytes = 8, .start = start },
                            one_name = { .n = 1, .text = names, .bytes = 2, .start = start };
    CHECK(wisp_names_number(&three, 0) == 7 && wisp_names_number(&three, 1) == 12 &&
              wisp_names_number(&three, 2) == -1,
          "7, 12, ab");
    CHECK(wisp_names_number(&one_name, 1) == -1, "beyond");
}

int main(void)
{
    const size_t usual = wisp_ids_free;
    wisp_ids_free = FREE;
    test_model();
    test_grow();
    test_grow_header();
    test_header();
    test_numbers();
    wisp_ids_free = usual;
    return test_end();
}
