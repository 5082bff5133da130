/* Fuzzing the model file: any bytes are refused, with a reason, or safe to use.
 *
 * Raw: the bytes are the file; with FIX its checksums are made to match first.  Made: a description
 * is written as a file by wisp's own writer, and then read, so that all that is behind the
 * container's checks is reached:
 *
 *   key=value                       a line of metadata
 *   name dtype rows cols            a tensor (cols 0: of one dimension); its bytes are taken from
 *                                   what follows the description, again and again
 *   (an empty line)
 *   bytes
 *
 * Plain: the same as weights from elsewhere, without pads and checksums, of a net of images. */
#define FUZZ_NAME   "fuzz_model"
#define FUZZ_ERRORS WISP_EMODEL, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "18446744073709551616", "9223372036854775807", "null", "\"F32\"", "\"U8\"", "\"I8\"",          \
        "\"BF16\"", ".scale", "__pad_", "__integrity__", "__metadata__", "data_offsets",           \
        "{\"k\":\"v\"}", "[0,64]", "\\u0000", "F32 ", "I8 ", "I64 ", "net=input 2", ".value",      \
        "loss=softmax\n", "values=tfidf\n", "idf F32 3 0\n", "votes.start I64 4 0\n",              \
        "votes.label I32 2 0\n", "votes.weight F32 2 0\n", "labels U8 4 0\n", "vocab U8 6 0\n",    \
        "net=joint\n", "members=2\n", "1/net=input 2\n", "mix F32 2 0\n", "sparse radix 4",        \
        "sparse mask=m", "1.sparse.start I64 4 0\n", "threshold F32 2 0\n", "net=linear\n",        \
        "linear.start I64 4 0\n", "linear.label I32 1 0\n", "linear.feature I32 1 0\n",            \
        "linear.weight F32 1 0\n", "linear.bias F32 2 0\n"
#define FUZZ_MUTANTS 15000
#include "fuzz/tensors.h"

#include "model/joint.h"
#include "model/torch.h"

enum { MADE = 1, FIX = 2, SMALL_CHUNKS = 4, PLAIN = 8 }; /* how */

/* ---- using ---- */

/* All weights of a net: of each parameter in one type, of int8 with scales that are numbers. */
static unsigned use_net(const struct wisp_model *m)
{
    unsigned sum = 0;
    for (size_t i = 0; i < m->net.list.n; i++) {
        const struct wisp_param *p = &m->net.list.p[i];
        for (size_t e = 0; p->role == WISP_FIXED && e < wisp_param_n(p); e++)
            if (p->ids[e] < 0 || (size_t)p->ids[e] >= p->below) fuzz_die("a wire", NULL);
        if (!p->start != !(p->ragged || p->role == WISP_STARTS)) fuzz_die("places of rows", NULL);
        for (size_t row = 0; p->ragged && row < p->rows; row++) {
            size_t n, at = wisp_param_row(p, row, &n);
            if (n > p->cols || at > wisp_param_n(p) || n > wisp_param_n(p) - at)
                fuzz_die("a row", NULL);
        }
        if (p->role != WISP_FIXED && p->role != WISP_STARTS) {
            const unsigned char *w = p->w     ? (const unsigned char *)p->w
                                     : p->b16 ? (const unsigned char *)p->b16
                                     : p->i8  ? (const unsigned char *)p->i8
                                              : p->codes;
            size_t bytes = p->codes ? p->rows * wisp_codes_bytes(p->bits, p->cols)
                                    : wisp_param_n(p) * (p->w     ? 4
                                                         : p->b16 ? 2
                                                                  : 1);
            if (!!p->w + !!p->b16 + !!p->i8 + !!p->codes != 1 || !p->scale != !(p->i8 || p->codes))
                fuzz_die("a parameter of no type, or of two", NULL);
            for (size_t j = 0; j < bytes; j++) sum += w[j];
            for (size_t j = 0; p->codes && j < wisp_param_n(p); j++) {
                const float x = wisp_param_at(p, j);
                if (!(x - x == 0)) fuzz_die("a weight of codes", NULL);
            }
            for (size_t row = 0; p->scale && row < p->rows; row++)
                if (!(p->scale[row] >= 0 && p->scale[row] - p->scale[row] == 0))
                    fuzz_die("a scale", NULL);
        }
    }
    return sum;
}

