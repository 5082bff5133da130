"""The figures of 'wisp eval' about scores, by a plain computation of what 'wisp predict --json' answers; with --bins also
the reliability picture of docs/prediction.md.

    wisp predict MODEL DATA --json -k 64 [--scores raw] | python3 tests/golden/scores.py DATA [--bins]

DATA is XC text with its header line.  Prints one JSON object: ece, micro_precision, micro_recall, micro_f1 (percent).
"""

import json
import sys

BINS = 15
BEST = 5  # labels of a row that calibration is judged by; F1 looks at all that 'predict' answered


def truths(path):
    with open(path) as f:
        next(f)
        for line in f:
            first = line.rstrip("\n").split(" ")[0]
            yield {int(label) for label in first.split(",")} if first and ":" not in first else set()


def main():
    pairs, kept, n_truth = [], [], 0
    for truth, line in zip(truths(sys.argv[1]), sys.stdin, strict=True):
        n_truth += len(truth)
        found = [(p["score"], p["label"] in truth) for p in json.loads(line)["labels"]]
        pairs += found[:BEST]
        kept += [hit for score, hit in found if score >= 0.5]
    bins = [[] for _ in range(BINS)]
    for score, hit in pairs:
        bins[min(int(score * BINS), BINS - 1)].append((score, hit))
    gap = sum(abs(sum(s for s, _ in b) - sum(h for _, h in b)) for b in bins)
    out = {
        "ece": 100 * gap / max(1, len(pairs)),
        "micro_precision": 100 * sum(kept) / max(1, len(kept)),
        "micro_recall": 100 * sum(kept) / max(1, n_truth),
        "micro_f1": 200 * sum(kept) / max(1, len(kept) + n_truth),
    }
    if "--bins" in sys.argv[2:]:
        print("  score      labels  mean score  applied")
        for i, b in enumerate(bins):
            if b:
                mean, share = sum(s for s, _ in b) / len(b), sum(h for _, h in b) / len(b)
                print("%.2f-%.2f %9d %11.3f %8.3f  %s" % (i / BINS, (i + 1) / BINS, len(b), mean, share, "#" * round(40 * share)))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
