/* A planned net's memory on a card. */
#ifndef WISP_TESTS_GPU_NET_RIG_CUH
#define WISP_TESTS_GPU_NET_RIG_CUH

#include "cuda/trainer.cuh"
#include "gpu/rig.cuh"

/* Lays out the net in a block of its own, every byte of which is 0xff at first (no number), and copies
 * the weights there. */
static void lay_on_card(struct wisp_dnet *net, both<unsigned char> *block)
{
    size_t bytes = 0, at = 0;
    wisp_dnet_lay(net, NULL, NULL, &bytes);
    block->host.assign(bytes, 0xff);
    OK(cudaFree(block->dev));
    OK(cudaMalloc((void **)&block->dev, bytes));
    block->up();
    wisp_dnet_lay(net, NULL, block->dev, &at);
    CHECK(at == bytes, "%zu bytes, then %zu", bytes, at);
    struct wisp_dcopy up = { false, cudaSuccess };
    wisp_dnet_copy(&up, net);
    OK(up.e);
}

#endif
