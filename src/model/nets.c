/* Where the text of a net comes from, and the form in which a model keeps it.
 *
 *   --net "input 64, relu"     the net itself
 *   --net mlp                  one word that is no kind of layer: nets/mlp.net, compiled in
 *   --net my.net               a file
 *
 * A model keeps the layers, never a name: what is read from a model file is not looked up. */
#include "model/nets.h"
#include "base/file.h"
#include "base/mem.h"
#include "layer/image.h"
#include "layer/layer.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FILE = 1 << 16 };

/* ---- one line ---- */

/* Adds a line at to[at], blank runs as one blank; a comma where the line before has none. */
static size_t add_line(char *to, size_t at, const char *p, size_t n)
{
    while (n && strchr(" \t\r", p[n - 1])) n--;
    while (n && strchr(" \t\r", *p)) p++, n--;
    if (n == 0) return at;
    const char last = at ? to[at - 1] : '(';
    if (last != '(' && *p != ')') {
        if (last != ',') to[at++] = ',';
        to[at++] = ' ';
    }
    for (size_t i = 0; i < n; i++) {
        const bool blank = strchr(" \t\r", p[i]) != NULL;
        if (!blank) to[at++] = p[i];
        else if (to[at - 1] != ' ') to[at++] = ' ';
    }
    return at;
}

void wisp_net_line(char *to, const char *text)
{
    size_t at = 0;
    if (!strpbrk(text, "#\n")) {
        memcpy(to, text, strlen(text) + 1);
        return;
    }
    for (const char *p = text; *p;) {
        const size_t n = strcspn(p, "\n");
        const char *comment = memchr(p, '#', n);
        at = add_line(to, at, p, comment ? (size_t)(comment - p) : n);
        p += n + (p[n] == '\n');
    }
    to[at] = 0;
}

/* ---- where it comes from ---- */

void wisp_net_text_clear(struct wisp_net_text *t)
{
    wisp_free(t->text);
    wisp_free(t->where);
    wisp_free(t->line);
    *t = (struct wisp_net_text){ 0 };
}

/* Takes over nothing: all three are copies. */
static wisp_status make(struct wisp_net_text *out, const char *text, size_t n, const char *where,
                        wisp_error *err)
{
    *out = (struct wisp_net_text){ .text = wisp_alloc(n + 1, 1),
                                   .where = wisp_strdup(where),
                                   .line = wisp_alloc(2 * n + 1, 1) };
    if (!out->text || !out->where || !out->line) {
        wisp_net_text_clear(out);
        return wisp_fail_mem(err, 3 * n, "the text of a net");
    }
    if (n) memcpy(out->text, text, n);
    out->text[n] = 0;
    wisp_net_line(out->line, out->text);
    return WISP_OK;
}

wisp_status wisp_net_text_set(struct wisp_net_text *out, const char *text, wisp_error *err)
{
    return make(out, text, strlen(text), "--net", err);
}

