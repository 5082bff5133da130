#!/usr/bin/env python3
"""Dense PyTorch on a GPU at the dims of Amazon-670K: what sampled training on a CPU is compared with.

    bench/torch_gpu.py [--batch 256 1024] [--seconds 5]

One hidden layer of 128, a full softmax over 670,091 labels with targets 1/|Y|, Adam on all weights.  Batches of random rows (75
features of 135,909, 5 labels) lie on the card, so nothing but the step is measured.  Three ways: fp32 eager, TF32 with
fused Adam, bf16 autocast with fused Adam.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

FEATURES, LABELS, HIDDEN, ROW_FEATURES, ROW_LABELS = 135909, 670091, 128, 75, 5
WAYS = {"fp32": (False, False, False), "tf32 + fused Adam": (True, True, False), "bf16 + fused Adam": (True, True, True)}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(FEATURES, HIDDEN, mode="sum")
        self.out = torch.nn.Linear(HIDDEN, LABELS)
        torch.nn.init.normal_(self.bag.weight, std=0.1)
        torch.nn.init.normal_(self.out.weight, std=0.01)

    def forward(self, ids, values):
        return self.out(F.relu(self.bag(ids, per_sample_weights=values)))


def batches(n, size):
    made = []
    for _ in range(n):
        ids = torch.randint(FEATURES, (size, ROW_FEATURES), device="cuda")
        values = F.normalize(torch.rand(size, ROW_FEATURES, device="cuda"))
        made.append((ids, values, torch.randint(LABELS, (size, ROW_LABELS), device="cuda")))
    return made


def rate(size, seconds, tf32, fused, bf16):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    net = Net().cuda()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, fused=fused)
    data = batches(8, size)

    def step(i):
        ids, values, labels = data[i % len(data)]
        adam.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
            z = net(ids, values)
        # the mean over true labels of -log softmax: the log-sum-exp of all, less the mean of theirs
        loss = (torch.logsumexp(z.float(), 1) - z.gather(1, labels).float().mean(1)).mean()
        loss.backward()
        adam.step()

    for i in range(5):
        step(i)
    torch.cuda.synchronize()
    begin, n = time.time(), 0
    while time.time() - begin < seconds:
        for i in range(10):
            step(i)
        torch.cuda.synchronize()
        n += 10
    return n * size / (time.time() - begin)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, nargs="+", default=[256, 1024])
    p.add_argument("--seconds", type=float, default=5)
    a = p.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    results = []
    for name, ways in WAYS.items():
        for size in a.batch:
            r = rate(size, a.seconds, *ways)
            torch.cuda.empty_cache()
            print(f"{name:20s} batch {size:5d}  {r:9.0f} samples/s", flush=True)
            results.append({"way": name, "batch": size, "samples_per_s": r})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
