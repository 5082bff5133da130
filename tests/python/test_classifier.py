"""WispClassifier: every form of rows and labels, what fit, predict, save and pickle promise, stopping and going on."""
import copy
import pathlib
import pickle
import signal
import struct
import tempfile
import threading
import json

from rig import *
from wisp import _options as options
from wisp._rows import Data, matrix


def tensors(data):
    """Tensors of a model file by name, but for what the package adds."""
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items()
            if not k.startswith("__") and k != "labels"}


def model(m):
    return m._fitted.model.bytes()


X, lists = planted()
Xt, lists_t = planted(seed=1)
names = [[f"label {i}" for i in row] for row in lists]
names_t = [[f"label {i}" for i in row] for row in lists_t]

# ---- rows ----
base = small().fit(X, names)
check("it learns", base.score(Xt, names_t) > 0.95, base.score(Xt, names_t))
for ids in (np.int32, np.int64):
    for values in (np.float32, np.float64):
        A = X.astype(values)
        A.indices, A.indptr = A.indices.astype(ids), A.indptr.astype(ids)
        M = matrix(A)
        kept = Data.view(M).keep[0]
        name = f"ids {np.dtype(ids).name}, values {np.dtype(values).name}"
        check(f"{name}: no copy", all(np.shares_memory(getattr(kept, part), getattr(A, part))
                                      for part in ("data", "indices", "indptr")))
        check(f"{name}: the same model", model(small().fit(A, names)) == model(base))
check("integers, dense arrays, other layouts", all(model(small().fit(A, names)) == model(base) for A in
                                                   (X.astype(np.int64), X.toarray(), X.tocsc(), X.toarray().tolist())))
untidy = sp.csr_matrix((np.concatenate([X.data, [0, 2, -1]]), np.concatenate([X.indices, [5, 1, 1]]), X.indptr),
                       shape=X.shape)
untidy.indptr = np.concatenate([X.indptr[:-1], [len(untidy.data)]]).astype(np.int32)
untidy.has_canonical_format = untidy.has_sorted_indices = False
before = untidy.indices.copy()
tidy = untidy.copy()
tidy.sum_duplicates()
tidy.eliminate_zeros()
check("zeros, repeats and disorder are tidied in a copy", model(small().fit(untidy, names)) ==
      model(small().fit(tidy, names)) and np.array_equal(before, untidy.indices))
bad = X.copy()
bad.data[7] = np.nan
raises("NaN", ValueError, "NaN or infinity: row 3", small().fit, bad, names)
raises("a text", ValueError, "could not convert|expected", small().fit, [["a", "b"]], [["x"]])
raises("one dimension", ValueError, "Expected 2D", small().fit, X.toarray()[0], names)
raises("too few labels", ValueError, r"inconsistent numbers of samples: \[400, 3\]", small().fit, X, names[:3])

# ---- labels ----
indicator = sp.csr_matrix((np.ones(sum(map(len, lists))), np.concatenate(lists),
                           np.concatenate([[0], np.cumsum([len(row) for row in lists])])), shape=(len(lists), 8))
same = tensors(model(base))
for name, Y in (("numbers", lists), ("tuples", [tuple(row) for row in lists]), ("CSR", indicator), ("COO", indicator.tocoo()),
                ("an array", indicator.toarray()), ("booleans", indicator.toarray() > 0), ("sets", [set(r) for r in lists]),
                ("CSR with zeros", sp.csr_matrix((np.concatenate([indicator.data, [0]]), np.concatenate([indicator.indices,
                 [7]]), np.concatenate([indicator.indptr[:-1], [indicator.nnz + 1]])), shape=indicator.shape))):
    m = small().fit(X, Y)
    check(f"labels as {name}", tensors(model(m)) == same and m.multilabel_ and m.classes_.tolist() == list(range(8)), m.classes_)
check("classes are sorted", base.classes_.tolist() == [f"label {i}" for i in range(8)], base.classes_)
mixed = small().fit(X, [[("a", i) if i % 2 else i for i in row] for row in lists])
check("any hashable is a label", set(mixed.classes_) == {0, 2, 4, 6, ("a", 1), ("a", 3), ("a", 5), ("a", 7)}, mixed.classes_)
first = np.array([f"c{row[0]}" for row in lists])
single = small().fit(X, first)
check("one class per row", not single.multilabel_ and single.predict(X).dtype == first.dtype and
      single.score(X, first) == np.mean(single.predict(X) == first) > 0.6, single.score(X, first))
