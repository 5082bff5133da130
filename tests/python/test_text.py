"""Text in, names out: fit and predict with str in lists, arrays and Series; models of the command; what is a file and what is
not."""
import pathlib
import pickle
import tempfile

from rig import *

COLOURS = {"red": ("Apple", "wine", "rose"), "green": ("tea", "grass", "leaf"), "blue": ("sky", "sea", "jeans")}
r = np.random.RandomState(4)


def sentences(n):
    """Texts that tell their colours, with capitals, punctuation and words that say nothing; and lists of colours."""
    texts, labels = [], []
    for i in range(n):
        colours = sorted(r.choice(list(COLOURS), 1 + i % 2, replace=False).tolist())
        words = [r.choice(COLOURS[c]) for c in colours] + [f"word{r.randint(40)}"]
        texts.append(", ".join(w.upper() if r.rand() < 0.3 else w for w in words) + ("?" if i % 3 else "\n second line"))
        labels.append(colours)
    return texts, labels


texts, lists = sentences(400)
texts_t, lists_t = sentences(200)
model = small(epochs=20).fit(texts, lists)
check("it learns", model.score(texts_t, lists_t) > 0.95, model.score(texts_t, lists_t))
names, scores = model.predict_top("An APPLE, on the grass!")
check("a str is one text", names.shape == (1, 3) and set(names[0, :2]) == {"red", "green"}, (names, scores))
check("predict, predict_proba, decision_function", model.predict("tea").toarray().tolist() == [[0, 1, 0]] and
      model.predict_proba(["tea", "sky"]).argmax(axis=1).tolist() == [1, 0] and model.decision_function(["wine"]).argmax() == 2,
      model.classes_)
want = model.predict_top(texts_t)
forms = [("a tuple", tuple(texts_t)), ("an array of str", np.array(texts_t)), ("an array of objects", np.array(texts_t, dtype=object)),
         ("a Series", Series(texts_t))]
try:
    import pandas

    forms.append(("pandas' Series", pandas.Series(texts_t)))
except ImportError:
    skip("pandas is not installed: no Series of its own")
for name, form in forms:
    got = model.predict_top(form)
    check(f"{name} predicts the same", np.array_equal(got[0], want[0]) and np.array_equal(got[1], want[1]))
    m = small(epochs=20).fit(form, lists_t)
    check(f"{name} trains the same", m._fitted.model.bytes() == small(epochs=20).fit(texts_t, lists_t)._fitted.model.bytes())
one = [model.predict_top(t) for t in texts_t[:50]]
check("one by one the same, but for rounding", all(np.array_equal(a[0], b) and np.allclose(s[0], t, rtol=1e-4, atol=1e-7)
                                                   for (a, s), b, t in zip(one, want[0], want[1])))
odd = ["", "\n", "a\0b", "sky\nsea\nsky", "\u4e2d\u6587 \u00c9t\u00e9 sky", "x" * 100_000, "__label__red sky", "1:2 3:4", "# sky"]
names, scores = model.predict_top(odd, 1)
check("one answer for each text, whatever is in it", len(names) == len(odd) and
      all(names[i, 0] == "blue" for i in (3, 4, 6, 8)), names.ravel())
single = small(epochs=20).fit(texts, [row[0] for row in lists])
check("one class for each text", single.predict("jeans") == ["blue"] and np.allclose(single.predict_proba("jeans").sum(), 1))
check("a pickle keeps it", np.array_equal(pickle.loads(pickle.dumps(model)).predict_top(texts_t)[1], want[1]))
valid = small(epochs=20, patience=0).fit(texts, lists, texts_t, lists_t)
check("validation texts", abs(valid.report_["valid_p@1"] - 100 * valid.score(texts_t, lists_t)) < 0.01, valid.report_)
grown = small(epochs=20).fit(texts, lists)
n = grown.n_features_in_
grown.partial_fit(["coal and night", "night, coal", "coal night red wine"] * 30, [["black"]] * 90)
check("partial_fit takes new words and labels", grown.n_features_in_ > n and grown.classes_.tolist() ==
      ["blue", "green", "red", "black"] and grown.predict_top("COAL", 1)[0] == [["black"]] and
      grown.predict_top("the sky", 1)[0] == [["blue"]], (grown.predict_top("COAL"), grown.predict_top("the sky")))
