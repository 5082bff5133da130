"""What bench/python/check runs in a fresh environment: check.py ROOT DATA."""
import gc
import json
import os
import re
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp

import wisp

root, data = sys.argv[1:3]
command = os.path.join(root, "build", "wisp")
passed = failed = skipped = 0


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok   " if good else "FAIL ") + name + (f": {why}" if why else ""), flush=True)


def wanted(part, *files):
    global skipped
    if os.environ.get("PARTS", "") not in part:
        return False
    missing = [f for f in files if not os.path.exists(os.path.join(data, f))]
    if missing:
        skipped += 1
        print(f"SKIP {part}: no {missing[0]} in {data}: run ../shared/data/unpack")
    return not missing


def docs():
    for page in ("README.md", "docs/python.md"):
        with open(os.path.join(root, page)) as f:
            blocks = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
        names = {}
        for block in blocks:
            exec(compile(block, page, "exec"), names)
        check(f"{page}: {len(blocks)} examples", blocks)


# Rows are taken in random batches, so a row of weight 2 is not bit by bit two rows; and a list of lists is lists of labels,
# which an indicator matrix written as one looks like.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "wants a row of weight 2 to be two rows to 1e-7",
    "check_sample_weight_equivalence_on_sparse_data": "wants a row of weight 2 to be two rows to 1e-7",
    "check_classifiers_multilabel_representation_invariance": "hands an indicator matrix over as a list of lists",
    "check_methods_subset_invariance": "wants a row alone to have the score that it has in a batch to 1e-7",
}
BY_PROCESSOR = {"check_methods_subset_invariance"}  # a row alone and a row in a batch round differently, or by luck do not


