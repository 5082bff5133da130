/* Nets of any shape from files (dag.h), in either of two forms, and their levels.
 *
 * Both become edges by the node where they end.  A node's level is one more than the highest of the
 * nodes it reads, inputs have 0: found by taking nodes whose edges have all been seen, as long as
 * there are any (Kahn).  What is left then is a cycle, or comes behind one. */
#include "spdnn/dag.h"
#include "base/dict.h"
#include "base/mem.h"
#include "base/text.h"
#include "spdnn/mtx.h"

#include <stdio.h>

struct raw { /* nodes as the file numbers them, from 0 */
    const char *path;
    size_t n, n_in, n_out;
    const uint64_t *start; /* (n + 1) edges to a node */
    const uint32_t *from;
    const float *w; /* NULL: all are 'weight' */
    float weight;
    const int32_t *function;       /* (n) -1: an input */
    const float *bias;             /* (n) */
    const int32_t *out;            /* (n_out) */
    const struct wisp_dict *names; /* NULL: numbers */
};

const char *wisp_dag_name(char out[WISP_NODE_NAME], const struct wisp_dag_file *f, size_t node)
{
    if (f->names) snprintf(out, WISP_NODE_NAME, "%s", f->names + f->name_at[node]);
    else snprintf(out, WISP_NODE_NAME, "%u", f->said[node] + 1);
    return out;
}

void wisp_dag_file_clear(struct wisp_dag_file *f)
{
    wisp_free(f->start);
    wisp_free(f->from);
    wisp_free(f->function);
    wisp_free(f->out);
    wisp_free(f->w);
    wisp_free(f->bias);
    wisp_free(f->names);
    wisp_free(f->name_at);
    wisp_free(f->said);
    *f = (struct wisp_dag_file){ 0 };
}

/* ---- levels ---- */

struct levels {
    uint32_t *level;  /* (n) UINT32_MAX: not known yet */
    uint32_t *queue;  /* (n) nodes in the order in which theirs were found */
    uint32_t *left;   /* (n) edges to a node that were not seen */
    uint64_t *begin;  /* (n + 1) edges by the node where they begin: */
    uint32_t *to;     /* where these end */
    uint32_t *number; /* (n) the new number of each */
    size_t n, most;   /* known; the highest */
};

static void levels_clear(struct levels *l)
{
    wisp_free(l->level);
    wisp_free(l->queue);
    wisp_free(l->left);
    wisp_free(l->begin);
    wisp_free(l->to);
    wisp_free(l->number);
}

static wisp_status levels_init(struct levels *l, const struct raw *r, wisp_error *err)
{
    const size_t edges = (size_t)r->start[r->n];
    l->level = wisp_alloc(r->n, sizeof *l->level);
    l->queue = wisp_alloc(r->n, sizeof *l->queue);
    l->left = wisp_alloc(r->n, sizeof *l->left);
    l->begin = wisp_zalloc(r->n + 1, sizeof *l->begin);
    l->to = wisp_alloc(edges, sizeof *l->to);
    l->number = wisp_alloc(r->n, sizeof *l->number);
    if (!l->level || !l->queue || !l->left || !l->begin || !l->to || !l->number)
        return wisp_fail_mem(err, 24 * r->n + 4 * edges, "the levels of a graph");
    for (size_t e = 0; e < edges; e++) l->begin[r->from[e] + 1]++;
    for (size_t i = 0; i < r->n; i++) l->begin[i + 1] += l->begin[i];
    for (size_t i = 0; i < r->n; i++)
        for (uint64_t e = r->start[i]; e < r->start[i + 1]; e++)
            l->to[l->begin[r->from[e]]++] = (uint32_t)i;
    memmove(l->begin + 1, l->begin, r->n * sizeof *l->begin);
    l->begin[0] = 0;
    return WISP_OK;
}