check("weights", small(epochs=20).fit(texts * 2, lists + [["red"]] * 400, sample_weight=[1] * 400 + [0] * 400)
      .score(texts_t, lists_t) > 0.9)
chars = small(epochs=20, chars="3-4", pairs=True).fit(texts, lists)
check("how it is cut is the model's own", chars.n_features_in_ > n and
      chars.predict_top("applesauce", 1)[0] == [["red"]], chars.predict_top("applesauce"))

# ---- files, and the command ----
with tempfile.TemporaryDirectory() as folder:
    at, rows = os.path.join(folder, "model"), os.path.join(folder, "rows.txt")
    model.save(at)
    again = wisp.WispClassifier.load(at)
    check("saved and loaded", np.array_equal(again.predict_top(texts_t)[0], want[0]))
    lines = [t.replace("\n", " ") for t in texts_t]
    said = subprocess.run([os.path.join(build, "wisp"), "predict", at, "-", "-k", "1"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True)
    check("the command answers the same", [line.rpartition(":")[0] for line in said.stdout.splitlines()] ==
          model.predict_top(lines, 1)[0][:, 0].tolist(), said.stdout[:100] + said.stderr)
    with open(rows, "w") as f:
        f.writelines("".join(f"__label__{x} " for x in row) + text.replace("\n", " ") + "\n" for text, row in zip(texts, lists))
    trained = subprocess.run([os.path.join(build, "wisp"), "train", rows, "-o", at, "--cache", "-", "--hidden", "16", "--epochs",
                              "20", "--batch", "32", "--lr", "0.02"], capture_output=True, text=True)
    of_command = wisp.WispClassifier.load(at)
    check("a model of the command takes text", trained.returncode == 0 and
          of_command.predict_top("on the GRASS", 1)[0] == [["green"]] and of_command.score(texts_t, lists_t) > 0.9, trained.stderr)
    check("a path object is a file", len(of_command.predict_top(pathlib.Path(rows))[0]) == 400)
    check("a str never is", len(of_command.predict_top(rows)[0]) == 1)
    check("but fit without labels takes it for a path", small(cache="-", epochs=1).fit(rows).n_features_in_ > 10)

# ---- what is refused ----
X, Y = planted()
numbers = small(epochs=1).fit(X, Y)
raises("text for a model of numbers", ValueError, "X is text, but this model was trained on numbers$", numbers.predict, ["a", "b"])
raises("no text at all", ValueError, "X is an empty list, expected one text or more", model.predict, [])
raises("a folder that is not there", FileNotFoundError, "'/nosuch/model'$", model.save, "/nosuch/model")
raises("a path as a str", ValueError, r"trained on numbers; for a file pass pathlib.Path\('rows.txt'\)", numbers.predict, "rows.txt")
raises("text that has no labels", ValueError, "requires y", small().fit, ["a", "b"])
raises("too few labels", ValueError, r"inconsistent numbers of samples: \[400, 3\]", small().fit, texts, lists[:3])
for gap in None, float("nan"):
    raises(f"{gap} among classes", ValueError, "Y contains NaN or None: row 1", small().fit, ["a", "b", "c"], ["x", gap, "y"])
    raises(f"{gap} among labels", ValueError, "Y contains NaN or None: row 2", small().fit, ["a", "b", "c"], [["x"], [], [gap]])
raises("a gap among classes of a Series", ValueError, "Y contains NaN or None: row 1", small().fit, ["a", "b"], np.array(["x", None], dtype=object))
raises("a gap among texts", ValueError, "row 2 of X is None, expected text", small().fit, ["a", "b", None], [0, 1, 0])
raises("a number among texts", ValueError, "row 0 of X is nan, expected text", model.predict, Series([float("nan"), "b"]))
raises("half a character", ValueError, "surrogates not allowed", model.predict, "\ud800")
raises("going on with text from numbers", ValueError, "text|numbered", numbers.partial_fit, texts, [[i % 8] for i in range(400)])
end()
