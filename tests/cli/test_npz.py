#!/usr/bin/python3
"""npz against scipy: what scipy saves wisp reads the same, what wisp writes scipy loads the same.

usage: test_npz.py WISP       (the path of the wisp binary)
"""
import os
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import scipy.sparse as sp

wisp = os.path.abspath(sys.argv[1])
passed = failed = 0


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok   " if good else "FAIL ") + name + ("" if good else f": {why}"))


def convert(source, target):
    run = subprocess.run([wisp, "convert", source, target], capture_output=True, text=True)
    return run.returncode, run.stderr.strip()


def read_xc(path):
    """XC text to (features, labels), independent of wisp's reader."""
    with open(path) as f:
        n, n_features, n_labels = map(int, f.readline().split())
        x, y = sp.lil_matrix((n, n_features), dtype=np.float32), sp.lil_matrix((n, n_labels), dtype=np.float32)
        rows = f.read().split("\n")
    assert rows.pop() == "" and len(rows) == n, (len(rows), n)
    for i, row in enumerate(rows):
        labels, *features = row.split(" ")
        for label in filter(None, labels.split(",")):
            y[i, int(label)] = 1
        for feature in features:
            j, v = feature.split(":")
            x[i, int(j)] = np.float32(v)
    return x.tocsr(), y.tocsr()


def same(a, b):
    return a.shape == b.shape and (a != b).nnz == 0


def matrices(seed=0, n=60, n_features=200, n_labels=30):
    r = np.random.RandomState(seed)
    x = sp.random(n, n_features, 0.05, "csr", np.float32, r)
    y = sp.random(n, n_labels, 0.1, "csr", np.float32, r)
    y.data[:] = 1
    return x, y


def with_index(m, kind):
    m = m.copy()
    m.indices, m.indptr = m.indices.astype(kind), m.indptr.astype(kind)
    return m


def shuffled(x):
    """The same matrix with unsorted columns, a repeated one (its value in two parts) and a stored 0."""
    rows, cols, vals = [], [], []
    indptr = [0]
    for i in range(x.shape[0]):
        row = x.getrow(i)
        ids, v = list(row.indices[::-1]), list(row.data[::-1])
        if ids:
            ids.append(ids[0])
            v.append(v[0] / 2)
            v[0] /= 2
        free = next(j for j in range(x.shape[1]) if j not in ids)
        cols += ids + [free]
        vals += v + [0]
        indptr.append(len(cols))
    return sp.csr_matrix((np.array(vals, np.float32), np.array(cols), np.array(indptr)), x.shape)


def test_reading():
    x, y = matrices()
    ints = x.copy()
    ints.data = (1 + (ints.data * 100).astype(np.int64)).astype(np.int64)
    cases = {
        "stored": (x, y, False),
        "compressed": (x, y, True),
        "int64 indices": (with_index(x, np.int64), with_index(y, np.int64), True),
        "float64": (x.astype(np.float64), y.astype(np.float64), True),
        "bool": (x.astype(bool), y.astype(bool), False),
        "int8 labels": (x, y.astype(np.int8), False),
        "int64 values": (ints, y.astype(np.uint16), True),
        "sparse arrays": (sp.csr_array(x), sp.csr_array(y), True),
        "unsorted, repeated, zeros": (shuffled(x), y, False),
        "no rows": (x[:0], y[:0], False),
        "no values": (x * 0, y * 0, True),
    }
    for i, (name, (a, b, packed)) in enumerate(cases.items()):
        sp.save_npz(f"in{i}.npz", a, compressed=packed)
        sp.save_npz(f"in{i}.y.npz", b, compressed=packed)
        code, said = convert(f"in{i}.npz", f"out{i}.npz")
        if code:
            check("read " + name, False, said)
            continue
        c, d = sp.load_npz(f"out{i}.npz"), sp.load_npz(f"out{i}.y.npz")
        want_x, want_y = sp.csr_matrix(a).astype(np.float32), sp.csr_matrix(b).astype(np.float32)
        check("read " + name, same(c, want_x) and same(d, want_y), f"{c.shape} {c.nnz}, {d.shape} {d.nnz}")


def test_writing():
    x, y = matrices(1)
    sp.save_npz("w.npz", x)
    sp.save_npz("w.y.npz", y)
    code, said = convert("w.npz", "w.txt")
    if code == 0:
        a, b = read_xc("w.txt")
        check("to xc text", same(a, x) and same(b, y))
        code, said = convert("w.txt", "back.npz")
    check("and back", code == 0, said)
    if code:
        return
    c, d = sp.load_npz("back.npz"), sp.load_npz("back.y.npz")
    check("the same matrices", same(c, x) and same(d, y))
    c.check_format(full_check=True)
    check("sorted and without repeats", c.has_canonical_format)
    types = (c.data.dtype, c.indices.dtype, d.data.dtype)
    check("float32 values, int32 ids, labels of 1", types == (np.float32, np.int32, np.float32) and (d.data == 1).all(), types)
    with np.load("back.npz") as arrays:
        check("int64 indptr", arrays["indptr"].dtype == np.int64, arrays["indptr"].dtype)
    with zipfile.ZipFile("back.npz") as z:
        check("zipfile's own check", z.testzip() is None)


def test_refusing():
    x, y = matrices(2)
    sp.save_npz("csc.npz", x.tocsc())
    code, said = convert("csc.npz", "no.txt")
    check("csc is refused", code != 0 and "csc.npz: array 'format'" in said, said)
    sp.save_npz("rows.npz", x)
    sp.save_npz("rows.y.npz", y[:-1])
    code, said = convert("rows.npz", "no.txt")
    check("other number of rows", code != 0 and "59 rows of labels" in said, said)
    sp.save_npz("alone.npz", x)
    code, said = convert("alone.npz", "alone.txt")
    check("no labels: said, and read", code == 0 and "no labels" in said, said)
    check("nothing written on failure", not os.path.exists("no.txt"))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    test_reading()
    test_writing()
    test_refusing()
    os.chdir("/")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
