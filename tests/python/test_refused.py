"""Arguments that do not go together, or say something else than what was meant: refused, not ignored or taken for something
else without a word.  Beside each what is right and must stay so."""
import copy
import pathlib
import tempfile
import warnings

from rig import *
from wisp.client import _rows as rows_of_client

X, lists = planted(n=120)
classes = np.array([row[0] for row in lists])
names = [f"column {i}" for i in range(60)]
table = Frame(X.toarray(), names)
brief = dict(epochs=2)

# ---- rows to validate ----
turned = Frame(X.toarray()[:, ::-1], names[::-1])
for how in ("fit", "prune"):
    run = getattr(small(**brief), how)
    raises(f"{how}: X_valid with other columns", ValueError, "names of X_valid should match.*\n.*\n- other\n", run, table, classes,
           Frame(X.toarray(), ["other"] + names[1:]), classes)
    raises(f"{how}: X_valid with columns in another order", ValueError, "names of X_valid should match.*\n.*same order", run,
           table, classes, turned, classes)
    raises(f"{how}: X_valid with fewer columns", ValueError, "X_valid has 20 features.*expecting 60", run, X, classes, X[:, :20],
           classes)
    raises(f"{how}: X_valid with more columns", ValueError, "X_valid has 120 features.*expecting 60", run, X, classes,
           sp.hstack([X, X]).tocsr(), classes)
    raises(f"{how}: Y_valid without X_valid", ValueError, "Y_valid.*X_valid.*is None", run, X, classes, Y_valid=classes)
    raises(f"{how}: X_valid without Y_valid", ValueError, "X_valid.*Y_valid.*is None", run, X, classes, X)
fitted = small(patience=0, **brief).fit(table, classes, table, classes)
check("X_valid with the same columns", abs(fitted.report_["valid_p@1"] - 100 * fitted.score(table, classes)) < 0.01, fitted.report_)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    small(**brief).fit(table, classes, X, classes)
check("X_valid without names: a warning", len(seen) == 1 and "X_valid does not have valid feature names" in str(seen[0].message),
      [str(w.message) for w in seen])
words, images = ["red apple", "green tea"] * 60, (X.toarray()[:, :36] * 50).astype(np.uint8).reshape(120, 6, 6)
for name, rows, other, said in (("numbers for text", words, X, "X_valid is numbers.*X is text"),
                                ("text for numbers", X, words, "X_valid is text.*X is numbers"),
                                ("images for numbers", X, images, "X_valid is images.*X is numbers"),
                                ("numbers for images", images, X[:, :36], "X_valid is numbers.*X is images")):
    raises(f"X_valid: {name}", ValueError, said, small(**brief).fit, rows, classes, other, classes)
raises("NaN in X_valid", ValueError, "X_valid: .*NaN", small(**brief).fit, X, classes, X * np.nan, classes)
raises("Y_valid is too short", ValueError, r"Y_valid: .*\[120, 3\]", small(**brief).fit, X, classes, X, classes[:3])
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "rows.txt"
    path.write_text("4 60 8\n" + "0 0:1\n1 3:1\n" * 2)
    file = small(cache="-", **brief)
    raises("Y_valid beside a file", ValueError, "X_valid is a file.*Y_valid must be None", file.fit, path, None, path, classes[:4])
    raises("Y_valid without X_valid, of a file", ValueError, "Y_valid.*X_valid.*is None", file.fit, path, Y_valid=classes[:4])
    check("a file to validate with", "valid_p@1" in file.fit(path, X_valid=path).report_)
    check("a file to validate arrays with", "valid_p@1" in file.fit(X, classes, path).report_)

# ---- indicator matrices ----
def indicator(value):
    """Row 1 has this beside label 2."""
    Y = np.eye(8)[classes]
    Y[1, 2] = value
    return Y


known = small(**brief).fit(X, indicator(1))
for form, make in (("an array", np.asarray), ("floats", np.float32), ("CSR", sp.csr_matrix), ("COO", sp.coo_matrix)):
    for value, said in ((np.nan, "nan"), (np.inf, "inf"), (-1, "-1")):
        for name, run in (("fit", small(**brief).fit), ("score", known.score), ("choose_thresholds", known.choose_thresholds)):
            raises(f"{said} in an indicator, {form}: {name}", ValueError, f"row 1, column 2.* is {said}", run, X, make(indicator(value)))
    check(f"1.5 in an indicator, {form}", small(**brief).fit(X, make(indicator(1.5))).score(X, indicator(1)) == known.score(X, indicator(1)))