raises("numbers that are no classes", ValueError, "Unknown label type", small().fit, X, np.linspace(0, 1, 400))
raises("no labels", ValueError, "requires y", small().fit, X)
raises("rows of two kinds", ValueError, "lists of labels and rows that are not", small().fit, X, [[1]] + [1] * 399)
empty = small().fit(X, [row if i % 3 else [] for i, row in enumerate(lists)])
check("rows without labels", empty.score(Xt, lists_t) > 0.9, empty.score(Xt, lists_t))

# ---- prediction ----
P = base.predict_proba(Xt, k=3)
check("probabilities are CSR, k a row", P.format == "csr" and P.shape == (400, 8) and np.all(np.diff(P.indptr) == 3) and
      P.data.min() >= 0 and P.data.max() <= 1)
top, scores = base.predict_top(Xt, 3)
check("the best first", np.all(np.diff(scores, axis=1) <= 0) and
      all(P[i, base.classes_.tolist().index(top[i, j])] == scores[i, j] for i in (0, 57) for j in range(3)))
check("k beyond the labels", base.predict_proba(Xt, k=100).nnz == 400 * 8)
D = base.decision_function(Xt)
check("log-odds order as probabilities do", D.shape == (400, 8) and
      np.array_equal(D.argmax(axis=1), base.predict_proba(Xt, 8).toarray().argmax(axis=1)))
guess = base.predict(Xt)
check("labels above the threshold", sp.issparse(guess) and np.array_equal(guess.toarray() > 0,
                                                                          base.predict_proba(Xt, 8).toarray() >= 0.5))
check("an array in, an array out", isinstance(small().fit(X, indicator.toarray()).predict(Xt), np.ndarray))
low = copy.deepcopy(base).set_params(threshold=0.0)
check("threshold", low.predict(Xt).nnz == 400 * 8)
soft = small(loss="softmax", scores="raw").fit(X, names)
check("raw scores of the softmax sum to 1 and share it", np.allclose(soft.predict_proba(Xt, 8).sum(axis=1), 1, atol=1e-3) and
      soft.predict(Xt).nnz > 250 and 0.3 < soft._limit(soft._fitted, False) < 0.34, (soft.predict(Xt).nnz, soft.predict_proba(Xt, 8).sum(axis=1).min()))
raw, D = soft.predict_proba(Xt, 8).toarray(), soft.decision_function(Xt)
soft.set_params(scores="calibrated")
fitted = soft.predict_proba(Xt, 8).toarray()
check("calibrated scores are others, in the same order", soft._top(soft._fitted, Xt, 1)[2] and soft._limit(soft._fitted, True) == 0.5 and
      not np.allclose(fitted, raw, atol=1e-2) and np.all(np.diff(np.take_along_axis(fitted, raw.argsort(axis=1), 1), axis=1) >= 0))
check("decisions are raw", np.array_equal(soft.decision_function(Xt), D))
raises("other features", ValueError, "X has 10 features, but WispClassifier is expecting 60", base.predict, X[:, :10])
raises("not fitted", ValueError, "not fitted yet", small().predict, X)
votes = small(index=True, inference="sparse").fit(X, names)
check("sparse prediction", votes.score(Xt, names_t) > 0.9, votes.score(Xt, names_t))
raises("sparse without an index", NotImplementedError, "index", copy.deepcopy(base).set_params(inference="sparse").predict, X)

# ---- parameters, pickling, files ----
p = small(hidden=(32, 16), seed=7)
check("parameters come back", wisp.WispClassifier(**p.get_params()).get_params() == p.get_params() and
      repr(wisp.WispClassifier(epochs=3)) == "WispClassifier(epochs=3)" and p.set_params(seed=8).seed == 8)