static wisp_status read_file(struct wisp_net_text *out, const char *path, wisp_error *err)
{
    struct wisp_map m;
    wisp_status st = wisp_map_open(&m, path, err);
    if (st != WISP_OK) return st;
    const unsigned char *zero = m.bytes ? memchr(m.p, 0, m.bytes) : NULL;
    const size_t bom = m.bytes >= 3 && memcmp(m.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (m.bytes - bom > MOST_FILE)
        st = wisp_fail_at(err, WISP_EINVAL, path, 0, "a net of %zu characters, expected at most %d",
                          m.bytes - bom, MOST_FILE);
    else if (zero)
        st = wisp_fail_at(err, WISP_EINVAL, path, 0,
                          "a zero byte at %zu, expected the text of a net in UTF-8",
                          (size_t)(zero - m.p));
    else st = make(out, (const char *)m.p + bom, m.bytes - bom, path, err);
    wisp_map_close(&m);
    return st;
}

static wisp_status preset(struct wisp_net_text *out, const struct wisp_preset *p, wisp_error *err)
{
    char where[80];
    snprintf(where, sizeof where, "nets/%s.net", p->name);
    return make(out, p->text, strlen(p->text), where, err);
}

/* Presets and kinds of layers that the word could stand for. */
static wisp_status unknown(const char *word, wisp_error *err)
{
    const char *words[64];
    size_t n = 0;
    for (size_t i = 0; wisp_presets[i].name && n < 32; i++) words[n++] = wisp_presets[i].name;
    for (size_t i = 0; wisp_layer_kind_at(i) && n < 64; i++)
        words[n++] = wisp_layer_kind_at(i)->name;
    const int near = wisp_nearest(word, words, n);
    return wisp_fail_option(err, "net", "there is no net and no layer '%.40s'; %s%s%s", word,
                            near < 0 ? "'wisp info' lists them" : "did you mean '",
                            near < 0 ? "" : words[near], near < 0 ? "" : "'?");
}

wisp_status wisp_net_text_read(struct wisp_net_text *out, const char *option, wisp_error *err)
{
    const size_t n = strlen(option), word = strcspn(option, " \t");
    char first[WISP_LAYER_NAME] = "";
    if (word < sizeof first) memcpy(first, option, word);
    *out = (struct wisp_net_text){ 0 };
    if (n > 4 && strcmp(option + n - 4, ".net") == 0 && !strpbrk(option, ",\n") &&
        !wisp_layer_kind_find(first))
        return read_file(out, option, err);
    if (strpbrk(option, " \t\r\n,()#=") || wisp_layer_kind_find(option))
        return wisp_net_text_set(out, option, err);
    for (size_t i = 0; wisp_presets[i].name; i++)
        if (strcmp(option, wisp_presets[i].name) == 0) return preset(out, &wisp_presets[i], err);
    return unknown(option, err);
}

bool wisp_net_text_images(const struct wisp_net_text *t, struct wisp_image *size)
{
    struct wisp_said *said = NULL;
    int n = 0;
    bool has = false;
    wisp_error err;
    if (size) *size = (struct wisp_image){ 0 };
    if (wisp_say_net(&said, &n, t->text, t->where, wisp_layer_kind_at, &err) == WISP_OK)
        for (int i = 0; i < n; i++) {
            if (!(said[i].kind->uses & WISP_IMAGES)) continue;
            has = true;
            const double said_size = said[i].arg[WISP_IMAGE_SIZE];
            if (size)
                *size = (struct wisp_image){ .height = (uint32_t)wisp_size_height(said_size),
                                             .width = (uint32_t)wisp_size_width(said_size) };
        }
    wisp_free(said);
    return has;
}

bool wisp_net_text_samples(const struct wisp_net_text *t)
{
    struct wisp_said *said = NULL;
    int n = 0;
    bool has = false;
    if (wisp_say_net(&said, &n, t->text, t->where, wisp_layer_kind_at, NULL) == WISP_OK)
        for (int i = 0; i < n; i++)
            has |= (said[i].kind->uses & WISP_SAMPLES) && !said[i].kind->head;
    wisp_free(said);
    return has;
}

int wisp_net_text_depth(const char *text)
{
    struct wisp_said *said = NULL;
    int n = 0, most = 1, *depth = NULL;
    if (wisp_say_net(&said, &n, text, "--net", wisp_layer_kind_at, NULL) == WISP_OK)
        depth = wisp_zalloc((size_t)n + 1, sizeof *depth); /* of values: 0 is the batch */
    for (int i = 0; i < n && depth; i++) {
        int own = 0;
        for (int k = 0; k < said[i].n_from; k++)
            if (depth[said[i].from[k]] > own) own = depth[said[i].from[k]];
        if (own == 0 || (said[i].kind->flops && !said[i].kind->head)) own++;
        depth[i + 1] = own;
        if (own > most) most = own;
    }
    wisp_free(depth);
    wisp_free(said);
    return most;
}
