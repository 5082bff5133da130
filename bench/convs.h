/* The convolutions of five nets, for conv.c and policy.c. */
#ifndef WISP_BENCH_CONVS_H
#define WISP_BENCH_CONVS_H

#include "conv/conv.h"

static const struct layer {
    const char *net;
    int times; /* that the net has it */
    size_t n, in, out, pixels, kernel, stride, pad, block;
} layers[] = {
    { "vgg16", 1, 8, 3, 64, 224, 3, 1, 1, 1 },
    { "vgg16", 1, 8, 64, 64, 224, 3, 1, 1, 16 },
    { "vgg16", 1, 8, 64, 128, 112, 3, 1, 1, 16 },
    { "vgg16", 1, 8, 128, 128, 112, 3, 1, 1, 16 },
    { "vgg16", 1, 8, 128, 256, 56, 3, 1, 1, 16 },
    { "vgg16", 2, 8, 256, 256, 56, 3, 1, 1, 16 },
    { "vgg16", 1, 8, 256, 512, 28, 3, 1, 1, 16 },
    { "vgg16", 2, 8, 512, 512, 28, 3, 1, 1, 16 },
    { "vgg16", 3, 8, 512, 512, 14, 3, 1, 1, 16 },
    { "resnet18", 1, 8, 3, 64, 224, 7, 2, 3, 1 },
    { "resnet18", 4, 8, 64, 64, 56, 3, 1, 1, 16 },
    { "resnet18", 1, 8, 64, 128, 56, 3, 2, 1, 16 },
    { "resnet18", 1, 8, 64, 128, 56, 1, 2, 0, 16 },
    { "resnet18", 3, 8, 128, 128, 28, 3, 1, 1, 16 },
    { "resnet18", 1, 8, 128, 256, 28, 3, 2, 1, 16 },
    { "resnet18", 1, 8, 128, 256, 28, 1, 2, 0, 16 },
    { "resnet18", 3, 8, 256, 256, 14, 3, 1, 1, 16 },
    { "resnet18", 1, 8, 256, 512, 14, 3, 2, 1, 16 },
    { "resnet18", 1, 8, 256, 512, 14, 1, 2, 0, 16 },
    { "resnet18", 3, 8, 512, 512, 7, 3, 1, 1, 16 },
    { "resnet18-cifar", 1, 64, 3, 64, 32, 3, 1, 1, 1 },
    { "resnet18-cifar", 4, 64, 64, 64, 32, 3, 1, 1, 16 },
    { "resnet18-cifar", 1, 64, 64, 128, 32, 3, 2, 1, 16 },
    { "resnet18-cifar", 1, 64, 64, 128, 32, 1, 2, 0, 16 },
    { "resnet18-cifar", 3, 64, 128, 128, 16, 3, 1, 1, 16 },
    { "resnet18-cifar", 1, 64, 128, 256, 16, 3, 2, 1, 16 },
    { "resnet18-cifar", 1, 64, 128, 256, 16, 1, 2, 0, 16 },
    { "resnet18-cifar", 3, 64, 256, 256, 8, 3, 1, 1, 16 },
    { "resnet18-cifar", 1, 64, 256, 512, 8, 3, 2, 1, 16 },
    { "resnet18-cifar", 1, 64, 256, 512, 8, 1, 2, 0, 16 },
    { "resnet18-cifar", 3, 64, 512, 512, 4, 3, 1, 1, 16 },
    { "alexnet", 1, 8, 3, 64, 224, 11, 4, 2, 1 },
    { "alexnet", 1, 8, 64, 192, 27, 5, 1, 2, 16 },
    { "alexnet", 1, 8, 192, 384, 13, 3, 1, 1, 16 },
    { "alexnet", 1, 8, 384, 256, 13, 3, 1, 1, 16 },
    { "alexnet", 1, 8, 256, 256, 13, 3, 1, 1, 16 },
    { "lenet", 1, 64, 1, 6, 28, 5, 1, 2, 1 },
    { "lenet", 1, 64, 6, 16, 14, 5, 1, 0, 16 },
};
enum { N_LAYERS = sizeof layers / sizeof *layers };

static struct wisp_conv conv_of(const struct layer *l, int threads)
{
    const size_t result = wisp_conv_pixels(l->pixels, l->kernel, l->stride, l->pad);
    return (struct wisp_conv){ .in = l->in,
                               .out = l->out,
                               .h = l->pixels,
                               .w = l->pixels,
                               .oh = result,
                               .ow = result,
                               .kh = l->kernel,
                               .kw = l->kernel,
                               .stride = l->stride,
                               .pad_h = l->pad,
                               .pad_w = l->pad,
                               .groups = 1,
                               .block = l->block,
                               .batch = l->n,
                               .threads = threads };
}

#endif
