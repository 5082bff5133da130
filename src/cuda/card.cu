/* Which cards there are, and which of them this process works on. */
#include "cuda/trainer.cuh"

#include <stdio.h>
#include <string.h>

wisp_status wisp_dcard_ask(struct wisp_cuda_card *out, wisp_error *err)
{
    int n = 0, driver = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    cudaDriverGetVersion(&driver);
    if (driver == 0)
        return wisp_dfail(err, WISP_ENOTSUP, "--device cuda: this machine has no NVIDIA driver");
    if (e == cudaErrorInsufficientDriver)
        return wisp_dfail(
            err, WISP_ENOTSUP,
            "--device cuda: the driver knows CUDA %d.%d, wisp-cuda.so needs %d.%d; update "
            "the driver, or build with an older toolkit",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && n == 0))
        return wisp_dfail(err, WISP_ENOTSUP, "--device cuda: there is a driver, but no card");
    if (e != cudaSuccess) return wisp_dcheck(e, "looking for a card", err);
    cudaDeviceProp p;
    int mine = 0;
    wisp_status st = wisp_dcheck(cudaGetDevice(&mine), "asking the card", err);
    if (st == WISP_OK) st = wisp_dcheck(cudaGetDeviceProperties(&p, mine), "asking the card", err);
    if (st == WISP_OK)
        st = wisp_dcheck(cudaMemGetInfo(&out->free_bytes, &out->total_bytes), "asking the card",
                         err);
    if (st != WISP_OK) return st;
    static_assert(sizeof p.uuid == sizeof out->id, "a card's own number");
    snprintf(out->name, sizeof out->name, "%.127s", p.name);
    memcpy(out->id, &p.uuid, sizeof out->id);
    out->major = p.major, out->minor = p.minor, out->n_multi = p.multiProcessorCount;
    if (p.major * 10 + p.minor < 75)
        return wisp_dfail(err, WISP_ENOTSUP,
                          "--device cuda: %s has compute capability %d.%d, wisp needs 7.5 or later",
                          out->name, p.major, p.minor);
    return WISP_OK;
}

/* Where there is no card, card() says so. */
wisp_status wisp_dcard_choose(int place, wisp_error *err)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        cudaGetLastError(); /* the next call begins without it */
        return WISP_OK;
    }
    return wisp_dcheck(cudaSetDevice(place % n), "choosing a card", err);
}