def estimator():
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(wisp.WispClassifier(), expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    by = {status: [r for r in results if r["status"] == status] for status in ("passed", "xfail", "skipped", "failed")}
    for r in by["failed"]:
        print(f"  {r['check_name']}: {r['exception']!r}"[:300])
    for r in by["skipped"]:
        print(f"  skipped {r['check_name']}: {r['exception']}"[:200])
    gone = set(EXPECTED) - BY_PROCESSOR - {r["check_name"] for r in by["xfail"]}
    check("estimator checks", not by["failed"] and not gone, f"{len(by['passed'])} passed, {len(by['xfail'])} expected failures "
          f"({len(EXPECTED)} checks), {len(by['skipped'])} skipped, {len(by['failed'])} failed{gone or ''}")


def tests():
    """Those that need what this environment has."""
    for name in ("wheel", "types", "forms", "text"):
        run = subprocess.run([sys.executable, os.path.join(root, "tests/python", f"test_{name}.py")], capture_output=True, text=True)
        bad = [line for line in run.stdout.splitlines() if line.startswith(("FAIL", "SKIP"))]
        check(f"tests/python/test_{name}.py", run.returncode == 0 and not bad, "; ".join(bad) or run.stderr[-300:])


def debtags():
    texts, labels = [], []
    for part in ("train", "test"):
        with open(os.path.join(data, f"debtags/debtags_{part}_raw.txt"), encoding="utf-8") as f:
            texts.append(f.read().splitlines())
        labels.append(wisp.read(os.path.join(data, f"debtags/debtags_{part}.txt"))[1])
    return texts, labels


def grid():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    texts, labels = debtags()
    first = np.array([row.indices[0] if row.nnz else -1 for row in labels[0]])[:3000]
    pipe = make_pipeline(TfidfVectorizer(sublinear_tf=True), wisp.WispClassifier(epochs=3, threads=1))
    search = GridSearchCV(pipe, {"wispclassifier__hidden": [32, 128], "wispclassifier__loss": ["bce", "softmax"]}, cv=2,
                          n_jobs=2).fit(texts[0][:3000], first)
    check("GridSearchCV", search.best_score_ > 0.1 and len(search.cv_results_["params"]) == 4,
          f"best {search.best_params_}, accuracy {search.best_score_:.3f}")


def scikit():
    """What asks for dense probabilities."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import load_iris
    from sklearn.ensemble import VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    X, y = load_iris(return_X_y=True)
    ours, theirs = wisp.WispClassifier(threads=1), LogisticRegression(max_iter=1000)
    loss = -cross_val_score(ours, X, y, scoring="neg_log_loss", cv=3).mean()
    check("scoring='neg_log_loss'", 0 < loss < 1.1, f"{loss:.3f}, LogisticRegression "
          f"{-cross_val_score(theirs, X, y, scoring='neg_log_loss', cv=3).mean():.3f}")
    both = VotingClassifier([("wisp", ours), ("logistic", theirs)], voting="soft").fit(X, y)
    check("VotingClassifier(voting='soft')", both.score(X, y) > 0.9, f"{both.score(X, y):.3f}")
    check("CalibratedClassifierCV", CalibratedClassifierCV(ours, cv=2).fit(X, y).score(X, y) > 0.6)


def evaluate(model, rows):
    out = subprocess.run([command, "eval", model, rows, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])["p@1"]


def pipeline():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    texts, labels = debtags()
    pipe = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32), wisp.WispClassifier())
    pipe.fit(texts[0], labels[0])
    ours = 100 * pipe.score(texts[1], labels[1])
    for part, t, y in zip(("train", "test"), texts, labels):  # the same values, for the command
        X = pipe[0].transform(t)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        sp.save_npz(f"{part}.npz", sp.csr_matrix(X))
        sp.save_npz(f"{part}.y.npz", sp.csr_matrix(y))
    subprocess.run([command, "train", "train.npz", "-o", "model"], check=True, capture_output=True)
    theirs = evaluate("model", "test.npz")
    subprocess.run([command, "train", os.path.join(data, "debtags/debtags_train.txt"), "-o", "counts"], check=True,
                   capture_output=True)
    counts = evaluate("counts", os.path.join(data, "debtags/debtags_test.txt"))
    check("a Pipeline on debtags' raw text", abs(ours - theirs) <= 0.5 and ours > counts - 0.5,
          f"P@1 {ours:.2f}, the command on the same values {theirs:.2f}, on the file of counts {counts:.2f}")


def resident():
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def memory():
    from wisp._rows import Data, matrix

    n, per = 100_000, 100
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, 5000, (n, per), dtype=np.int32) + 5000 * np.arange(per, dtype=np.int32), axis=1).ravel()
    for id_type in (np.int32, np.int64):
        for value_type in (np.float32, np.float64):
            X = sp.csr_matrix((n, 5000 * per), dtype=value_type)
            X.data, X.indices = np.ones(n * per, value_type) / 3, ids.astype(id_type)
            X.indptr = np.arange(0, n * per + 1, per, dtype=id_type)
            held = X.data.nbytes + X.indices.nbytes
            before = resident()
            begin = time.perf_counter()
            d = Data.view(matrix(X))
            seconds, grown, made = time.perf_counter() - begin, resident() - before, d.stats.bytes
            # counts of features (8 bytes each) are made for any set of rows
            check(f"handing over 1e7 non-zeros, {id_type.__name__} and {value_type.__name__}",
                  made < 0.02 * held and grown < 0.02 * held + 8 * X.shape[1] + (4 << 20),
                  f"{held / 1e6:.0f} MB in X, {made / 1e6:.1f} MB made (offsets), process grew by {grown / 1e6:.1f} MB "
                  f"({8e-6 * X.shape[1]:.0f} of them counts of features), {seconds * 1e3:.0f} ms")
            del d


def timed(function):
    """Seconds of this kind of run: by the clock, and of all cores (which others on the machine disturb less)."""
    def cores():
        return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

    begin, spent = time.perf_counter(), cores()
    function()
    return np.array([time.perf_counter() - begin, cores() - spent])


def tensors(path):
    """Tensors of a model file by name, but for the names of labels, which only fit has."""
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head, body = json.loads(f.read(n)), f.read()
    return {k: body[slice(*v["data_offsets"])] for k, v in head.items() if not k.startswith("__") and k != "labels"}


def overhead():
    rows = int(os.environ.get("ROWS", 20_000))
    with open(os.path.join(data, "yso-finna-en-25k/yso-finna-en-25k_train.txt")) as f, open("slice.txt", "w") as out:
        _, features, labels = f.readline().split()
        out.write(f"{rows} {features} {labels}\n")
        out.writelines(line for line, _ in zip(f, range(rows)))
    X, Y = wisp.read("slice.txt")
    line = [command, "train", "slice.txt", "-o", "model", "--epochs", "1", "--threads", "2"]
    model = wisp.WispClassifier(epochs=1, threads=2)
    both = [(timed(lambda: subprocess.run(line, check=True, capture_output=True)), timed(lambda: model.fit(X, Y)))
            for _ in range(3)]  # in turns, as others work on this machine, too
    theirs, ours = np.array(both).min(axis=0)
    print(f"     {rows} rows of yso, best of 3: fit {ours[0]:.2f} s, {ours[1]:.2f} of all cores; the command {theirs[0]:.2f}, "
          f"{theirs[1]:.2f}; overhead {100 * (ours[0] / theirs[0] - 1):+.1f} %, of cores {100 * (ours[1] / theirs[1] - 1):+.1f} %")
    model.save("ours")
    check("fit trains what the command trains", tensors("ours") == tensors("model"))


def main():
    if wanted("docs"):
        docs()
    if wanted("estimator"):
        estimator()
    if wanted("tests"):
        tests()
    if wanted("scikit"):
        scikit()
    if wanted("grid", "debtags/debtags_train_raw.txt"):
        grid()
    if wanted("memory"):
        memory()
    if wanted("overhead", "yso-finna-en-25k/yso-finna-en-25k_train.txt"):
        overhead()
    if wanted("pipeline", "debtags/debtags_train_raw.txt"):
        pipeline()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