raises("NaN in Y_valid", ValueError, "Y_valid: .*row 1, column 2.* is nan", small(**brief).fit, X, classes, X, indicator(np.nan))
raises("complex numbers in an indicator", ValueError, "complex128, expected", small(**brief).fit, X, sp.csr_matrix(indicator(1) * 1j))
raises("NaN among classes that are numbers", ValueError, "Y contains NaN or infinity: row 1", small(**brief).fit, X,
       np.where(np.arange(120) == 1, np.nan, classes))

# ---- labels of another kind than the classes ----
text = small(**brief).fit(X, [[f"label {i}" for i in row] for row in lists])
numbers = small(**brief).fit(X, lists)
tuples = small(**brief).fit(X, [[("a", i) for i in row] for row in lists])
with tempfile.TemporaryDirectory() as folder:
    text.save(os.path.join(folder, "text"))
    tuples.save(os.path.join(folder, "tuples"))
    loaded = wisp.WispClassifier.load(os.path.join(folder, "text"))
    loaded_tuples = wisp.WispClassifier.load(os.path.join(folder, "tuples"))
for name, model, labels, said in (
        ("text, of numbers", numbers, classes.astype(str), r"text \('0'\).*numbers \(0\).*astype\(int\)"),
        ("text, of decimals", small(**brief).fit(X, classes * 1.0), classes.astype(str), r"text \('0'\).*numbers \(0.0\)"),
        ("lists of text, of numbers", numbers, [[str(i)] for i in classes], r"text \('0'\).*numbers \(0\)"),
        ("text, of truth values", small(**brief).fit(X, classes > 3), (classes > 3).astype(str), r"text \('False'\).*numbers \(False\)"),
        ("numbers, of text", text, classes, r"numbers \(0\).*text \('label 0'\).*astype\(str\)"),
        ("truth values, of text", text, classes > 3, r"numbers \(False\).*text \('label 0'\)"),
        ("numbers, of text from a file", loaded, classes, r"numbers \(0\).*text \('label 0'\)"),
        ("bytes, of text", text, classes.astype("S"), r"bytes \(b'0'\).*text \('label 0'\)"),
        ("tuples, of text from a file", loaded_tuples, [[("a", i)] for i in classes.tolist()], r"tuple \(\('a', 0\)\).*text")):
    raises(f"{name}: score", ValueError, said, model.score, X, labels)
    raises(f"{name}: partial_fit", ValueError, said, model.partial_fit, X, labels) if isinstance(labels, list) else None
    raises(f"{name}: choose_thresholds", ValueError, said, model.choose_thresholds, X, labels) if model.multilabel_ else None
raises("Y_valid of another kind", ValueError, "Y_valid: .*text.*numbers", small(**brief).fit, X, classes, X, classes.astype(str))
raises("classes of another kind than Y", ValueError, "numbers.*text", small(**brief).partial_fit, X, classes, classes=["a", "b"])
check("labels of the same kind that it does not know are misses", text.score(X, ["unknown"] * 120) == numbers.score(X, classes + 10) == 0)
check("one that it knows is enough", numbers.score(X, [[i, "x"] for i in classes]) == numbers.score(X, classes))
check("rows without labels have no kind", text.score(X, [[]] * 120) == 0)
check("whole numbers and decimals are one kind", numbers.score(X, classes * 1.0) == numbers.score(X, classes))

# ---- how many ----
for k, said in ((0, "0"), (-1, "-1"), (2.5, "2.5"), (np.nan, "nan"), ("x", "'x'"), (True, "True"), ([2], r"\[2\]")):
    for name, run in (("predict_top", numbers.predict_top), ("predict_proba", numbers.predict_proba), ("explain", numbers.explain)):
        raises(f"{name}(k={k!r})", ValueError, f"k: found {said}, expected a whole number, 1 or more", run, X[:2], k=k)
    raises(f"the parameter k={k!r}", ValueError, f"k: found {said}, expected a whole number, 1", small(k=k, **brief).fit(X, lists).predict_top, X)
    if k != 0:
        raises(f"explain(features={k!r})", ValueError, f"features: found {said}, expected a whole number, 0 or more", numbers.explain,
               X[:2], features=k)
raises("the parameter k=None", ValueError, "k: found None", small(k=None, **brief).fit(X, lists).predict_top, X)
raises("explain(k=None)", ValueError, "k: found None", numbers.explain, X[:1], k=None)
for k in (2, np.int64(2), 2.0, "2"):
    check(f"k={k!r} is 2", numbers.predict_top(X, k=k)[0].shape == (120, 2) and len(numbers.explain(X[:1], k=k)[0]) == 2 and
          len(numbers.explain(X[:1], features=k)[0][0].reasons) == 2)
