"""Forms of X and Y that users bring (Series, DataFrames, weights), what predict_proba is, hints for keywords of other
libraries, matrices whose arrays do not go together, and files that nobody else may read."""
import pickle
import stat
import tempfile
import warnings

from rig import *
from wisp.classifier import _spread

try:
    import pandas
except ImportError:
    pandas = None
    skip("pandas is not installed: Series and DataFrames are those of this test alone")

X, lists = planted()
Xt, lists_t = planted(seed=1)
first = np.array([f"c{row[0]}" for row in lists])
base = small().fit(X, lists)

# ---- Y as a Series ----
for name, kind in (("a Series", Series), ("pandas' Series", getattr(pandas, "Series", None))):
    if kind is None:
        continue
    m = small().fit(X, kind(lists))
    check(f"labels in {name} of lists", m.multilabel_ and np.array_equal(m.predict_top(Xt)[0], base.predict_top(Xt)[0]))
    check(f"{name} of sets", small(epochs=1).fit(X, kind([set(row) for row in lists])).multilabel_)
    check(f"{name} of classes", not small(epochs=1).fit(X, kind(first.tolist())).multilabel_)
    check(f"score with {name}", m.score(Xt, kind(lists_t)) == base.score(Xt, lists_t))
raises("a Series of two kinds", ValueError, "lists of labels and rows that are not", small().fit, X, Series([[1]] + [1] * 399))

# ---- probabilities ----
single = small().fit(X, first)
for name, m, sums in (("one class for each row", single, True), ("multi-label", base, False),
                      ("one class, softmax", small(loss="softmax").fit(X, first), True)):
    P = m.predict_proba(Xt)
    check(f"{name}: an array of all classes", isinstance(P, np.ndarray) and P.shape == (400, len(m.classes_)) and
          P.min() >= 0 and P.max() <= 1)
    check(f"{name}: {'rows sum to 1' if sums else 'rows need not sum to 1'}", np.allclose(P.sum(axis=1), 1, rtol=1e-7) == sums)
    order = m.predict_proba(Xt, k=len(m.classes_)).toarray()
    check(f"{name}: in the order of the CSR form", all(np.array_equal(np.argsort(-a, kind="stable"), np.argsort(-b, kind="stable"))
                                                       for a, b in zip(P, order)))
    if not sums:
        check(f"{name}: the values of the CSR form", np.array_equal(P, order.astype(np.float64)))
check("the class with the highest one is predicted", np.array_equal(single.classes_[single.predict_proba(Xt).argmax(axis=1)],
                                                                    single.predict(Xt)))
check("the CSR form as a parameter", base.set_params(proba="csr").predict_proba(Xt).nnz == 400 * 5)
check("and k asks for it", base.set_params(proba="dense").predict_proba(Xt, k=2).nnz == 400 * 2)
raises("a form that is not there", ValueError, "proba: 'x' is not one of auto, dense, csr",
       base.set_params(proba="x").predict_proba, Xt)
base.set_params(proba="auto")
many = small(epochs=1).partial_fit(X, [i % 400 for i in range(400)], classes=range(1001))
check("many classes are CSR by themselves", sp.issparse(many.predict_proba(Xt)) and
      isinstance(many.set_params(proba="dense").predict_proba(Xt[:3]), np.ndarray))
check("what sparse prediction did not find is nobody's", np.array_equal(_spread(np.array([[2, -1], [0, 1]]), np.array(
    [[0.5, 0.9], [0.7, 0.1]]), 3, -np.inf), [[-np.inf, -np.inf, 0.5], [0.7, 0.1, -np.inf]]))

# ---- names of columns ----
names = [f"column {i}" for i in range(60)]
frame = small(epochs=2).fit(Frame(X.toarray(), names), first)
check("feature_names_in_", frame.feature_names_in_.tolist() == names and frame.feature_names_in_.dtype == object and
      frame.n_features_in_ == 60 and not hasattr(single, "feature_names_in_"))