raises("a parameter that is not there", ValueError, "Invalid parameter 'epoch'", p.set_params, epoch=1)
again = pickle.loads(pickle.dumps(base))
check("pickled", model(again) == model(base) and np.array_equal(again.predict_proba(Xt), base.predict_proba(Xt)))
check("unfitted pickled", pickle.loads(pickle.dumps(p)).get_params() == p.get_params())
with tempfile.TemporaryDirectory() as folder:
    at = os.path.join(folder, "model")
    odd = [[["a\nb", "", "tab\tx", "\u00e9\u4e2d", "\\", "#", " s ", "\ufeffbom"][i] for i in row] for row in lists]
    number = [[i * 10 for i in row] for row in lists]
    for name, Y in (("text", names), ("odd text", odd), ("numbers", number), ("text and numbers", [[i if i % 2 else str(i)
                    for i in row] for row in lists]), ("one class per row", first)):
        m = small(epochs=1).fit(X, Y)
        m.save(at)
        loaded = wisp.WispClassifier.load(at, threads=1)
        check(f"saved and loaded: {name}", loaded.classes_.tolist() == m.classes_.tolist() and
              loaded.multilabel_ == m.multilabel_ and loaded.n_features_in_ == 60 and
              np.array_equal(loaded.predict_top(Xt)[0], m.predict_top(Xt)[0]), loaded.classes_)
    check("nothing else is left", os.listdir(folder) == ["model"], os.listdir(folder))

    # ---- files, and the command ----
    rows = os.path.join(folder, "rows.txt")
    with open(rows, "w") as f:
        f.write(f"400 60 8\n" + "".join(",".join(map(str, lists[i])) + "".join(
            f" {j}:{v:g}" for j, v in zip(X[i].indices, X[i].data)) + "\n" for i in range(400)))
    R, RY = wisp.read(rows, cache="-")
    check("a file is read", (R != X).nnz == 0 and (RY != indicator).nnz == 0)
    command = subprocess.run([os.path.join(build, "wisp"), "train", rows, "-o", at, "--cache", "-", "--hidden", "16",
                              "--epochs", "8", "--batch", "32", "--dropout", "0", "--input-dropout", "0", "--lr", "0.02",
                              "--holdout", "0.1", "--precision", "fp32"], capture_output=True, text=True)
    check("the command trains the same", command.returncode == 0 and tensors(open(at, "rb").read()) == same, command.stderr)
    of_file = small(cache="-").fit(rows)
    check("a file trains the same", model(of_file) == open(at, "rb").read())
    check("a file is predicted", np.array_equal(of_file.predict_top(pathlib.Path(rows))[0],
                                                  of_file.predict_top(X)[0]))
    check("a model of the command", wisp.WispClassifier.load(at).classes_.tolist() == list(range(8)) and
          wisp.WispClassifier.load(at).score(Xt, indicator[:0].__class__((400, 8))) == 0)

    raises("stopped before there was a model", InterruptedError, "holds an older one",
           small(path=at, epochs=1, progress=lambda p: not p.epoch_ended).fit, X, first)

    # ---- stopping and going on ----
    def stop_after(n):
        return lambda p: p.epoch_ended and p.epoch == n

    whole = small(path=at).fit(X, names)
    os.unlink(at)
    half = small(path=at, progress=stop_after(3)).fit(X, names)
    check("a callback stops the run and keeps the model", half.report_ == {} and os.path.exists(at + ".state") and
          half.score(Xt, names_t) > 0.2, half.score(Xt, names_t))
    rest = small(path=at, resume=True).fit(X, names)
    check("resumed: the bytes of the whole run", model(rest) == model(whole) == open(at, "rb").read() and
          not os.path.exists(at + ".state"))

seen = []
m = small(progress=lambda p: seen.append(p)).fit(X, names)
ends = [p for p in seen if p.epoch_ended]
check("progress", [p.epoch for p in ends] == list(range(1, 9)) and ends[-1].json["valid_p@1"] == round(ends[-1].valid, 4) and
      m.report_["epochs"] == 8 and ends[0].loss > ends[-1].loss, seen)


def fail(p):
    raise RuntimeError("no more")


m = small(progress=fail)
raises("what a callback raises arrives", RuntimeError, "no more", m.fit, X, names)
check("and the model is there", m.predict(Xt).shape == (400, 8))

