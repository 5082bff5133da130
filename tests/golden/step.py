#!/usr/bin/env python3
"""Losses, gradients and optimiser steps of a tiny network, with numpy in float64, independent of src/.

    python3 tests/golden/step.py > tests/golden/step.txt

The net is input 5, relu, dense 4, relu, output 7 on 12 features.  Five batches of six rows; one row of
each has no features and one no labels.  tests/unit/test_step.c reads:
    net FEATURES LABELS WIDTH WIDTH
    batch f:v f:v ... | label ... ; next row ; ...
    tensor NAME ROWS COLS value ...           start values, exact in float32
    loss LOSS value                           mean loss of the first batch at the start
    grad LOSS NAME ROWS COLS value ...        of that mean loss
    run LOSS OPTIMIZER lr momentum loss ...   mean loss before each of the five steps
    end LOSS OPTIMIZER NAME ROWS COLS value ...   the parameters after them
    count LOSS OPTIMIZER NAME value ...       updates of each row
    smoothing share                           of the targets that all labels have alike, from here on
    weights value ...                         what the rows of the first batch count for from here on
The optimisers are those of src/model/optimizer.h: a row without a gradient stays, Adam's moments and
bias correction go by the row's own updates, AdaGrad keeps one number per row.
"""
import numpy as np

N_FEATURES, N_LABELS, W1, W2 = 12, 7, 5, 4
N_ROWS, N_STEPS = 6, 5
NAMES = ["0.input.weight", "0.input.bias", "2.dense.weight", "2.dense.bias", "4.output.weight", "4.output.bias"]
SHAPES = [(N_FEATURES, W1), (1, W1), (W1, W2), (1, W2), (N_LABELS, W2), (N_LABELS, 1)]
BETA1, BETA2, EPS = float(np.float32(0.9)), float(np.float32(0.999)), 1e-8
SMOOTHING = 0.25
WEIGHTS = [2, 0, 1, 3.5, 0.25, 1]
OPTIMIZERS = {"adam": (0.01, 0.0), "adagrad": (0.1, 0.0), "sgd": (0.25, 0.9)}


def instance():
    rng = np.random.RandomState(271828)
    start = [np.float32(rng.randn(*s) * 0.6).astype(float) for s in SHAPES]
    batches = []
    for _ in range(N_STEPS):
        x, y = np.zeros((N_ROWS, N_FEATURES)), np.zeros((N_ROWS, N_LABELS))
        for r in range(N_ROWS):
            # features 10 and 11 are never seen, some others not in every batch
            x[r, rng.choice(10, rng.randint(1, 4), replace=False)] = 1
            y[r, rng.choice(N_LABELS, rng.randint(1, 4), replace=False)] = 1
        x *= np.float32(rng.rand(*x.shape) + 0.5)
        x[2] = 0
        y[4] = 0
        batches.append((x, y))
    return start, batches