check("the same columns", np.array_equal(frame.predict(Frame(Xt.toarray(), names)), frame.predict_top(Frame(Xt.toarray(), names), 1)[0][:, 0]))
raises("another order of columns", ValueError, "must be in the same order as they were in fit", frame.predict,
       Frame(Xt.toarray(), names[::-1]))
raises("another column", ValueError, "unseen at fit time:\n- other\n.*\n- column 3\n", frame.predict,
       Frame(Xt.toarray(), ["other" if i == 3 else n for i, n in enumerate(names)]))
raises("names of two kinds", TypeError, "only supported if all input features have string names", small().fit,
       Frame(X.toarray(), [1] + names[1:]), first)
for name, m, rows, words in (("names at fit alone", frame, Xt, "X does not have valid feature names"),
                             ("names at prediction alone", single, Frame(Xt.toarray(), names), "X has feature names, but")):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        m.predict(rows)
    check(f"{name}: a warning", len(seen) == 1 and words in str(seen[0].message), [str(w.message) for w in seen])
check("a pickle keeps them", pickle.loads(pickle.dumps(frame)).feature_names_in_.tolist() == names)
frame.partial_fit(Frame(np.hstack([X.toarray(), np.eye(400, 1)]), names + ["new"]), first)
check("partial_fit takes further ones", frame.feature_names_in_.tolist() == names + ["new"])
raises("partial_fit with another order", ValueError, "same order", frame.partial_fit, Frame(np.hstack(
    [X.toarray(), np.eye(400, 1)]), ["new"] + names), first)
frame.fit(X, first)
check("fit without names forgets them", not hasattr(frame, "feature_names_in_") and frame.predict(Xt).shape == (400,))
if pandas:
    m = small(epochs=2).fit(pandas.DataFrame(X.toarray(), columns=names), pandas.Series(first))
    raises("pandas: another order", ValueError, "same order", m.predict, pandas.DataFrame(Xt.toarray(), columns=names)[names[::-1]])
    check("pandas: numbers as names", not hasattr(small(epochs=1).fit(pandas.DataFrame(X.toarray()), first), "feature_names_in_"))

# ---- weights ----
odd = np.array([row[0] % 2 for row in lists])  # rows are doubled: one copy says the truth, one a lie
A, y = sp.vstack([X, X]).tocsr(), np.concatenate([odd, 1 - odd])
truth = np.concatenate([np.ones(400), np.zeros(400)])
right = small(epochs=20).fit(A, y, sample_weight=truth).score(X, odd)
wrong = small(epochs=20).fit(A, y, sample_weight=1 - truth).score(X, odd)
check("sample_weight: rows of weight 0 teach nothing", right > 0.9 and wrong < 0.1, (right, wrong))
m = small(epochs=20).partial_fit(A, y, sample_weight=truth.tolist())
check("partial_fit takes it", m.score(X, odd) > 0.9, m.score(X, odd))
check("score takes it", m.score(A, y, sample_weight=truth) == m.score(X, odd) and abs(m.score(A, y) - 0.5) < 1e-9)
check("a Series of weights", small(epochs=20).fit(A, y, sample_weight=Series(truth.tolist())).score(X, odd) > 0.9)
raises("too few weights", ValueError, r"sample_weight has the shape \(3,\).*expected \(800,\)", small().fit, A, y, sample_weight=[1, 2, 3])
raises("a table of weights", ValueError, r"shape \(800, 1\)", small().fit, A, y, sample_weight=truth[:, None])
raises("a negative weight", ValueError, "row 5: its weight is -1", small().fit, A, y,
       sample_weight=np.where(np.arange(800) == 5, -1, 1))
blind = sp.csr_matrix(np.ones((400, 1)))  # nothing to learn from but how often a class is there
rare = np.array(["rare"] * 100 + ["often"] * 300)
for weight, want in ((None, "often"), ({"rare": 9}, "rare"), ({"rare": 0.1, "often": 1}, "often")):
    m = small(class_weight=weight, epochs=30).fit(blind, rare)
    check(f"class_weight {weight}: {want}", m.predict(blind[:1]) == [want], m.predict_top(blind[:1]))