static void find_levels(struct levels *l, const struct raw *r)
{
    for (size_t i = 0; i < r->n; i++) {
        l->left[i] = (uint32_t)(r->start[i + 1] - r->start[i]);
        l->level[i] = l->left[i] ? UINT32_MAX : r->function[i] >= 0;
        if (!l->left[i]) l->queue[l->n++] = (uint32_t)i;
    }
    for (size_t i = 0; i < l->n; i++) {
        const uint32_t node = l->queue[i], next = l->level[node] + 1;
        if (l->level[node] > l->most) l->most = l->level[node];
        for (uint64_t e = l->begin[node]; e < l->begin[node + 1]; e++) {
            const uint32_t to = l->to[e];
            if (l->level[to] == UINT32_MAX || l->level[to] < next) l->level[to] = next;
            if (--l->left[to] == 0) l->queue[l->n++] = to;
        }
    }
}

static void put_name(char *to, size_t room, const struct raw *r, uint32_t node)
{
    if (!r->names) {
        snprintf(to, room, "%u", node + 1);
        return;
    }
    const struct wisp_dict_entry *e = &r->names->entries[node];
    snprintf(to, room, "%.*s", (int)e->bytes, r->names->text + e->start);
}

/* A node whose edges were not all seen reads another one of that sort: to follow these leads round
 * and round. */
static wisp_status fail_cycle(const struct levels *l, const struct raw *r, wisp_error *err)
{
    enum { SHOWN = 6 };
    uint32_t at = 0, length = 0;
    while (!l->left[at]) at++;
    for (size_t i = 0; i < r->n; i++) { /* then it is in the cycle */
        uint64_t e = r->start[at];
        while (!l->left[r->from[e]]) e++;
        at = r->from[e];
    }
    char text[SHOWN * 60 + 40] = "", name[48];
    for (uint32_t first = at, to = at; length == 0 || to != first; length++) {
        uint64_t e = r->start[to];
        while (!l->left[r->from[e]]) e++;
        put_name(name, sizeof name, r, to);
        if (length < SHOWN) { /* it is walked against its edges */
            char before[sizeof text];
            memcpy(before, text, sizeof text);
            snprintf(text, sizeof text, "%s%s%.300s", name, *before ? " -> " : "", before);
        }
        to = r->from[e];
    }
    put_name(name, sizeof name, r, at);
    return wisp_fail_at(err, WISP_EFORMAT, r->path, 0,
                        "a cycle of %u node%s: %s%s%s; expected none: take one of its edges out",
                        length, length == 1 ? "" : "s", length > SHOWN ? "... -> " : name,
                        length > SHOWN ? "" : " -> ", text);
}

/* Other nodes by level, then inputs; of one level in the order of the file. */
static wisp_status number_nodes(struct levels *l, const struct raw *r, wisp_error *err)
{
    uint32_t *next = wisp_zalloc(l->most + 2, sizeof *next);
    if (!next) return wisp_fail_mem(err, (l->most + 2) * sizeof *next, "the levels of a graph");
    for (size_t i = 0; i < r->n; i++)
        if (r->function[i] >= 0) next[l->level[i] + 1]++;
    for (size_t i = 1; i < l->most + 2; i++) next[i] += next[i - 1];
    uint32_t inputs = (uint32_t)(r->n - r->n_in);
    for (size_t i = 0; i < r->n; i++)
        l->number[i] = r->function[i] < 0 ? inputs++ : next[l->level[i]]++;
    wisp_free(next);
    return WISP_OK;
}

/* ---- the net with its new numbers ---- */

static wisp_status number_edges(struct wisp_dag_file *f, const struct raw *r,
                                const uint32_t *number, wisp_error *err)
{
    struct wisp_edge_lines lines;
    struct wisp_edge_arrays a;
    size_t twice;
    wisp_status st = wisp_edge_lines_init(&lines, (size_t)r->start[r->n], err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < r->n; i++)
        for (uint64_t e = r->start[i]; e < r->start[i + 1]; e++) {
            lines.in[lines.n] = number[r->from[e]];
            lines.out[lines.n] = number[i];
            lines.w[lines.n++] = r->w ? r->w[e] : r->weight;
        }
    st = wisp_edge_arrays_make(&a, &lines, (uint32_t)r->n, (uint32_t)f->dag.n_nodes, &twice, err);
    if (st != WISP_OK) return st;
    f->start = (int64_t *)a.start;
    f->from = (int32_t *)a.in;
    f->w = a.w ? a.w : wisp_alloc(f->dag.n_edges, sizeof *f->w);
    if (!f->w) return wisp_fail_mem(err, f->dag.n_edges * sizeof *f->w, "the weights of a graph");
    for (size_t e = 0; !a.w && e < f->dag.n_edges; e++) f->w[e] = a.weight;
    return WISP_OK;
}