/* Lists of weights within bounds, in one type. */
static unsigned use_linear(const struct wisp_model *m)
{
    const struct wisp_linear *l = &m->linear;
    const size_t below = l->by_feature ? l->n_labels : l->n_features;
    unsigned sum = 0;
    if (!!l->f32 + !!l->b16 + !!l->i8 != 1 || !l->scale != !l->i8 || l->start[0] != 0)
        fuzz_die("weights of no type, or of two", NULL);
    for (size_t i = 0; i < wisp_linear_lists(l); i++) {
        if (l->start[i] > l->start[i + 1]) fuzz_die("starts fall", NULL);
        for (int64_t e = l->start[i]; e < l->start[i + 1]; e++) {
            if (l->id[e] < 0 || (size_t)l->id[e] >= below ||
                (e > l->start[i] && l->id[e] <= l->id[e - 1]))
                fuzz_die("an id", NULL);
            const size_t feature = l->by_feature ? i : (size_t)l->id[e],
                         label = l->by_feature ? (size_t)l->id[e] : i;
            const float w = wisp_linear_weight(l, feature, label);
            if (!(w - w == 0)) fuzz_die("a weight", NULL);
            sum += w > 0;
        }
    }
    for (size_t i = 0; i < l->n_labels; i++)
        if (!(l->bias[i] - l->bias[i] == 0)) fuzz_die("a bias", NULL);
    if (!l->by_feature && !m->votes.start) fuzz_die("no candidates", NULL);
    return sum;
}

/* Weights of members that are shares, and members over the same labels with what they borrow. */
static unsigned use_joint(const struct wisp_model *m)
{
    unsigned sum = 0;
    float all = 0;
    if (m->joint->n < 2 || m->joint->n > WISP_JOINT_MOST) fuzz_die("a number of members", NULL);
    for (size_t i = 0; i < m->joint->n; i++) {
        const struct wisp_model *member = m->joint->members[i];
        sum += member->linear.start ? use_linear(member) : use_net(member);
        all += m->joint->mix[i];
        if (!(m->joint->mix[i] >= 0) || member->joint || member->label_rows != m->label_rows ||
            member->net.n_labels != m->net.n_labels || member->net.n_features != m->net.n_features)
            fuzz_die("a member", NULL);
    }
    if (!(all > 0.9999f && all < 1.0001f)) fuzz_die("weights of members", NULL);
    return sum;
}

static void use_model(const struct wisp_model *m)
{
    unsigned sum = m->joint ? use_joint(m) : m->linear.start ? use_linear(m) : use_net(m);
    for (size_t l = 0; l < m->net.n_labels; l++) sum += (unsigned)m->label_rows[l];
    for (size_t f = 0; m->values.idf && f < m->net.n_features; f++) sum += m->values.idf[f] > 1;
    if ((m->labels.n && m->labels.n != m->net.n_labels) ||
        (m->vocab.n && m->vocab.n != m->net.n_features))
        fuzz_die("names of other ids", NULL);
    for (int64_t i = 0; m->votes.start && i < m->votes.start[m->net.n_features]; i++)
        if (m->votes.label[i] < 0 || (size_t)m->votes.label[i] >= m->net.n_labels)
            fuzz_die("a vote", NULL);
    for (size_t l = 0; m->threshold && l < m->net.n_labels; l++)
        if (!(m->threshold[l] >= 0 && m->threshold[l] <= 2)) fuzz_die("a threshold", NULL);
    fuzz_sink = sum + (unsigned)strlen(m->describe);
}

static wisp_status open_both(const char *path, wisp_error *err)
{
    struct wisp_tensor_file f;
    struct wisp_model *m;
    wisp_status st = wisp_tensor_file_open(&f, NULL, path, err);
    if (st != WISP_OK && (f.map.p || f.tensors)) fuzz_die("an error, and tensors", err);
    if (st == WISP_OK) tensors_use(&f, WISP_FILE_ALIGN);
    wisp_tensor_file_close(&f);
    if (st != WISP_OK) return st;
    st = wisp_model_open(&m, NULL, path, err);
    if (!m != (st != WISP_OK)) fuzz_die("an error, and a model", err);
    if (m) use_model(m);
    wisp_model_free(m);
    return st;
}