check("k beyond the classes is all", numbers.predict_top(X, k=100)[0].shape == (120, 8) and len(numbers.explain(X[:1], k=100)[0]) == 8)
check("features=0 is none", numbers.explain(X[:1], features=0)[0][0].reasons == [])
for threads, said in ((2.5, "2.5"), (-1, "-1"), (None, "None"), ("x", "'x'")):
    said = f"threads: .*{said}"
    raises(f"threads={threads!r}: fit", ValueError, said, small(threads=threads, **brief).fit, X, lists)
    numbers.set_params(threads=threads)
    raises(f"threads={threads!r}: predict", ValueError, said, numbers.predict, X)
    raises(f"threads={threads!r}: SparseNetwork", ValueError, said,
           wisp.SparseNetwork([sp.identity(60, format="csr")], threads=threads).run, X)
numbers.set_params(threads=2)

# ---- from which probability on ----
for threshold, said in ((50, "50 is not in 0..1"), (-0.1, "-0.1 is not in 0..1"), (np.nan, "nan"), ("x", "'x' is not a number"),
                        ("Model", "'Model' is not a number"), (True, "'yes' is not a number")):
    raises(f"threshold={threshold!r}", ValueError, f"threshold: .*{said}", copy.deepcopy(numbers).set_params(threshold=threshold).predict, X)
for threshold in 0, 0.0, np.float32(0), "0", 1:
    check(f"threshold={threshold!r}", copy.deepcopy(numbers).set_params(threshold=threshold).predict(X).nnz == 960 * (threshold != 1))

# ---- weights ----
ones = np.ones(120)
for name, weights, said in (("too few", [1, 2], r"shape \(2,\).*expected \(120,\)"), ("a column", ones[:, None], r"shape \(120, 1\)"),
                            ("one number", 2.0, r"shape \(\)"), ("text", ["1"] * 120, "type <U1"),
                            ("NaN", np.where(np.arange(120) == 3, np.nan, 1), "row 3: its weight is nan"),
                            ("None", [None] + [1] * 119, "row 0: its weight is nan"), ("infinity", ones * np.inf, "row 0: its weight is inf"),
                            ("less than 0", np.where(np.arange(120) % 2, -1, 2), "row 1: its weight is -1"),
                            ("nothing but 0", 0 * ones, "weights of all rows are zero")):
    raises(f"sample_weight, {name}: fit", ValueError, said, small(**brief).fit, X, classes, sample_weight=weights)
    raises(f"sample_weight, {name}: score", ValueError, said, numbers.score, X, classes, sample_weight=weights)
check("sample_weight of truth values", numbers.score(X, classes, sample_weight=np.arange(120) < 60) == numbers.score(X[:60], classes[:60]))

# ---- classes that are to come ----
for name, given, said in (("one text", "abc", "classes: found 'abc'.*expected"), ("a number", 9, "classes: found 9.*expected"),
                          ("None", [0, None], "classes: .*None"), ("NaN", [0, np.nan], "classes: .*NaN"),
                          ("a table", [[0, 1], [2, 3]], "hashable"), ("an array of two dimensions", np.eye(2), r"classes: found array"),
                          ("text for a model of numbers", ["z"], "'z' is of another kind")):
    run = copy.deepcopy(numbers) if "model" in name else small(**brief)
    raises(f"classes, {name}", ValueError, said, run.partial_fit, X, lists, classes=given)
for name, Y, given, want in (
        ("text and numbers", [["a", 1]] * 120, ["b", 1, "a"], [1, "a", "b"]), ("a set", lists, set(range(9)), list(range(9))),
        ("tuples", [[("a", 1)]] * 120, [("a", 2), ("a", 1)], [("a", 1), ("a", 2)]), ("a range", lists, range(9), list(range(9))),
        ("an array", lists, np.arange(9), list(range(9))), ("numpy's numbers", lists, list(np.arange(9)), list(range(9))),
        ("a Series", [["a"]] * 120, Series(["b", "a"]), ["a", "b"]), ("labels twice", [["a"]] * 120, ["b", "a", "b"], ["a", "b"])):
    m = small(**brief).partial_fit(X, Y, classes=given)
    check(f"classes, {name}", m.classes_.tolist() == want, m.classes_)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "rows.txt"
    path.write_text("4 60 8\n" + "0 0:1\n1 3:1\n" * 2)
    raises("classes beside a file", ValueError, "a file.*classes must be None", small(cache="-", **brief).partial_fit, path, classes=[0, 1])

# ---- labels in lists: numpy's numbers, and text beside numbers ----
few = small(**brief).fit(X, [[np.int64(i)] for i in classes])
check("numpy's numbers in lists are numbers", few.partial_fit(X, [[np.int64(9), np.int32(11)]] * 120).classes_.tolist()[8:] == [9, 11], few.classes_)
for name, Y in (("a list", ["1", 1] * 60), ("a tuple", ("1", 1) * 60), ("an array", np.array(["1", 1] * 60, dtype=object)),
                ("a Series", Series(["1", 1] * 60)), ("lists", [["1"], [1]] * 60)):
    check(f"'1' and 1 in {name} are two classes", small(**brief).fit(X, Y).classes_.tolist() == [1, "1"], small(**brief).fit(X, Y).classes_)
