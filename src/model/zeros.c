/* Which values of a net have zeros that are counted, and what a person is told of them. */
#include "base/mem.h"
#include "base/text.h"
#include "model/memory.h"
#include "model/net.h"

/* Who writes the value of layer i: itself, or the layer that does its work. */
static int writer_of(const struct wisp_net *net, int i)
{
    while (net->layers[i].done) i = net->layers[i].from[0] - 1;
    return i;
}

static bool makes_zeros(const struct wisp_net *net, int i)
{
    const struct wisp_layer_kind *k = net->layers[i].kind;
    return k->uses & WISP_MAKES_ZEROS && !k->head;
}

/* Of 16 channels, or one of all units.  Images as they come, channel by channel, are one, too: the
 * readers of such values have no blocks. */
static size_t blocks_of(const struct wisp_act *a)
{
    return a->form == WISP_PLANES ? wisp_parts(a->shape.dim[0], WISP_PLANE_BLOCK) : 1;
}

enum { LINE = 8 }; /* counts of a thread lie in lines of their own */

static wisp_status take(struct wisp_net *net, size_t blocks, size_t counts, wisp_error *err)
{
    struct wisp_counts *c = &net->counts;
    c->of = wisp_zalloc((size_t)c->n, sizeof *c->of);
    c->each = wisp_zalloc(blocks, sizeof *c->each);
    c->shares = wisp_zalloc(blocks, sizeof *c->shares);
    c->live = wisp_zalloc(counts, sizeof *c->live);
    if (c->of && c->each && c->shares && c->live) return WISP_OK;
    wisp_counts_clear(c);
    return wisp_fail_mem(err, blocks * sizeof *c->each + counts * sizeof *c->live,
                         "counts of zeros");
}

static void attach(struct wisp_net *net)
{
    struct wisp_counts *c = &net->counts;
    size_t block = 0, count = 0;
    int n = 0;
    for (int i = 0; i < net->n_layers - 1; i++) {
        struct wisp_act *a = &net->acts[i + 1];
        const struct wisp_layer *l = &net->layers[i];
        if (l->kind->uses & WISP_HANDS_ON) a->zeros = net->acts[l->from[0]].zeros;
        if (!makes_zeros(net, i)) continue;
        struct wisp_zeros_of *z = &c->of[n++];
        *z = (struct wisp_zeros_of){ .layer = i,
                                     .blocks = blocks_of(a),
                                     .each = c->each + block,
                                     .shares = c->shares + block,
                                     .live = c->live + count };
        z->apart = wisp_up(z->blocks, LINE);
        const size_t pixels = z->blocks > 1 ? a->width / a->shape.dim[0] : 1;
        for (size_t b = 0, left = a->width; b < z->blocks; b++) {
            const size_t whole = WISP_PLANE_BLOCK * pixels;
            z->each[b] = z->blocks == 1 || left < whole ? left : whole;
            left -= z->each[b];
        }
        block += z->blocks, count += (size_t)c->threads * z->apart;
        a->zeros = net->acts[writer_of(net, i) + 1].zeros = z;
    }
}

wisp_status wisp_net_count(struct wisp_net *net, int threads, wisp_error *err)
{
    struct wisp_counts *c = &net->counts;
    size_t blocks = 0, counts = 0;
    c->threads = threads;
    for (int i = 0; i < net->n_layers - 1; i++) {
        if (!makes_zeros(net, i)) continue;
        const size_t n = blocks_of(&net->acts[i + 1]);
        c->n++;
        blocks += n, counts += (size_t)threads * wisp_up(n, LINE);
    }
    if (c->n == 0) return WISP_OK;
    wisp_status st = take(net, blocks, counts, err);
    if (st == WISP_OK) attach(net);
    return st;
}

void wisp_net_counted(struct wisp_net *net)
{
    for (int i = 0; i < net->counts.n; i++)
        wisp_zeros_step(&net->counts.of[i], net->counts.threads);
}

void wisp_counts_clear(struct wisp_counts *c)
{
    wisp_free(c->of);
    wisp_free(c->each);
    wisp_free(c->shares);
    wisp_free(c->live);
    *c = (struct wisp_counts){ 0 };
}

enum { EACH = WISP_MOMENT_NAME + 16 };

size_t wisp_net_zeros_room(const struct wisp_net *net)
{
    return (size_t)net->counts.n * EACH + 3;
}

/* One after the other, as fmt has it: a string that is "" before the first, a name, a number. */
static size_t list(char *out, size_t room, const struct wisp_net *net, const char *between,
                   const char *fmt, double times)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < net->counts.n; i++) {
        const struct wisp_zeros_of *z = &net->counts.of[i];
        char name[WISP_MOMENT_NAME]; /* of letters, digits, '.', '-', '_' */
        if (z->steps == 0) continue;
        wisp_moment_name(name, net, z->layer);
        at +=
            (size_t)wisp_print(out + at, room - at, fmt, at ? between : "", name, times * z->share);
    }
    return at;
}

void wisp_net_zeros_text(char *out, const struct wisp_net *net)
{
    const size_t room = wisp_net_zeros_room(net);
    out[0] = '{';
    const size_t at = 1 + list(out + 1, room - 2, net, ",", "%s\"%s\":%.4f", 1);
    out[at] = '}', out[at + 1] = 0;
}

void wisp_net_zeros_say(const struct wisp_context *ctx, const struct wisp_net *net, char *room)
{
    if (list(room, wisp_net_zeros_room(net), net, ", ", "%s%s %.0f %%", 100))
        wisp_say(ctx, "zeros     %s", room);
}
