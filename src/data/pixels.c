/* Rows whose features are the pixels of an image: bytes, laid out as they are, without lists. */
#include "base/mem.h"
#include "data/data.h"

uint8_t *wisp_builder_image(struct wisp_builder *b, size_t pixels, wisp_error *err)
{
    b->pixels = pixels;
    if (!wisp_grow(&b->px, b->n_rows, &b->cap_images, pixels)) {
        wisp_fail_mem(err, (b->n_rows + 1) * pixels, "images being read");
        return NULL;
    }
    return b->px + b->n_rows * pixels;
}

void wisp_row_pixels(int32_t *xi, float *xv, const struct wisp_rows *r, size_t row)
{
    const uint8_t *px = r->px + row * r->pixels;
    const size_t n = r->xp[row + 1] - r->xp[row];
    for (size_t i = 0, at = 0; at < n; i++) {
        if (px[i] == 0) continue;
        xi[at] = (int32_t)i;
        xv[at++] = wisp_pixel_value(px[i]);
    }
}

wisp_status wisp_rows_lists(const struct wisp_rows **out, struct wisp_lists *l,
                            const struct wisp_rows *r, wisp_error *err)
{
    const size_t nnz = r->xp[r->n];
    *out = r;
    if (!r->px) return WISP_OK;
    if (nnz > l->cap || !l->xi) {
        wisp_lists_clear(l);
        l->xi = wisp_alloc(nnz, sizeof *l->xi);
        l->xv = wisp_alloc(nnz, sizeof *l->xv);
        if (!l->xi || !l->xv) return wisp_fail_mem(err, nnz * 8, "images as lists of pixels");
        l->cap = nnz;
    }
    for (size_t row = 0; row < r->n; row++)
        wisp_row_pixels(l->xi + r->xp[row], l->xv + r->xp[row], r, row);
    l->rows = (struct wisp_rows){
        .n = r->n, .xp = r->xp, .yp = r->yp, .xi = l->xi, .xv = l->xv, .yi = r->yi
    };
    *out = &l->rows;
    return WISP_OK;
}

void wisp_lists_clear(struct wisp_lists *l)
{
    wisp_free(l->xi);
    wisp_free(l->xv);
    *l = (struct wisp_lists){ 0 };
}