/* Weights of a net of images, with or without those of its output layer. */
static wisp_status open_plain(const char *path, wisp_error *err)
{
    struct wisp_tensor_file f;
    struct wisp_net net = { 0 };
    const struct wisp_layer_sizes sizes = { .batch = 1, .image = { 3, { 1, 2, 1 } } };
    const char *whose;
    float mean, scale;
    wisp_status st = wisp_tensor_file_open_plain(&f, NULL, path, err);
    if (st != WISP_OK && (f.map.p || f.tensors)) fuzz_die("an error, and tensors", err);
    if (st == WISP_OK) tensors_use(&f, 1);
    if (st == WISP_OK)
        st = wisp_net_plan(&net, "image, conv 1 1 as a-0, bn as b, flatten, dense 2 as c", 2, 2,
                           &sizes, err);
    if (st == WISP_OK) st = wisp_net_alloc_params(&net, err);
    for (int head = 0; head < 2 && st == WISP_OK; head++) {
        st = wisp_torch_check(&f, path, &net, head, err);
        if (st == WISP_OK) st = wisp_torch_take(&net, &f, head, err);
        for (size_t i = 0; i < net.list.n && st == WISP_OK; i++)
            if (!wisp_finite(net.list.p[i].w, wisp_param_n(&net.list.p[i])))
                fuzz_die("a weight that is no number", err);
    }
    if (st == WISP_OK) st = wisp_torch_means(&mean, &scale, 1, &whose, &f, path, err);
    if (st == WISP_OK && whose && !(scale > 0 && wisp_finite(&scale, 1) && wisp_finite(&mean, 1)))
        fuzz_die("a mean", err);
    wisp_net_clear(&net);
    wisp_tensor_file_close(&f);
    return st;
}

/* ---- files that are made ---- */

enum { MOST = 40 };
struct made {
    char text[FUZZ_ROOM];
    struct wisp_tensor t[MOST];
    struct wisp_pair meta[MOST];
    size_t n_tensors, n_meta;
    uint8_t data[4096]; /* all tensors share it: none is longer */
};

static void describe_tensor(struct made *m, const char *line)
{
    char name[WISP_NAME_BYTES], dtype[8];
    size_t dim[WISP_MAX_DIMS];
    struct wisp_tensor *t = &m->t[m->n_tensors];
    if (m->n_tensors == MOST) return;
    int n = sscanf(line, "%63s %7s %zu %zu %zu %zu", name, dtype, dim, dim + 1, dim + 2, dim + 3);
    if (n < 3) return;
    if (n > 3 && dim[n - 3] == 0) n--; /* "3 0": one dimension */
    *t = (struct wisp_tensor){ .n_dims = n - 2, .data = m->data };
    memcpy(t->shape, dim, (size_t)t->n_dims * sizeof *dim);
    memcpy(t->name, name, strlen(name) + 1);
    while (t->dtype < WISP_N_DTYPES && strcmp(dtype, wisp_dtypes[t->dtype].name) != 0) t->dtype++;
    if (t->dtype < WISP_N_DTYPES && wisp_tensor_size(&t->bytes, t->dtype, t->n_dims, t->shape) &&
        t->bytes <= sizeof m->data)
        m->n_tensors++;
}

static void describe(struct made *m, const uint8_t *p, size_t n)
{
    size_t at = 0, len;
    m->n_tensors = m->n_meta = 0;
    if (n >= sizeof m->text) n = sizeof m->text - 1;
    if (n) memcpy(m->text, p, n);
    m->text[n] = 0;
    for (; at < n && (len = strcspn(m->text + at, "\n")) > 0; at += len + 1) {
        char *line = m->text + at, *eq;
        line[len] = 0;
        if (!(eq = strchr(line, '='))) {
            describe_tensor(m, line);
        } else if (m->n_meta < MOST) {
            *eq = 0;
            m->meta[m->n_meta++] = (struct wisp_pair){ line, eq + 1 };
        }
    }
    at++;
    for (size_t i = 0; i < sizeof m->data; i++) m->data[i] = at < n ? p[at + i % (n - at)] : 0;
}

