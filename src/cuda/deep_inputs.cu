/* Inputs of deep networks, made dense on the card: bits, or rows in CSR, come piece by piece.
 *
 *   rows     (n, step)                    a row and zeros behind it
 *   panels   [32 inputs][value][lane]     lanes beyond the last input are zero
 *
 * 60,000 inputs of 65536 bits: 0.5 GB copied, 15.7 GB written. */
#include "cuda/deep.cuh"

#include <algorithm>

enum { LANES = 32 };

static size_t piece_need(size_t rows, size_t nnz) /* start, id, value of rows in CSR */
{
    return (rows + 1) * 8 + 256 + (nnz * 4 + 256) * 2;
}

/* Room for inputs on their way: as few copies as is reasonable, at least the longest row. */
size_t wisp_deep_piece(const struct wisp_cuda_deep *d, size_t most)
{
    size_t all, least = 0;
    if (d->bits) {
        least = d->words * 8, all = d->n * least;
    } else {
        for (size_t i = 0; i < d->n; i++)
            least = std::max(least, piece_need(1, d->start[i + 1] - d->start[i]));
        all = d->n ? piece_need(d->n, d->start[d->n] - d->start[0]) : 0;
    }
    size_t want = std::min(std::min(all, (size_t)64 << 20), most);
    return std::max(want, least);
}

__global__ static void rows_of_bits(float *x, size_t stride, const uint64_t *bits, size_t words,
                                    uint32_t n_in, size_t rows)
{
    const size_t all = rows * stride, step = (size_t)gridDim.x * blockDim.x;
    for (size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x; t < all; t += step) {
        const size_t row = t / stride, i = t % stride;
        x[t] = i < n_in ? (float)(bits[row * words + i / 64] >> (i % 64) & 1) : 0;
    }
}

/* Rows first .. first + rows - 1 of the chunk. */
__global__ static void panels_of_bits(float *x, const uint64_t *bits, size_t words, uint32_t n_in,
                                      size_t first, size_t rows)
{
    const size_t step = (size_t)gridDim.x * blockDim.x, p0 = first / LANES;
    const size_t all = ((first + rows + LANES - 1) / LANES - p0) * n_in * LANES;
    for (size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x; t < all; t += step) {
        const size_t i = t / LANES % n_in, row = (p0 + t / LANES / n_in) * LANES + t % LANES;
        if (row < first || row >= first + rows) continue;
        x[p0 * n_in * LANES + t] = (float)(bits[(row - first) * words + i / 64] >> (i % 64) & 1);
    }
}

/* x is zero; row_step 0: panels. */
__global__ static void spread_rows(float *x, size_t row_step, uint32_t n_in, const uint64_t *start,
                                   const uint32_t *id, const float *value, size_t first,
                                   size_t rows)
{
    const size_t step = (size_t)gridDim.x * blockDim.x / LANES, lane = threadIdx.x % LANES;
    for (size_t r = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES; r < rows; r += step) {
        const size_t row = first + r, from = start[0];
        for (uint64_t e = start[r] - from + lane; e < start[r + 1] - from; e += LANES) {
            size_t at = row_step ? row * row_step + id[e]
                                 : (row / LANES * n_in + id[e]) * LANES + row % LANES;
            x[at] = value[e];
        }
    }
}

static cudaError_t expand_bits(const struct wisp_dinputs *a, size_t first, size_t n, cudaStream_t s)
{
    const struct wisp_cuda_deep *d = a->d;
    const uint32_t n_in = d->layers[0].n_in;
    const size_t at_once = a->piece_bytes / (d->words * 8);
    cudaError_t e = cudaSuccess;
    for (size_t i = 0; i < n && e == cudaSuccess; i += at_once) {
        const size_t rows = std::min(at_once, n - i);
        const uint64_t *bits = (const uint64_t *)a->piece;
        e = cudaMemcpyAsync(a->piece, d->bits + (first + i) * d->words, rows * d->words * 8,
                            cudaMemcpyHostToDevice, s);
        if (e != cudaSuccess) break;
        if (a->panels) panels_of_bits<<<4096, 256, 0, s>>>(a->x, bits, d->words, n_in, i, rows);
        else
            rows_of_bits<<<4096, 256, 0, s>>>(a->x + i * a->step, a->step, bits, d->words, n_in,
                                              rows);
        e = cudaGetLastError();
    }
    return e;
}

static cudaError_t expand_csr(const struct wisp_dinputs *a, size_t first, size_t n, cudaStream_t s)
{
    const struct wisp_cuda_deep *d = a->d;
    const uint64_t *start = d->start + first;
    cudaError_t e = cudaSuccess;
    for (size_t i = 0, rows; i < n && e == cudaSuccess; i += rows) {
        for (rows = 1; i + rows < n; rows++)
            if (piece_need(rows + 1, start[i + rows + 1] - start[i]) > a->piece_bytes) break;
        const size_t nnz = start[i + rows] - start[i];
        uint64_t *to_start = (uint64_t *)a->piece;
        uint32_t *to_id = (uint32_t *)(a->piece + ((rows + 1) * 8 + 255) / 256 * 256);
        float *to_value = (float *)((unsigned char *)to_id + (nnz * 4 + 255) / 256 * 256);
        const cudaMemcpyKind up = cudaMemcpyHostToDevice;
        e = cudaMemcpyAsync(to_start, start + i, (rows + 1) * 8, up, s);
        if (e == cudaSuccess && nnz) e = cudaMemcpyAsync(to_id, d->id + start[i], nnz * 4, up, s);
        if (e == cudaSuccess && nnz)
            e = cudaMemcpyAsync(to_value, d->value + start[i], nnz * 4, up, s);
        if (e != cudaSuccess) break;
        spread_rows<<<1024, 256, 0, s>>>(a->x, a->panels ? 0 : a->step, d->layers[0].n_in, to_start,
                                         to_id, to_value, i, rows);
        e = cudaGetLastError();
    }
    return e;
}

/* Inputs first .. first + n - 1, as the form wants them. */
cudaError_t wisp_deep_inputs(const struct wisp_dinputs *a, size_t first, size_t n, cudaStream_t s)
{
    const size_t n_x = a->panels ? (n + LANES - 1) / LANES : n;
    cudaError_t e = cudaSuccess;
    if (n == 0) return e;
    if (!a->d->bits) e = cudaMemsetAsync(a->x, 0, n_x * a->step * sizeof *a->x, s);
    else if (a->panels) /* lanes beyond the last input */
        e = cudaMemsetAsync(a->x + (n_x - 1) * a->step, 0, a->step * sizeof *a->x, s);
    if (e != cudaSuccess) return e;
    return a->d->bits ? expand_bits(a, first, n, s) : expand_csr(a, first, n, s);
}
