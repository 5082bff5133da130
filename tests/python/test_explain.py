"""WispClassifier.explain: rows of every form, sums, names, and what is refused."""
from rig import *

if __name__ == "__main__":
    import numpy as np
    import scipy.sparse as sp
    import wisp


def whole(e):
    """Do the parts add up, and does the gradient tell all?"""
    parts = sum(r.part for r in e.reasons) + e.more_part
    mass = sum(abs(r.part) for r in e.reasons) + abs(e.more_part) + abs(e.bias) + 1e-9
    return abs(parts + e.bias + e.remainder - e.logit) < 1e-9 * (1 + mass) and abs(e.remainder) < 1e-5 * mass


rng = np.random.default_rng(4)
A = rng.random((240, 5))
y = A[:, :4].argmax(axis=1)
m = wisp.WispClassifier(epochs=15, seed=1).fit(A, y)
top, scores = m.predict_top(A[:7], k=2)
found = m.explain(A[:7], k=2)
check("an array: labels and scores are those of predict_top", [[e.label for e in row] for row in found] == top.tolist() and
      np.allclose([[e.score for e in row] for row in found], scores, rtol=1e-4), found[0])
check("an array: sums", all(whole(e) for row in found for e in row), found[0])
check("the column that decides is the first reason", np.mean([row[0].reasons[0].feature == row[0].label for row in
                                                            m.explain(A, k=1)]) > 0.9)
check("CSR gives the same", m.explain(sp.csr_matrix(A[:7]), k=2) == found)
one = m.explain(A[:3], label=2, features=1)
check("one label, one feature", [[(e.label, len(e.reasons), e.more) for e in row] for row in one] == [[(2, 1, 4)]] * 3, one)
check("all features", all(len(e.reasons) == 5 and e.more == 0 for e in m.explain(A[0:1], features=None)[0]))
raises("a label that is not there", ValueError, "9 is not one of the 4 classes", m.explain, A[:1], label=9)
raises("another number of columns", ValueError, "5 features", m.explain, A[:1, :3])
check("predictions after explanations are what they were", (m.predict_top(A[:7], k=2)[1] == scores).all())

texts = [" ".join(rng.choice(w, 6)) for w in (["flour", "dough"], ["broth", "pot"]) * 60]
t = wisp.WispClassifier(epochs=10, chars=0).fit(texts, [["bread"], ["soup"]] * 60)
e = t.explain("DOUGH in a pot")[0][0]
check("text: words", {r.feature for r in e.reasons} == {"dough", "pot"} and whole(e), e)
check("a text without known words", all(x.reasons == [] and whole(x) for x in t.explain("zzz")[0]))

pictures = (rng.random((60, 6, 6)) * 100).astype(np.uint8)
sides = np.arange(60) % 2
pictures[sides == 1, :, 3:] += 100
pictures[sides == 0, :, :3] += 100
p = wisp.WispClassifier(net="image, conv 4 3x3, relu, flatten", epochs=5).fit(pictures, sides)
e = p.explain(pictures[:1], k=1)[0][0]
check("images: parts of pixels", e.pixels.shape == (1, 6, 6) and e.reasons == [] and
      abs(e.pixels.sum() + e.bias + e.remainder - e.logit) < 1e-6 * (1 + np.abs(e.pixels).sum()), e)

try:
    import pandas as pd

    frame = pd.DataFrame(A, columns=["a", "b", "c", "d", "noise"])
    f = wisp.WispClassifier(epochs=15, seed=1).fit(frame, y)
    check("a DataFrame: names of columns", {r.feature for r in f.explain(frame[:1])[0][0].reasons} == set(frame.columns))
except ImportError:
    skip("pandas is not here: names of columns")
end()