/* What was written comes back. */
static void check_made(const struct made *m, const char *path, bool plain)
{
    struct wisp_tensor_file f;
    wisp_error err = { 0 };
    wisp_status st =
        (plain ? wisp_tensor_file_open_plain : wisp_tensor_file_open)(&f, NULL, path, &err);
    if (st == WISP_ENOMEM && fuzz_starved) return;
    if (plain && m->n_tensors == 0) return; /* which nobody takes for weights */
    if (st != WISP_OK) fuzz_die("what was written cannot be read", &err);
    if (f.n_tensors != m->n_tensors || f.n_meta != m->n_meta) fuzz_die("other numbers", &err);
    for (size_t i = 0; i < f.n_meta; i++)
        if (strcmp(f.meta[i].key, m->meta[i].key) || strcmp(f.meta[i].value, m->meta[i].value))
            fuzz_die("other metadata", &err);
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct wisp_tensor *a = wisp_tensor_file_find(&f, m->t[i].name), *b = &m->t[i];
        if (!a || a->dtype != b->dtype || a->n_dims != b->n_dims ||
            memcmp(a->shape, b->shape, (size_t)b->n_dims * sizeof *b->shape) ||
            a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes))
            fuzz_die("another tensor", &err);
    }
    wisp_tensor_file_close(&f);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static struct made made;
    static uint8_t b[4 * FUZZ_ROOM];
    const char *path = fuzz_path("model");
    const size_t usual = wisp_tensor_chunk;
    wisp_status st = WISP_OK;
    if (how & MADE) {
        describe(&made, p, n);
        if (how & SMALL_CHUNKS) wisp_tensor_chunk = 16;
        if (how & PLAIN)
            st = wisp_tensor_file_write_plain(path, made.t, made.n_tensors, made.meta, made.n_meta,
                                              err);
        else
            st = wisp_tensor_file_write(path, made.t, made.n_tensors, made.meta, made.n_meta, NULL,
                                        err);
        if (st == WISP_OK) check_made(&made, path, how & PLAIN);
    } else {
        if (n > sizeof b) n = sizeof b;
        if (n) memcpy(b, p, n);
        if (how & FIX) tensors_fix(b, n);
        fuzz_save("model", b, n);
    }
    if (st == WISP_OK) st = how & PLAIN ? open_plain(path, err) : open_both(path, err);
    wisp_tensor_chunk = usual;
    return st;
}

/* ---- seeds ---- */

#define HEAD "format=wisp-model 1\n"
#define REST "features=3\nlabels=2\ntrain_rows=281474976710656\n"
#define TENSORS                                                                                    \
    "0.input.weight F32 3 2\n0.input.bias F32 1 2\n2.dense.weight F32 2 2\n2.dense.bias F32 1 2\n" \
    "3.output.weight F32 2 2\n3.output.bias F32 2 1\nlabel_rows I64 2 0\n"
#define NET HEAD "net=input 2, relu, dense 2\nloss=bce\nvalues=unit\n" REST
#define IMAGES(image, channels)                                                                    \
    HEAD "net=image, flatten, dense 2\nloss=bce\nvalues=raw\n" image REST                          \
         "0.image.mean F32 1 " channels "\n0.image.scale F32 1 " channels "\n"                     \
         "2.dense.weight F32 3 2\n2.dense.bias F32 1 2\n3.output.weight F32 2 2\n"                 \
         "3.output.bias F32 2 1\nlabel_rows I64 2 0\n" BYTES
#define SHORT HEAD "net=input 2\nloss=softmax\n" REST
#define TENSORS2                                                                                   \
    "0.input.bias F32 1 2\n1.output.weight F32 2 2\n1.output.bias F32 2 1\nlabel_rows I64 2 0\n"
#define BYTES "\n\0\0\200?\0\0\0\0\1"

/* A layer of 3 outputs with n connections in all. */
#define RAGGED(n)                                                                                  \
    HEAD "net=input 4, sparse mask=m\nloss=bce\nvalues=raw\n" REST                                 \
         "0.input.weight F32 3 4\n0.input.bias F32 1 4\n1.sparse.weight F32 " n " 0\n"             \
         "1.sparse.bias F32 1 3\n1.sparse.start I64 4 0\n1.sparse.inputs I32 " n " 0\n"            \
         "2.output.weight F32 2 3\n2.output.bias F32 2 1\nlabel_rows I64 2 0\n"