def step(params, x, y, loss, weights=None, smoothing=0):
    """Mean loss, each row multiplied by its weight, and its gradients by hand."""
    w1, b1, w2, b2, w3, b3 = params
    z1 = x @ w1 + b1
    h1 = np.maximum(z1, 0)
    z2 = h1 @ w2 + b2
    h2 = np.maximum(z2, 0)
    z3 = h2 @ w3.T + b3.T
    n = len(x)
    weights = np.ones(n) if weights is None else np.array(weights)
    if loss == "softmax":
        labelled = y.sum(axis=1) > 0
        t = (1 - smoothing) * y / np.maximum(y.sum(axis=1, keepdims=True), 1) + smoothing / N_LABELS
        e = np.exp(z3 - z3.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        log_sum = np.log(e.sum(axis=1)) + z3.max(axis=1)
        value = (weights * np.where(labelled, log_sum - (t * z3).sum(axis=1), 0)).sum() / n
        g3 = weights[:, None] * np.where(labelled[:, None], p - t, 0) / n
    else:
        value = (weights[:, None] * (np.logaddexp(0, z3) - y * z3)).sum() / n
        g3 = weights[:, None] * (1 / (1 + np.exp(-z3)) - y) / n
    g2 = (g3 @ w3) * (z2 > 0)
    g1 = (g2 @ w2.T) * (z1 > 0)
    grads = [x.T @ g1, g1.sum(axis=0, keepdims=True), h1.T @ g2, g2.sum(axis=0, keepdims=True), g3.T @ h2,
             g3.sum(axis=0)[:, None]]
    return value, grads


class Optimizer:
    def __init__(self, name):
        self.name = name
        self.lr, self.momentum = OPTIMIZERS[name]
        self.m = [np.zeros(s) for s in SHAPES]
        self.v = [np.zeros(s) for s in SHAPES]
        self.g2 = [np.zeros(s[0]) for s in SHAPES]
        self.count = [np.zeros(s[0], int) for s in SHAPES]

    def row(self, i, w, r, g):
        self.count[i][r] += 1
        t, m, v = self.count[i][r], self.m[i][r], self.v[i][r]
        if self.name == "adam":
            m[:] = BETA1 * m + (1 - BETA1) * g
            v[:] = BETA2 * v + (1 - BETA2) * g * g
            w[r] -= self.lr * (m / (1 - BETA1**t)) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
        elif self.name == "adagrad":
            self.g2[i][r] += np.mean(g * g)
            if self.g2[i][r] > 0:
                w[r] -= self.lr * g / np.sqrt(self.g2[i][r])
        else:
            m[:] = self.momentum * m + g
            w[r] -= self.lr * m

    def step(self, params, grads, x):
        for i, (w, g) in enumerate(zip(params, grads)):
            for r in range(len(w)):
                if i > 0 or x[:, r].any():  # a feature of no row of the batch
                    self.row(i, w, r, g[r])


def numbers(a):
    return " ".join("%.9g" % v for v in np.ravel(a))


def main():
    start, batches = instance()
    print("net", N_FEATURES, N_LABELS, W1, W2)
    for x, y in batches:
        rows = []
        for xr, yr in zip(x, y):
            features = " ".join("%d:%.9g" % (f, xr[f]) for f in np.nonzero(xr)[0])
            rows.append("%s | %s ;" % (features, " ".join(map(str, np.nonzero(yr)[0]))))
        print("batch", " ".join(rows))
    for name, w in zip(NAMES, start):
        print("tensor", name, *w.shape, numbers(w))
    for loss in "softmax", "bce":
        value, grads = step(start, *batches[0], loss)
        print("loss", loss, "%.12g" % value)
        for name, g in zip(NAMES, grads):
            print("grad", loss, name, *g.shape, numbers(g))
        for optimizer in OPTIMIZERS:
            o, params, values = Optimizer(optimizer), [w.copy() for w in start], []
            for x, y in batches:
                value, grads = step(params, x, y, loss)
                values.append(value)
                o.step(params, grads, x)
            print("run", loss, optimizer, o.lr, o.momentum, numbers(values))
            for name, w in zip(NAMES, params):
                print("end", loss, optimizer, name, *w.shape, numbers(w))
            for name, c in zip(NAMES, o.count):
                print("count", loss, optimizer, name, *c)
    print("smoothing", SMOOTHING)
    value, grads = step(start, *batches[0], "softmax", smoothing=SMOOTHING)
    print("loss softmax %.12g" % value)
    for name, g in zip(NAMES, grads):
        print("grad softmax", name, *g.shape, numbers(g))
    print("smoothing 0")
    print("weights", *WEIGHTS)
    for loss in "softmax", "bce":
        value, grads = step(start, *batches[0], loss, WEIGHTS)
        print("loss", loss, "%.12g" % value)
        for name, g in zip(NAMES, grads):
            print("grad", loss, name, *g.shape, numbers(g))
    print("smoothing", SMOOTHING)
    value, grads = step(start, *batches[0], "softmax", WEIGHTS, SMOOTHING)
    print("loss softmax %.12g" % value)
    for name, g in zip(NAMES, grads):
        print("grad softmax", name, *g.shape, numbers(g))


main()