static wisp_status number_all(struct wisp_dag_file *f, const struct raw *r, const uint32_t *number,
                              wisp_error *err)
{
    const size_t nodes = r->n - r->n_in;
    f->dag = (struct wisp_dag){
        .n_nodes = nodes, .n_in = r->n_in, .n_out = r->n_out, .n_edges = (size_t)r->start[r->n]
    };
    f->function = wisp_alloc(nodes, sizeof *f->function);
    f->bias = wisp_alloc(nodes, sizeof *f->bias);
    f->out = wisp_alloc(r->n_out, sizeof *f->out);
    f->said = wisp_alloc(r->n, sizeof *f->said);
    if (r->names) f->names = wisp_alloc(r->names->text_bytes + 1, 1);
    if (r->names) f->name_at = wisp_alloc(r->n, sizeof *f->name_at);
    if (!f->function || !f->bias || !f->out || !f->said || (r->names && (!f->names || !f->name_at)))
        return wisp_fail_mem(err, 24 * r->n, "the nodes of a graph");
    for (size_t i = 0; i < r->n; i++) {
        f->said[number[i]] = (uint32_t)i;
        if (r->names) f->name_at[number[i]] = r->names->entries[i].start;
        if (r->function[i] < 0) continue;
        f->function[number[i]] = r->function[i];
        f->bias[number[i]] = r->bias[i];
    }
    for (size_t o = 0; o < r->n_out; o++) f->out[o] = (int32_t)number[r->out[o]];
    for (size_t i = 0; r->names && i < r->names->text_bytes; i++)
        f->names[i] = r->names->text[i] == '\n' ? 0 : r->names->text[i];
    wisp_status st = number_edges(f, r, number, err);
    f->dag.start = f->start, f->dag.from = f->from, f->dag.w = f->w;
    f->dag.function = f->function, f->dag.out = f->out, f->dag.bias = f->bias;
    return st;
}

static wisp_status make(struct wisp_dag_file *f, const struct raw *r, wisp_error *err)
{
    if (r->n > INT32_MAX)
        return wisp_fail_at(err, WISP_EFORMAT, r->path, 0, "%zu nodes, expected at most 2147483647",
                            r->n);
    if (r->n_in == 0 || r->n_in == r->n || r->n_out == 0)
        return wisp_fail_at(err, WISP_EFORMAT, r->path, 0,
                            "%zu nodes, of which %zu are inputs and %zu outputs; expected some "
                            "inputs, some outputs and nodes that are no inputs",
                            r->n, r->n_in, r->n_out);
    struct levels l = { 0 };
    wisp_status st = levels_init(&l, r, err);
    if (st == WISP_OK) find_levels(&l, r);
    if (st == WISP_OK && l.n < r->n) st = fail_cycle(&l, r, err);
    if (st == WISP_OK) st = number_nodes(&l, r, err);
    if (st == WISP_OK) st = number_all(f, r, l.number, err);
    levels_clear(&l);
    return st;
}

/* ---- MatrixMarket ---- */

static wisp_status read_matrix(struct wisp_dag_file *f, const char *path, int function,
                               wisp_error *err)
{
    struct wisp_mtx m;
    wisp_status st = wisp_mtx_read(&m, path, false, err);
    if (st != WISP_OK) return st;
    const size_t n = m.e.n_out;
    int32_t *functions = wisp_alloc(n, sizeof *functions), *out = wisp_alloc(n, sizeof *out);
    float *bias = wisp_zalloc(n, sizeof *bias);
    char *read = wisp_zalloc(n, 1);
    struct raw r = { .path = path,
                     .n = n,
                     .start = m.e.start,
                     .from = m.e.in,
                     .w = m.e.w,
                     .weight = m.e.weight,
                     .function = functions,
                     .bias = bias,
                     .out = out };
    if (!functions || !out || !bias || !read)
        st = wisp_fail_mem(err, 13 * n, "the nodes of a graph");
    else if (m.e.n_in != m.e.n_out)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "%u rows and %u columns; a graph has as many of both: a row and a column "
                          "for each node",
                          m.e.n_out, m.e.n_in);
    for (size_t e = 0; st == WISP_OK && e < (size_t)m.e.start[n]; e++) read[m.e.in[e]] = 1;
    const int32_t relu = wisp_node_function_find("relu", 4),
                  last = wisp_node_function_find("identity", 8);
    for (size_t i = 0; st == WISP_OK && i < n; i++) {
        const bool input = m.e.start[i] == m.e.start[i + 1];
        functions[i] = input ? -1 : !read[i] ? last : function < 0 ? relu : function;
        r.n_in += input;
        if (!read[i]) out[r.n_out++] = (int32_t)i;
    }
    if (st == WISP_OK) st = make(f, &r, err);
    wisp_free(functions);
    wisp_free(out);
    wisp_free(bias);
    wisp_free(read);
    wisp_mtx_clear(&m);
    return st;
}

