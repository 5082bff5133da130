/* How many numbers of a value of planes are not 0 (graph/zeros.h), counted on the card: by the kernels
 * that write them, or, where a library does, of every 16th sample by a kernel of its own.
 *
 * Counts are whole numbers, so the order in which they are added does not matter: each block of
 * threads adds its own, by 16 channels, to one of several copies.  They grow from the trainer's
 * beginning on; what is between two looks is the host's business. */
#ifndef WISP_CUDA_ZEROS_CUH
#define WISP_CUDA_ZEROS_CUH

#include "cuda/vector.cuh"
#include "graph/planes.h"

#include <stddef.h>

enum { WISP_DLIVE_COPIES = 32, WISP_DLIVE_ROOM = 64, WISP_DLIVE_EVERY = 16 };

struct wisp_dlive {
    unsigned long long *at; /* (copies, 1 + blocks): samples, then what is not 0; NULL: no counts */
    size_t blocks;          /* of 16 channels */
};
static inline size_t wisp_dlive_words(size_t blocks)
{
    return WISP_DLIVE_COPIES * (1 + blocks);
}

#ifdef __CUDACC__
/* Is it not 0 as a T?  bf16 rounds what is at most half of its smallest number to 0. */
template <class T> static __device__ inline bool wisp_dlives(float v)
{
    return !(fabsf(v) <= (sizeof(T) == 2 ? 0x1p-134f : 0.0f));
}
template <class T, int N>
static __device__ inline uint32_t wisp_dlives_of(const wisp_vector<T, N> &v)
{
    uint32_t n = 0;
#pragma unroll
    for (int k = 0; k < N; k++) n += wisp_dlives<T>(v.v[k]);
    return n;
}

/* What a block of threads counts; all of them call all three. */
struct wisp_dtally {
    uint32_t room[WISP_DLIVE_ROOM];
};
static __device__ inline void wisp_dtally_begin(struct wisp_dtally &t)
{
    for (uint32_t i = threadIdx.x; i < WISP_DLIVE_ROOM; i += blockDim.x) t.room[i] = 0;
    __syncthreads();
}
static __device__ inline unsigned long long *wisp_dlive_copy(const struct wisp_dlive &l)
{
    return l.at + (blockIdx.x % WISP_DLIVE_COPIES) * (1 + l.blocks);
}
/* So many numbers of a block of 16 channels. */
static __device__ inline void wisp_dtally_add(struct wisp_dtally &t, const struct wisp_dlive &l,
                                              size_t block, uint32_t n)
{
    if (l.blocks <= WISP_DLIVE_ROOM) atomicAdd(&t.room[block], n);
    else atomicAdd(wisp_dlive_copy(l) + 1 + block, (unsigned long long)n);
}
/* samples: of one block of the launch, all of them; of the others 0. */
static __device__ inline void wisp_dtally_end(struct wisp_dtally &t, const struct wisp_dlive &l,
                                              size_t samples)
{
    unsigned long long *to = wisp_dlive_copy(l);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < WISP_DLIVE_ROOM && i < l.blocks; i += blockDim.x)
        if (t.room[i]) atomicAdd(to + 1 + i, (unsigned long long)t.room[i]);
    if (threadIdx.x == 0 && samples) atomicAdd(to, (unsigned long long)samples);
}
#endif

struct wisp_dplanes;
/* Counts x, of every so-manieth sample, the first among them: the plain way, which reads it again. */
void wisp_dlive_count(const struct wisp_dplanes &p, const struct wisp_dlive &l, const void *x,
                      size_t every, cudaStream_t s);

#endif