/* As offsets of votes 0, n, n, n; as labels 0, 0, n, ... */
#define VOTES(n) "\n\0\0\0\0\0\0\0\0" n "\0\0\0\0\0\0\0" n "\0\0\0\0\0\0\0" n "\0\0\0\0\0\0\0"

#define WEIGHTS(type, rest)                                                                        \
    "a.0.weight " type " 1 1 1 1\na.0.bias F32 1 0\nb.weight F32 1 0\nb.bias F32 1 0\n"            \
    "b.running_mean F32 1 0\nb.running_var F32 1 0\nc.weight F32 2 2\nc.bias " type                \
    " 2 0\n5.output.weight F32 2 2\n5.output.bias F32 2 0\n" rest "\n\0\0\200?"

/* Two members, the first with all the weight; 'mix' and counts of labels are read from the same bytes. */
#define MEMBER(i)                                                                                  \
    i "/0.input.weight F32 3 2\n" i "/0.input.bias F32 1 2\n" i "/1.output.weight F32 2 2\n" i     \
      "/1.output.bias F32 2 1\n"
#define JOINT(members, second)                                                                     \
    HEAD "net=joint\nloss=bce\nvalues=raw\n" REST "members=" members                               \
         "\n0/net=input 2\n0/loss=bce\n" second "label_rows I64 2 0\n" MEMBER("0") MEMBER("1")
#define SHARES "\n\0\0\200?\0\0\0\0"

/* A linear model: lists of its 3 features, or of its 2 labels. */
#define LINEAR(lists, ids, type, n)                                                                \
    HEAD "net=linear\nloss=bce\nvalues=raw\n" REST "linear.start I64 " lists " 0\nlinear." ids     \
         " I32 " n " 0\nlinear.weight " type " " n " 0\nlinear.bias F32 2 0\nlabel_rows I64 2 0\n"
#define ONE_VOTE "votes.start I64 4 0\nvotes.label I32 1 0\nvotes.weight F32 1 0\n"