/* ---- lines ---- */

static const char what_lines[] = "'input NAME ...', 'output NAME ...', 'node NAME FUNCTION [BIAS]' "
                                 "or 'FROM TO WEIGHT'";

struct node {
    int32_t function;
    float bias;
    bool out;
};

struct lines {
    const char *path;
    const char *p, *end; /* what is left of the text */
    size_t line;
    struct wisp_dict names;
    struct node *nodes; /* as the entries of 'names' */
    size_t room, n_in;
    int32_t *out;
    size_t n_out, out_room;
    size_t n_edges;
    struct wisp_edge_lines edges;
};

struct word {
    const char *p;
    size_t n;
};

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line; n = 0: there is none. */
static struct word next_word(struct lines *t, const char *line_end)
{
    while (t->p < line_end && blank(*t->p)) t->p++;
    struct word w = { t->p, 0 };
    while (t->p < line_end && !blank(*t->p)) t->p++;
    w.n = (size_t)(t->p - w.p);
    return w;
}

static bool is(struct word w, const char *text)
{
    return strlen(text) == w.n && memcmp(w.p, text, w.n) == 0;
}

__attribute__((format(printf, 4, 5))) static wisp_status fail_line(const struct lines *t,
                                                                   wisp_error *err, struct word w,
                                                                   const char *fmt, ...)
{
    char shown[WISP_SHOW_BYTES(40)], text[200];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return wisp_fail_at(err, WISP_EFORMAT, t->path, t->line, "'%s': %s",
                        wisp_text_show(shown, w.p, w.n, 40), text);
}

/* Characters that can be seen, as many as messages have room for, and none of the three words. */
static wisp_status check_name(const struct lines *t, struct word w, wisp_error *err)
{
    const unsigned char *p = (const unsigned char *)w.p;
    for (size_t i = 0, n; i < w.n; i += n) {
        n = wisp_utf8_bytes(p + i, w.n - i);
        if (!n || p[i] < 32 || p[i] == 127)
            return fail_line(t, err, w,
                             "a name with bytes that are no UTF-8, or control "
                             "characters; expected letters, digits and signs");
    }
    if (w.n >= WISP_NODE_NAME)
        return fail_line(t, err, w, "a name of %zu bytes, expected at most %d", w.n,
                         WISP_NODE_NAME - 1);
    if (is(w, "input") || is(w, "output") || is(w, "node"))
        return fail_line(t, err, w, "a name that begins lines of its own; take another");
    return WISP_OK;
}

static wisp_status add_node(struct lines *t, struct word w, int32_t function, float bias,
                            wisp_error *err)
{
    const size_t n = t->names.n;
    struct wisp_dict_entry *e;
    wisp_status st = check_name(t, w, err);
    if (st == WISP_OK) st = wisp_dict_add(&e, &t->names, w.p, w.n, wisp_dict_hash(w.p, w.n), err);
    if (st != WISP_OK) return st;
    if (t->names.n == n)
        return fail_line(t, err, w, "a node again; expected each in one line 'node' or 'input'");
    if (!wisp_grow(&t->nodes, n, &t->room, sizeof *t->nodes))
        return wisp_fail_mem(err, (n + 1) * sizeof *t->nodes, "the nodes of a graph");
    t->nodes[n] = (struct node){ function, bias, false };
    t->n_in += function < 0;
    return WISP_OK;
}

