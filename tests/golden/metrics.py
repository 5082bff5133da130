#!/usr/bin/env python3
"""P@k, R@k, nDCG@k and PSP@k from their definitions, with numpy, independent of src/model/metrics.c.

    python3 tests/golden/metrics.py > tests/golden/metrics.txt

Writes a small random instance and the expected percentages, which tests/unit/test_metrics.c reads:
    cuts / propensity / train / counts      one line each
    row ranked ... | truth ...              -1 ends a ranking early
    expect NAME@k value
"""
import numpy as np

CUTS = [1, 3, 5]
N_LABELS, N_ROWS, N_TRAIN = 40, 150, 500
A, B = 0.55, 1.5


def instance():
    rng = np.random.RandomState(20240229)
    counts = np.maximum(0, 120 / np.arange(1, N_LABELS + 1) + rng.randint(-3, 4, N_LABELS)).astype(int)
    counts = rng.permutation(counts)
    counts[7] = counts[21] = 0  # labels that no training row has
    popularity = (counts + 1) / (counts + 1).sum()
    rows = []
    for i in range(N_ROWS):
        truth = set(rng.choice(N_LABELS, rng.randint(0, 9), replace=False, p=popularity))
        if i % 10 == 0:
            truth = set()
        if i % 7 == 0:
            truth |= {N_LABELS, N_LABELS + int(rng.randint(1, 50))}  # labels the model does not know
        score = rng.rand(N_LABELS) * 0.7
        for label in truth:
            if label < N_LABELS:
                score[label] += 0.4
        ranked = list(np.argsort(-score, kind="stable")[:6])
        if i % 6 == 1:
            ranked = ranked[: rng.randint(0, 5)]  # fewer predictions than k
        if i % 6 == 4:
            ranked[rng.randint(0, 5)] = -1
        rows.append((ranked, sorted(truth)))
    return counts, rows


def weights(counts):
    """1/p of each label, and of one never seen"""
    c = (np.log(N_TRAIN) - 1) * (B + 1) ** A
    p = 1 / (1 + c * np.exp(-A * np.log(np.append(counts, 0) + B)))
    return 1 / p


def groups(counts):
    """three sets of labels: head, middle, tail"""
    order = np.lexsort((np.arange(N_LABELS), -counts))
    running = np.cumsum(counts[order])
    cut = [int(np.argmax(3 * running >= part * running[-1])) + 1 for part in (1, 2)]
    return [set(part) for part in np.split(order, cut)]


def metrics(counts, rows):
    w, parts, out = weights(counts), groups(counts), {}
    weight = lambda label: w[min(label, N_LABELS)]
    gain = lambda place: 1 / np.log2(place + 2)  # places from 0
    for k in CUTS:
        p, r, ndcg, got, best = [], [], [], 0.0, 0.0
        group_p = [[], [], []]
        for ranked, truth in rows:
            if -1 in ranked:
                ranked = ranked[: ranked.index(-1)]
            hit = [label in truth for label in ranked[:k]]
            p.append(sum(hit) / k)
            r.append(sum(hit) / len(truth) if truth else 0)
            ideal = sum(gain(i) for i in range(min(k, len(truth))))
            ndcg.append(sum(gain(i) for i, h in enumerate(hit) if h) / ideal if truth else 0)
            got += sum(weight(label) for label, h in zip(ranked, hit) if h)
            best += sum(sorted((weight(label) for label in truth), reverse=True)[:k])
            for g, members in enumerate(parts):
                if members & set(truth):
                    hits = [h and label in members for label, h in zip(ranked, hit)]
                    group_p[g].append(sum(hits) / k)
        out[f"p@{k}"] = 100 * np.mean(p)
        out[f"r@{k}"] = 100 * np.mean(r)
        out[f"ndcg@{k}"] = 100 * np.mean(ndcg)
        out[f"psp@{k}"] = 100 * got / best
        for g, name in enumerate(("head", "middle", "tail")):
            out[f"{name}@{k}"] = 100 * np.mean(group_p[g])
    return out


def main():
    counts, rows = instance()
    print("cuts", *CUTS)
    print("propensity", A, B)
    print("train", N_TRAIN)
    print("counts", *counts)
    for ranked, truth in rows:
        print("row", *ranked, "|", *truth)
    for name, value in metrics(counts, rows).items():
        print("expect", name, repr(float(value)))


if __name__ == "__main__":
    main()