static const struct fuzz_text_seed seeds[] = {
    SEED(MADE, NET TENSORS BYTES),
    SEED(MADE | SMALL_CHUNKS, NET "note=a \"b\" \xc3\xa9\t\\ \x01\n" TENSORS BYTES),
    SEED(MADE,
         SHORT "values=raw\ninput=words and pairs\ndata_format=xc\nindex_base=1\noptions=a=1\n"
               "0.input.weight I8 3 2\n0.input.weight.scale F32 3 0\n" TENSORS2 "\n\0\0\0\0"),
    SEED(MADE, JOINT("2", "1/net=input 2\n1/loss=softmax\n") "mix F32 2 0\n" SHARES),
    SEED(MADE, SHORT "values=raw\n0.input.weight I8 3 2\n" TENSORS2 "\n\0\0\0\0"),
    SEED(MADE, SHORT "values=raw\n0.input.weight I8 3 2\n0.input.weight.scale F32 3 0\n" TENSORS2
                     "\n\0\0\200\377"), /* scales of -inf */
    SEED(MADE, SHORT "values=raw\n0.input.weight BF16 3 2\n" TENSORS2 BYTES),
    SEED(MADE, SHORT "values=raw\n0.input.weight U8 3 16\n0.input.weight.scale F32 3 0\n"
                     "0.input.weight.value F32 16 0\n" TENSORS2 "\n\0\0\0?"),
    SEED(MADE, SHORT "values=raw\n0.input.weight U8 3 48\n0.input.weight.scale F32 3 0\n"
                     "0.input.weight.value F32 64 0\n" TENSORS2 "\n\0\0\0?"),
    SEED(MADE, SHORT "values=raw\n0.input.weight U8 3 16\n0.input.weight.scale F32 3 0\n"
                     "0.input.weight.value F32 16 0\n" TENSORS2 "\n\0\0\0@"), /* values of 2 */
    SEED(MADE, SHORT "values=raw\n0.input.weight U8 3 48\n0.input.weight.scale F32 3 0\n"
                     "0.input.weight.value F32 16 0\n" TENSORS2 "\n\0\0\0?"),
    SEED(MADE, SHORT "values=tfidf\nidf F32 3 0\n0.input.weight F32 3 2\n" TENSORS2 BYTES),
    SEED(MADE, SHORT "values=tfidf\n0.input.weight F32 3 2\n" TENSORS2 BYTES),
    SEED(MADE, SHORT "values=raw\nlabels U8 4 0\nvocab U8 6 0\n0.input.weight F32 3 2\n" TENSORS2
                     "\na\n"),
    SEED(MADE, SHORT "values=raw\nlabels U8 3 0\n0.input.weight F32 3 2\n" TENSORS2 "\nabc"),
    SEED(MADE, SHORT "values=raw\nvotes.start I64 4 0\nvotes.label I32 0 0\nvotes.weight F32 0 0\n"
                     "0.input.weight F32 3 2\n" TENSORS2 "planes F32 2 3 1 2\ncube I8 2 2 2\n\n\0"),
    SEED(MADE, SHORT "values=raw\nvotes.start I64 4 0\nvotes.label I32 1 0\nvotes.weight F32 1 0\n"
                     "0.input.weight F32 3 2\n" TENSORS2 VOTES("\1")),
    SEED(MADE, SHORT "values=raw\nvotes.start I64 4 0\nvotes.label I32 3 0\nvotes.weight F32 3 0\n"
                     "0.input.weight F32 3 2\n" TENSORS2 VOTES("\3")), /* label 3 of 2 */
    SEED(MADE, SHORT "values=raw\nvotes.start I64 4 0\n0.input.weight F32 3 2\n" TENSORS2 "\n\1"),
    SEED(MADE, SHORT "values=raw\nvotes.label I32 4 0\n0.input.weight F32 3 2\n" TENSORS2 "\n\1"),
    SEED(MADE, HEAD "net=input 4, sparse random 4 2\nloss=bce\nvalues=raw\n" REST
                    "0.input.weight F32 3 4\n0.input.bias F32 1 4\n1.sparse.weight F32 4 2\n"
                    "1.sparse.bias F32 1 4\n1.sparse.inputs I32 4 2\n2.output.weight F32 2 4\n"
                    "2.output.bias F32 2 1\nlabel_rows I64 2 0\n\n\0\0\0\0\1\0\0\0"),
    SEED(MADE, HEAD "net=input 4, sparse random 4 2\nloss=bce\nvalues=raw\n" REST
                    "0.input.weight F32 3 4\n0.input.bias F32 1 4\n1.sparse.weight F32 4 2\n"
                    "1.sparse.bias F32 1 4\n1.sparse.inputs I32 4 2\n2.output.weight F32 2 4\n"
                    "2.output.bias F32 2 1\nlabel_rows I64 2 0\n\n\1\0\0\0"),
    SEED(MADE, JOINT("2", "1/net=input 2\n1/loss=softmax\n") "mix F32 2 0\n\n\0\0\0\0"),
    SEED(MADE, JOINT("3", "1/net=input 2\n1/loss=softmax\n") "mix F32 3 0\n" SHARES),
    SEED(MADE, JOINT("1", "") "mix F32 1 0\n" SHARES),
    SEED(MADE, JOINT("2", "1/net=joint\n1/loss=softmax\n") "mix F32 2 0\n" SHARES),
    SEED(MADE, JOINT("2", "1/net=input 3\n1/loss=softmax\n") "mix F32 2 0\n" SHARES),
    SEED(MADE,
         JOINT("2",
               "1/net=input 2\n1/loss=bce\n") "mix F32 2 0\n1/calibration.exact F32 6 0\n" SHARES),
    SEED(MADE, LINEAR("4", "label", "F32", "1") VOTES("\1")),
    SEED(MADE, LINEAR("4", "label", "BF16", "1") VOTES("\1")),
    SEED(MADE, LINEAR("4", "label", "I8", "1") "linear.weight.scale F32 3 0\n" VOTES("\1")),
    SEED(MADE, LINEAR("3", "feature", "F32", "1") ONE_VOTE VOTES("\1")),
    SEED(MADE, LINEAR("3", "feature", "F32", "1") VOTES("\1")),        /* no votes */
    SEED(MADE, LINEAR("4", "label", "F32", "3") VOTES("\3")),          /* a label twice */
    SEED(MADE, LINEAR("4", "label", "F32", "2") VOTES("\1")),          /* it ends too early */
    SEED(MADE, LINEAR("4", "label", "F32", "1") VOTES("\377")),        /* it ends too late */
    SEED(MADE, LINEAR("4", "label", "F32", "1") "\n\1\0\0\0\0\0\0\0"), /* it begins at 1 */
    SEED(MADE, LINEAR("4", "label", "F32", "1") "\n\377\377\377\377"), /* below 0, no numbers */
    SEED(MADE, LINEAR("3", "label", "F32", "1") VOTES("\1")),          /* as many as labels */
    SEED(MADE, JOINT("2", "1/net=linear\n1/loss=bce\n") "mix F32 2 0\n1/linear.start I64 4 0\n"
                                                        "1/linear.label I32 0 0\n"
                                                        "1/linear.weight F32 0 0\n"
                                                        "1/linear.bias F32 2 0\n" SHARES),
    SEED(MADE, RAGGED("1") VOTES("\1")),
    SEED(MADE, RAGGED("2") VOTES("\2")), /* an input twice */
    SEED(MADE, RAGGED("2") VOTES("\1")), /* the last row ends too early */
    SEED(MADE, RAGGED("1") "\n\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    SEED(MADE, SHORT "values=raw\ncalibration.exact F32 6 0\ncalibration.sparse F32 6 0\n"
                     "0.input.weight F32 3 2\n" TENSORS2 "\n\0\0\0?"),
    SEED(MADE, SHORT "values=raw\ncalibration.exact F32 6 0\n0.input.weight F32 3 2\n" TENSORS2
                     "\n\0\0\300\177"), /* no numbers */
    SEED(MADE,
         SHORT "values=raw\nthreshold F32 2 0\n0.input.weight F32 3 2\n" TENSORS2 "\n\0\0\0?"),
    SEED(MADE, SHORT "values=raw\nthreshold F32 2 0\n0.input.weight F32 3 2\n" TENSORS2
                     "\n\0\0\300?"), /* 1.5 */
    SEED(MADE,
         SHORT "values=raw\nthreshold F32 3 0\n0.input.weight F32 3 2\n" TENSORS2 "\n\0\0\0?"),
    SEED(MADE, IMAGES("image=1 x 1 x 3\n", "1")),
    SEED(MADE, IMAGES("image=3 x 1 x 1\n", "3")),
    SEED(MADE, IMAGES("image=3 x 1 x 1\n", "1")), /* means of another number of channels */
    SEED(MADE, IMAGES("image=3 x 1 x 2\n", "3")), /* more than the features */
    SEED(MADE, IMAGES("image=3x1x1\n", "3")),
    SEED(MADE, IMAGES("", "1")),
    SEED(MADE, HEAD "net=nothing\nloss=bce\nvalues=raw\n" REST),
    SEED(MADE, HEAD "net=input 2\nloss=other\nvalues=raw\n" REST),
    SEED(MADE, HEAD "net=input 2\nloss=bce\nvalues=raw\nfeatures=99999999999\nlabels=0\n"),
    SEED(MADE, "format=wisp-model 2\n"),
    SEED(MADE, "a=\xff\n"),
    SEED(MADE, "a=1\na=2\n"),
    SEED(MADE, "a b F32 1 1\n__pad_1 U8 1 0\n"),
    SEED(MADE, "x F32 1 1\nx F32 1 1\n"),
    SEED(MADE, "none U8 0 0\n"),
    SEED(MADE, "none F32 0 18446744073709551615\n"),
    SEED(MADE, "=\n"),
    SEED(0, ""),
    SEED(0, "\4\0\0\0\0\0\0\0{}"),
    SEED(0, "\2\0\0\0\0\0\0\0{}"),
    SEED(0, "\2\0\0\0\0\0\0\0[]"),
    SEED(0, "\3\0\0\0\0\0\0\0{\n,"),
    SEED(0, "\0\0\0\0\0\1\0\0{}"),
    SEED(MADE | PLAIN, WEIGHTS("F32", "mean=0.5\nstd=2\n")),
    SEED(MADE | PLAIN, WEIGHTS("BF16", "b.num_batches_tracked I64\n")),
    SEED(MADE | PLAIN, WEIGHTS("F16", "mean=0.5 x\nstd=0\n")),
    SEED(MADE | PLAIN, WEIGHTS("I32", "")),
    SEED(MADE | PLAIN, WEIGHTS("F32", "x F32 1 0\n")),
    SEED(MADE | PLAIN, "a.0.weight F32 2 0\n\n\377"),
};
enum { N_TEXTS = sizeof seeds / sizeof *seeds };