static wisp_status find_node(uint32_t *out, const struct lines *t, struct word w, wisp_error *err)
{
    const struct wisp_dict_entry *e = wisp_dict_find(&t->names, w.p, w.n, wisp_dict_hash(w.p, w.n));
    if (!e)
        return fail_line(t, err, w,
                         "an unknown node; expected one of a line 'node NAME FUNCTION "
                         "[BIAS]' or 'input NAME ...'");
    *out = (uint32_t)(e - t->names.entries);
    return WISP_OK;
}

static wisp_status read_node(struct lines *t, const char *line_end, wisp_error *err)
{
    const struct word name = next_word(t, line_end), function = next_word(t, line_end),
                      number = next_word(t, line_end), more = next_word(t, line_end);
    float bias = 0;
    if (!function.n || more.n)
        return fail_line(t, err, more.n ? more : name, "expected 'node NAME FUNCTION [BIAS]'");
    const int f = wisp_node_function_find(function.p, function.n);
    if (f < 0) {
        char known[120] = "";
        for (size_t i = 0, at = 0; wisp_node_function_name(i); i++)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
                                   wisp_node_function_name(i));
        return fail_line(t, err, function, "no function of a node; expected one of %s", known);
    }
    if (number.n && wisp_tsv_number(&bias, number.p, number.p + number.n) != number.p + number.n)
        return fail_line(t, err, number, "no finite number; expected the bias of a node");
    return add_node(t, name, f, bias, err);
}

static wisp_status read_edge(struct lines *t, struct word from, const char *line_end,
                             wisp_error *err)
{
    const struct word to = next_word(t, line_end), number = next_word(t, line_end),
                      more = next_word(t, line_end);
    uint32_t in, out;
    float w;
    if (!number.n || more.n)
        return fail_line(t, err, more.n ? more : from, "expected a line %s", what_lines);
    wisp_status st = find_node(&in, t, from, err);
    if (st == WISP_OK) st = find_node(&out, t, to, err);
    if (st != WISP_OK) return st;
    if (wisp_tsv_number(&w, number.p, number.p + number.n) != number.p + number.n)
        return fail_line(t, err, number, "no finite number; expected the weight of an edge");
    if (t->nodes[out].function < 0)
        return fail_line(t, err, to, "an edge to an input, which has the values of the data");
    t->edges.in[t->edges.n] = in;
    t->edges.out[t->edges.n] = out;
    t->edges.w[t->edges.n++] = w;
    return WISP_OK;
}

static wisp_status read_outputs(struct lines *t, const char *line_end, wisp_error *err)
{
    for (struct word w; (w = next_word(t, line_end)).n;) {
        uint32_t node;
        wisp_status st = find_node(&node, t, w, err);
        if (st != WISP_OK) return st;
        if (t->nodes[node].out) return fail_line(t, err, w, "an output again; expected it once");
        if (!wisp_grow(&t->out, t->n_out, &t->out_room, sizeof *t->out))
            return wisp_fail_mem(err, (t->n_out + 1) * sizeof *t->out, "the outputs of a graph");
        t->nodes[node].out = true;
        t->out[t->n_out++] = (int32_t)node;
    }
    return WISP_OK;
}

static wisp_status read_inputs(struct lines *t, const char *line_end, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (struct word w; st == WISP_OK && (w = next_word(t, line_end)).n;)
        st = add_node(t, w, -1, 0, err);
    return st;
}

/* All lines: for what nodes are, for what they are to each other, or for where a line with an edge
 * stands, the one with number 'edge'. */
enum walk { NODES, EDGES, PLACE };
static wisp_status walk(struct lines *t, const char *text, enum walk why, size_t edge,
                        wisp_error *err)
{
    wisp_status st = WISP_OK;
    size_t n_edges = 0;
    t->line = 0;
    for (t->p = text; st == WISP_OK && t->p < t->end;) {
        const char *nl = memchr(t->p, '\n', (size_t)(t->end - t->p)), *stop = nl ? nl : t->end;
        t->line++;
        const struct word w = next_word(t, stop);
        const bool input = is(w, "input"), output = is(w, "output"), node = is(w, "node"),
                   joins = w.n && *w.p != '#' && !input && !output && !node;
        if (why == NODES && input) st = read_inputs(t, stop, err);
        if (why == NODES && node) st = read_node(t, stop, err);
        if (why == EDGES && output) st = read_outputs(t, stop, err);
        if (why == EDGES && joins) st = read_edge(t, w, stop, err);
        if (why == PLACE && joins && n_edges == edge) return WISP_OK;
        n_edges += joins;
        t->p = nl ? nl + 1 : t->end;
    }
    t->n_edges = n_edges;
    return st;
}