m = small(epochs=100_000, patience=0, warmup=0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
raises("Ctrl-C", KeyboardInterrupt, "", m.fit, X, names)
check("Ctrl-C keeps the model, and Python's handler is back", m.score(Xt, names_t) > 0.9 and
      signal.getsignal(signal.SIGINT) is signal.default_int_handler)
ticks, going = [], threading.Event()


def tick():
    while not going.wait(0.001):
        ticks.append(1)


clock = threading.Thread(target=tick)
clock.start()
small(epochs=200, patience=0).fit(X, names)
going.set()
clock.join()
check("other threads run meanwhile", len(ticks) > 3, len(ticks))

# ---- partial_fit ----
m = small(epochs=3).partial_fit(X[:200], names[:200], classes=base.classes_)
one = m.score(Xt, names_t)
for _ in range(3):
    m.partial_fit(X[200:], names[200:])
check("partial_fit goes on", m.score(Xt, names_t) > max(one, 0.8) and m.classes_.tolist() == base.classes_.tolist(),
      (one, m.score(Xt, names_t)))
check("a place for classes that are to come", small(epochs=1).partial_fit(X, names, classes=[f"label {i}" for i in range(12)])
      .predict_proba(Xt, 12).shape == (400, 12))
raises("labels of another kind", ValueError, r"numbers \(3\).* text \(.label 0.\)", m.partial_fit, X[:1], [[3]])
raises("a label of another kind", ValueError, "label 3 is of another kind", m.partial_fit, X[:1], [["label 0", 3]])
if "old-pace" in options.ROWS:
    part = [i for i, row in enumerate(lists) if 7 not in row]
    order = [*range(21), *range(24, 60), 21, 22, 23]  # the features of label 7 are new, too
    N, Nt = X[:, order], Xt[:, order]
    grown = small(epochs=8).fit(N[part][:, :57], [names[i] for i in part])
    old = grown.score(Nt[:, :57], [[x for x in row if x != "label 7"] for row in names_t])
    grown.set_params(epochs=40).partial_fit(N, [row + ["a new one"] if "label 7" in row else row for row in names])
    check("partial_fit takes new labels and new features", grown.classes_.tolist() == [f"label {i}" for i in range(7)] +
          ["a new one", "label 7"] and grown.n_features_in_ == 60 and grown.predict_proba(Nt, 9).shape == (400, 9))
    found = np.mean(["label 7" in t for t, row in zip(grown.predict_top(Nt, 4)[0], names_t) if "label 7" in row])
    check("old labels stay, new ones are learnt", grown.score(Nt, names_t) > old - 0.1 and found > 0.8,
          (old, grown.score(Nt, names_t), found))
    check("and can be pickled", pickle.loads(pickle.dumps(grown)).classes_.tolist() == grown.classes_.tolist())
else:
    skip("new labels and features: this library's --init does not take them")
raises("fewer features", ValueError, "X has 10 features", m.partial_fit, X[:, :10], names)
raises("another kind of labels", ValueError, "Y is classes", m.partial_fit, X, first)

# ---- linear models ----
linear = wisp.WispClassifier(hidden=0, threads=2).fit(X, names)
check("hidden=0 is linear", linear.describe()["net"] == "linear" if hasattr(linear, "describe") else
      b"linear.weight" in model(linear)[:4096])
check("it learns as well", linear.score(Xt, names_t) > 0.95, linear.score(Xt, names_t))
check("one thread, the same bytes", model(wisp.WispClassifier(hidden=0, threads=1).fit(X, names)) == model(linear))
check("it pickles", np.array_equal(pickle.loads(pickle.dumps(linear)).predict_top(Xt)[1], linear.predict_top(Xt)[1]))
check("weights of rows", wisp.WispClassifier(hidden=0, class_weight="balanced").fit(X, names).score(Xt, names_t) > 0.9)
known = np.array(["label 7" not in row for row in names])
less = wisp.WispClassifier(hidden=0, threads=2).fit(X[known], [row for row, k in zip(names, known) if k])
before = less.score(Xt, names_t)
less.partial_fit(X, names)
check("it goes on, with a new label", less.score(Xt, names_t) > max(before, 0.9) and b"linear.weight" in model(less)[:4096],
      (before, less.score(Xt, names_t)))

# ---- validation rows, processes ----
v = small(patience=0).fit(X, names, Xt, [row + ["unknown"] for row in names_t])
check("validation rows", abs(v.report_["valid_p@1"] - 100 * v.score(Xt, names_t)) < 0.01, v.report_)
want = base.predict_top(Xt)[1]
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(7 if np.array_equal(base.predict_top(Xt)[1], want) else 1)
check("a forked process predicts", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7)
results = {}
threads = [threading.Thread(target=lambda i=i: results.update({i: base.predict_top(Xt)[1].sum()})) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
check("threads predict with one model", len(set(results.values())) == 1 and len(results) == 4, results)
end()