even = small(class_weight="balanced", epochs=30, scores="raw").fit(blind, rare).predict_proba(blind[:1])
check("class_weight 'balanced': both alike", abs(even[0, 0] - 0.5) < 0.1, even)
raises("a weight for no class", ValueError, "class_weight: 'x' is not one of the 2 classes", small(class_weight={"x": 1}).fit,
       blind, rare)
with tempfile.TemporaryDirectory() as folder:
    at = os.path.join(folder, "rows.txt")
    with open(at, "w") as f:
        f.write("40 1 2\n" + "".join(f"{int(i >= 10)} 0:1\n" for i in range(40)))
    m = small(class_weight={0: 20}, epochs=30, cache="-").fit(at)
    check("class_weight for a file", m.predict_top(blind[:1], 1)[0] == [[0]], m.predict_top(blind[:1]))

# ---- keywords of other libraries ----
for there, here in (("n_jobs", "threads"), ("random_state", "seed"), ("verbose", "progress=True"), ("max_iter", "epochs")):
    raises(f"{there}", TypeError, f"'{there}'; wisp's keyword for it is {here}", wisp.WispClassifier, **{there: 1})
raises("set_params(n_jobs)", ValueError, "Invalid parameter 'n_jobs'.*keyword for it is threads", small().set_params, n_jobs=1)
raises("a keyword that is nearly right", TypeError, "'epoch'; did you mean 'epochs'", wisp.WispClassifier, epoch=1)

# ---- arrays that do not go together ----
def broken(**parts):
    M = X[:4].copy()
    for name, value in parts.items():
        setattr(M, name, value)
    return M


start = X[:4].indptr
for name, M, words in (
        ("offsets beyond the ids", broken(indptr=np.append(start[:-1], 10**6).astype(np.int32)), "goes from 0 to 1000000"),
        ("fewer values than ids", broken(data=X[:4].data[:2]), "2 values"),
        ("too few offsets", broken(indptr=start[:-1]), "4 entries"),
        ("offsets that do not begin at 0", broken(indptr=start + 1), "goes from 1 to"),
        ("offsets that fall", broken(indptr=np.array([0, 3, 1, 5, start[-1]], dtype=np.int32)), "must not fall|falls after row 1")):
    raises(f"{name}: fit", ValueError, words, small().fit, M, lists[:4])
    raises(f"{name}: predict", ValueError, words, base.predict, M)
    words += "|index pointer|indices and data"  # scipy may say it first
    raises(f"{name}: SparseNetwork", ValueError, words, wisp.SparseNetwork([sp.identity(60, format="csr")]).run, M)
    raises(f"{name}: a layer", ValueError, words, wisp.SparseNetwork().add, M)
    raises(f"{name}: labels", ValueError, words, small().fit, X[:4], M)
big = broken(data=X[:4].data.astype(">f4"), indices=X[:4].indices.astype(">i4"))
check("numbers in the other order of bytes", np.array_equal(base.predict_top(big)[1], base.predict_top(X[:4])[1]))

# ---- who may read a saved model ----
with tempfile.TemporaryDirectory() as folder:
    at, seen, real = os.path.join(folder, "model"), [], os.umask

    def spy(mask):
        seen.append(mask)
        return real(mask)

    before = real(0o027)
    os.umask = spy
    try:
        base.save(at)
        check("the umask of the process is left alone", not seen, seen)
        check("and obeyed", stat.S_IMODE(os.stat(at).st_mode) == 0o640, oct(os.stat(at).st_mode))
        os.chmod(at, 0o600)
        base.save(at)
        check("a file that only its owner may read stays so", stat.S_IMODE(os.stat(at).st_mode) == 0o600, oct(os.stat(at).st_mode))
    finally:
        os.umask = real
        real(before)
    check("nothing else is left", os.listdir(folder) == ["model"], os.listdir(folder))
end()