raises("complex NaN among labels", ValueError, "NaN", small(**brief).fit, X, np.where(classes == 1, np.nan + 0j, classes))

# ---- a label to explain ----
for name, model, label, said in (("text, of numbers", numbers, "1", "'1' is not one of the 8 classes, which are numbers"),
                                 ("a number, of text", text, 1, "1 is not one of the 8 classes, which are text"),
                                 ("unknown", numbers, 9, "9 is not one of the 8 classes"), ("NaN", numbers, np.nan, "nan is not one"),
                                 ("a list", numbers, [1], r"\[1\] is not one"), ("two", numbers, [1, 2], r"\[1, 2\] is not one"),
                                 ("an array", numbers, np.array([9, 1, 9, 9, 9, 9, 9, 9]), r"array\(.* is not one")):
    raises(f"explain, a label that is {name}", ValueError, f"label: {said}", model.explain, X[:1], label=label)
check("explain, a label that is a tuple", small(**brief).fit(X, [[("a", int(i))] for i in classes]).explain(X[:1], label=("a", 1))[0][0].label == ("a", 1))

# ---- names of columns stay ----
grown = small(**brief).fit(table, classes)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    grown.partial_fit(X, classes)
check("partial_fit without names keeps them", getattr(grown, "feature_names_in_", np.array([])).tolist() == names)
raises("and so their order", ValueError, "same order", grown.predict, turned)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    grown.partial_fit(sp.hstack([X, X]).tocsr(), classes)
check("further columns without names: there are none", not hasattr(grown, "feature_names_in_"))

# ---- options that are switches ----
for value, want in (("no", 4), ("0", 4), (False, 4), (None, 4), (0, 4), (np.False_, 4), ("yes", 6), (True, 6), (1, 6), (np.True_, 6)):
    n = small(pairs=value, chars="0", min_count=0, **brief).fit(words, classes).n_features_in_
    check(f"pairs={value!r}", n == want, n)
raises("a switch that is neither on nor off", ValueError, "pairs: 'perhaps' is not yes or no", small(pairs="perhaps", **brief).fit, words, classes)

# ---- arrays with places that are masked ----
one = np.zeros((120, 1), dtype=bool)
one[1] = True


def masked(A, mask=one):
    return np.ma.array(A, mask=np.broadcast_to(mask.reshape((-1,) + (1,) * (A.ndim - 1)), A.shape))


for name, arguments, weights in (("X", (masked(X.toarray()), classes), None), ("X", (masked(images), classes), None), ("Y", (X, masked(classes)), None),
                                 ("Y", (X, masked(indicator(1))), None), ("sample_weight", (X, classes), masked(ones))):
    raises(f"masked: {name}", ValueError, f"{name} is masked in row 1", small(**brief).fit, *arguments, sample_weight=weights)
check("nothing is masked", small(**brief).fit(masked(X.toarray(), ~np.ones_like(one)), masked(classes, ~np.ones_like(one))).score(X, classes) ==
      small(**brief).fit(X, classes).score(X, classes))

# ---- SparseNetwork ----
square = sp.identity(4, format="csr")
raises("biases without layers", ValueError, "biases.*no weights.*add", wisp.SparseNetwork, biases=-0.1)
raises("linear without layers", ValueError, "linear.*no weights.*add", wisp.SparseNetwork, linear=True)
raises("too few biases of a layer", ValueError, r"layer 0: .*shape \(3,\).*expected.*\(4,\)", wisp.SparseNetwork, [square], [np.ones(3)])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    raises("complex weights", ValueError, "complex", wisp.SparseNetwork, [square * 1j])
    raises("complex inputs", ValueError, "complex", wisp.SparseNetwork([square]).run, np.ones((1, 4)) * 1j)
check("one bias for a layer", wisp.SparseNetwork().add(square, 1).run(np.ones((1, 4))).tolist() == [[2] * 4])


# ---- the client ----
class Table(Frame):
    """As DataFrames are: going through one gives the names of its columns."""

    def __iter__(self):
        return iter(self.columns)

    def to_numpy(self):
        return self.array


check("a table is its rows, not the names of its columns", rows_of_client(Table(np.array([[0, 2.5]]), ["a", "b"])) ==
      {"rows": [{"ids": [1], "values": [2.5]}]}, rows_of_client(Table(np.array([[0, 2.5]]), ["a", "b"])))
end()
