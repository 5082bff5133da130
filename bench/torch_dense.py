"""PyTorch on the CPU: the dense step of the same network on the same rows, for comparison with 'wisp train'.

    python bench/torch_dense.py TRAIN.txt [--hidden 256] [--batch 256] [--steps 60] [--threads 2]

EmbeddingBag (weighted sum) -> ReLU -> Linear to all labels -> softmax with 1/|Y| targets; values (1 + log tf) * idf, length 1.
Two ways to update: Adam on everything (the usual program), and SparseAdam on the input rows with Adam on the rest
(the fastest that PyTorch offers).  Prints the time of a step and of an epoch at that pace.
"""
import argparse, math, time
import numpy as np
import torch

p = argparse.ArgumentParser()
p.add_argument("data")
p.add_argument("--hidden", type=int, default=256)
p.add_argument("--batch", type=int, default=256)
p.add_argument("--steps", type=int, default=60)
p.add_argument("--threads", type=int, default=2)
a = p.parse_args()
torch.set_num_threads(a.threads)
torch.manual_seed(1)

need = a.batch * (a.steps + 5)
with open(a.data) as f:
    n_rows, n_features, n_labels = map(int, f.readline().split())
    df = np.zeros(n_features)
    rows = []
    for i, line in enumerate(f):
        head, _, rest = line.rstrip("\n").partition(" ")
        ids = [int(t.partition(":")[0]) for t in rest.split()]
        df[ids] += 1
        if len(rows) < need and head:
            tf = [float(t.partition(":")[2]) for t in rest.split()]
            rows.append((ids, tf, [int(l) for l in head.split(",")]))
idf = np.log(n_rows / np.maximum(df, 1))


def batch(i):
    idx, val, off, t_row, t_col, t_val = [], [], [0], [], [], []
    for r, (ids, tf, labels) in enumerate(rows[i * a.batch:(i + 1) * a.batch]):
        v = (1 + np.log(tf)) * idf[ids] if ids else np.zeros(0)
        norm = math.sqrt(float((v * v).sum())) or 1.0
        idx += ids
        val += list(v / norm)
        off.append(len(idx))
        t_row += [r] * len(labels)
        t_col += labels
        t_val += [1 / len(labels)] * len(labels)
    target = torch.zeros(len(off) - 1, n_labels)
    target[t_row, t_col] = torch.tensor(t_val)
    return torch.tensor(idx), torch.tensor(val, dtype=torch.float32), torch.tensor(off[:-1]), target


batches = [batch(i) for i in range(a.steps + 5)]  # laid out ahead: only the step is timed
for sparse in (False, True):
    emb = torch.nn.EmbeddingBag(n_features, a.hidden, mode="sum", sparse=sparse)
    out = torch.nn.Linear(a.hidden, n_labels)
    if sparse:
        opts = [torch.optim.SparseAdam(list(emb.parameters()), 2e-3), torch.optim.Adam(out.parameters(), 2e-3)]
    else:
        opts = [torch.optim.Adam(list(emb.parameters()) + list(out.parameters()), 2e-3)]
    for i, (idx, val, off, target) in enumerate(batches):
        if i == 5:
            began = time.time()  # after the warm-up
        for o in opts:
            o.zero_grad()
        z = out(torch.relu(emb(idx, off, per_sample_weights=val)))
        loss = -(target * torch.log_softmax(z, 1)).sum(1).mean()
        loss.backward()
        for o in opts:
            o.step()
    step = (time.time() - began) / a.steps
    epoch = step * math.ceil(n_rows / a.batch)
    name = "SparseAdam + Adam" if sparse else "Adam"
    print(f"PyTorch {torch.__version__} {name}, {a.threads} threads: {1000 * step:.1f} ms per step of {a.batch}, "
          f"{a.batch / step:.0f} rows/s, an epoch of {n_rows} rows in {epoch:.0f} s", flush=True)