static wisp_status make_of_lines(struct wisp_dag_file *f, struct lines *t, const char *text,
                                 wisp_error *err)
{
    const size_t n = t->names.n, n_edges = t->edges.n;
    struct wisp_edge_arrays a = { 0 };
    size_t twice;
    if (n > INT32_MAX)
        return wisp_fail_at(err, WISP_EFORMAT, t->path, 0, "%zu nodes, expected at most 2147483647",
                            n);
    wisp_status st = wisp_edge_arrays_make(&a, &t->edges, (uint32_t)n, (uint32_t)n, &twice, err);
    if (st != WISP_OK && twice < n_edges) {
        walk(t, text, PLACE, twice, err);
        return wisp_fail_at(err, WISP_EFORMAT, t->path, t->line,
                            "an edge again; expected one from a node to another");
    }
    int32_t *function = wisp_alloc(n, sizeof *function);
    float *bias = wisp_alloc(n, sizeof *bias);
    if (st == WISP_OK && (!function || !bias))
        st = wisp_fail_mem(err, 8 * n, "the nodes of a graph");
    for (size_t i = 0; st == WISP_OK && i < n; i++)
        function[i] = t->nodes[i].function, bias[i] = t->nodes[i].bias;
    const struct raw r = { .path = t->path,
                           .n = n,
                           .n_in = t->n_in,
                           .n_out = t->n_out,
                           .start = a.start,
                           .from = a.in,
                           .w = a.w,
                           .weight = a.weight,
                           .function = function,
                           .bias = bias,
                           .out = t->out,
                           .names = &t->names };
    if (st == WISP_OK) st = make(f, &r, err);
    wisp_free(function);
    wisp_free(bias);
    wisp_edge_arrays_clear(&a);
    return st;
}

static wisp_status read_lines(struct wisp_dag_file *f, const char *path, const char *text,
                              size_t bytes, wisp_error *err)
{
    struct lines t = { .path = path, .end = text + bytes };
    wisp_status st = walk(&t, text, NODES, 0, err);
    if (st == WISP_OK) st = wisp_edge_lines_init(&t.edges, t.n_edges, err);
    if (st == WISP_OK) st = walk(&t, text, EDGES, 0, err);
    if (st == WISP_OK) st = make_of_lines(f, &t, text, err);
    wisp_edge_lines_clear(&t.edges);
    wisp_dict_clear(&t.names);
    wisp_free(t.nodes);
    wisp_free(t.out);
    return st;
}

wisp_status wisp_dag_read(struct wisp_dag_file *out, const char *path, int function,
                          wisp_error *err)
{
    struct wisp_map m;
    *out = (struct wisp_dag_file){ 0 };
    wisp_status st = wisp_map_open(&m, path, err);
    if (st != WISP_OK) return st;
    struct wisp_tsv t = { .path = path };
    wisp_tsv_init(&t, &m);
    const bool market = t.bytes && t.text[0] == '%';
    if (t.bytes >= 4 &&
        (memcmp(t.text, "\x1f\x8b", 2) == 0 || memcmp(t.text, "\x28\xb5\x2f\xfd", 4) == 0))
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "packed by gzip or zstd, expected plain text: unpack it first");
    else if (!market && function >= 0)
        st = wisp_fail_at(err, WISP_EINVAL, path, 0,
                          "a file whose lines say the functions of its nodes; leave out "
                          "'function', which is for MatrixMarket");
    else if (!market) st = read_lines(out, path, t.text, t.bytes, err);
    st = wisp_map_end(&m, st, err);
    if (st == WISP_OK && market) st = read_matrix(out, path, function, err);
    if (st != WISP_OK) wisp_dag_file_clear(out);
    return st;
}
