#!/usr/bin/env python3
"""curves.py OUT.svg TITLE NAME=LOG ...: learning curves from the logs of 'wisp train --log', as one SVG.

Left: validation P@1 by epoch; right: by seconds of training (log scale).  No package needed."""
import json
import math
import sys

WIDTH, HEIGHT, TOP, BOTTOM, GAP = 430, 300, 34, 40, 60
COLOURS = ["#1b6ca8", "#d1495b", "#2e8b57", "#e08e0b", "#7b4fa3", "#444444", "#00a3a3", "#b0653a", "#8a9a00", "#e377c2", "#777fbb"]
DASHES = ["", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 2"']  # for those that colours do not tell apart


def read(path):
    rows = [json.loads(line) for line in open(path)]
    return [(r["epoch"], r["train_seconds"], r["valid_p@1"]) for r in rows]


def ticks(lo, hi):
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50) if (hi - lo) / s <= 8)
    first = math.ceil(lo / step) * step
    return [first + i * step for i in range(int((hi - first) / step + 1e-9) + 1)]


def panel(out, x0, curves, column, label, low, high, log):
    xs = [r[column] for _, rows in curves for r in rows]
    lo, hi = (min(xs), max(xs)) if log else (1, max(xs))
    place = (lambda v: math.log(v / lo) / math.log(hi / lo)) if log else (lambda v: (v - lo) / max(hi - lo, 1))
    x = lambda v: x0 + place(v) * WIDTH
    y = lambda v: TOP + (high - v) / (high - low) * HEIGHT
    out.append(f'<rect x="{x0}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>')
    for t in ticks(low, high):
        out.append(f'<path d="M{x0} {y(t):.1f}h{WIDTH}" stroke="#e4e4e4"/><text x="{x0 - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}</text>')
    marks = [v for e in range(-2, 6) for v in (10**e, 2 * 10**e, 5 * 10**e) if lo <= v <= hi] if log else sorted({r[column] for _, rows in curves for r in rows})
    for v in marks:
        out.append(f'<text x="{x(v):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{v:g}</text>')
    out.append(f'<text x="{x0 + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">{label}</text>')
    for i, (_, rows) in enumerate(curves):
        points = " ".join(f"{x(r[column]):.1f},{y(max(r[2], low)):.1f}" for r in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="2"{DASHES[i // len(COLOURS)]}/>')


def main():
    path, title, *pairs = sys.argv[1:]
    curves = [(name, read(log)) for name, log in (p.split("=", 1) for p in pairs)]
    values = sorted(r[2] for _, rows in curves for r in rows)
    high, low = math.ceil(values[-1] + 0.5), math.floor(values[len(values) // 20])
    left, total = 44, 44 + 2 * WIDTH + GAP + 250
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{TOP + HEIGHT + BOTTOM}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left}" y="20" font-size="14">{title}</text>']
    panel(out, left, curves, 0, "epoch", low, high, False)
    panel(out, left + WIDTH + GAP, curves, 1, "seconds of training", low, high, True)
    for i, (name, rows) in enumerate(curves):
        x, y = left + 2 * WIDTH + GAP + 14, TOP + 14 + 20 * i
        out.append(f'<path d="M{x} {y - 4}h18" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="3"{DASHES[i // len(COLOURS)]}/><text x="{x + 24}" y="{y}">{name} {max(r[2] for r in rows):.1f}</text>')
    out.append("</svg>")
    open(path, "w").write("\n".join(out) + "\n")


main()