/* Headers of raw files, to be joined with data: what is wrong with the container. */
static const char *const headers[] = {
    "{\"__metadata__\":{\"k\":\"v\"},\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]"
    "},"
    "\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[40],\"data_offsets\":[16,56]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2,2],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,4],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,999]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4]}}",
    "{\"\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
    "{\"w\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}}",
    "{\"w\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]},\"__integrity__\":{\"dtype\":"
    "\"U8\","
    "\"shape\":[8],\"data_offsets\":[8,16]}}",
    "{\"__metadata__\":[],\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[56],\"data_offsets\":[0,"
    "56]}}",
    "{\"__metadata__\":{\"\":\"\"},\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[56],\"data_"
    "offsets\":"
    "[0,56]}}",
    "{\"__metadata__\":{\"a\":1},\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[56],\"data_"
    "offsets\":[0,"
    "56]}}",
    "{\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[56],\"data_offsets\":[0,56]}}",
    "{\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[40],\"data_offsets\":[0,40]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"U8\","
    "\"shape\":[8],"
    "\"data_offsets\":[8,16]},\"__integrity__\":{\"dtype\":\"U8\",\"shape\":[40],\"data_offsets\":["
    "16,56]}}",
};
enum { N_HEADERS = sizeof headers / sizeof *headers, N_WHOLE = 4 };

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static const unsigned ways[3] = { 0, FIX, PLAIN };
    static uint8_t b[FUZZ_ROOM];
    wisp_error err;
    if (i < N_TEXTS) return fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n);
    i -= N_TEXTS;
    if (i < 3 * N_HEADERS) { /* padded with blanks to a multiple of 64, and 56 bytes of data */
        const char *h = headers[i / 3];
        const size_t n = (strlen(h) + 8 + 63) / 64 * 64;
        memset(b, ' ', n);
        memset(b + n, 0, 56);
        const uint64_t head = n - 8;
        memcpy(b, &head, 8);
        memcpy(b + 8, h, strlen(h));
        return fuzz_put(to, ways[i % 3], b, n + 56);
    }
    i -= 3 * N_HEADERS;
    if (i >= 2 * N_WHOLE) return 0;
    if (fuzz_read(seeds[i / 2].how & ~(unsigned)SMALL_CHUNKS, (const uint8_t *)seeds[i / 2].text,
                  seeds[i / 2].n, &err) != WISP_OK)
        fuzz_die("no seed", &err);
    size_t n = fuzz_load("model", b, sizeof b);
    return fuzz_put(to, i % 2 ? FIX : 0, b, n);
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": what was changed is found, unless the sums are made anew");
    static uint8_t b[FUZZ_ROOM];
    wisp_error err;
    const size_t at = N_TEXTS + 3 * N_HEADERS, n = fuzz_seed_bytes[at];
    CHECK(fuzz_one(fuzz_seeds[at], n, &err) == WISP_OK, "%s", err.text);
    for (size_t i = FUZZ_HEAD; i < n; i++) {
        memcpy(b, fuzz_seeds[at], n);
        b[i] ^= (uint8_t)(1 << i % 8);
        CHECK(fuzz_one(b, n, &err) == WISP_EMODEL, "byte %zu of %zu", i, n);
        CHECK(fuzz_one(fuzz_seeds[at], i, &err) != WISP_OK || i < FUZZ_HEAD + 1, "cut %zu", i);
    }
    if (n < 400) fuzz_die("a short seed", NULL);
    memcpy(b, fuzz_seeds[at], n);
    memset(b + n - 32 - 8 * 20, 0, 4); /* among the sums */
    b[0] = FIX;
    CHECK(fuzz_one(b, n, &err) == WISP_OK, "%s", err.text);
    struct wisp_tensor_file f;
    CHECK(wisp_tensor_file_open(&f, NULL, fuzz_path("nowhere"), &err) == WISP_EIO, "%s", err.text);
    CHECK(wisp_tensor_file_probe((const unsigned char *)"\2\0\0\0\0\0\0\0{}", 10) &&
              !wisp_tensor_file_probe((const unsigned char *)"1 2 3\n", 6),
          "the first bytes");
}
#endif
