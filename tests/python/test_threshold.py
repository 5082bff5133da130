"""choose_thresholds: rows of every form, what predict gives then, files, and what is refused."""
from rig import *

if __name__ == "__main__":
    import pathlib
    import pickle
    import tempfile

    import numpy as np
    import scipy.sparse as sp
    import wisp

rng = np.random.default_rng(3)
words = ["red", "green", "blue", "black"]


def rows(n):
    labels = [sorted(rng.choice(words, size=1 + i % 2, replace=False)) for i in range(n)]
    return [" ".join(list(rng.choice(l, 3)) + list(rng.choice(words + ["x", "y"], 3))) for l in labels], labels


T, L = rows(600)
V, VL = rows(400)
m = wisp.WispClassifier(epochs=6, chars=0).fit(T, L)
before = m.predict(V)
said = m.choose_thresholds(V, VL, goal="recall=0.95")
after = m.predict(V)
indicator = np.array([[c in row for c in m.classes_] for row in VL])
check("text: the recall that was asked for", said["same_rows_micro_recall"] >= 95 and
      after.toarray()[indicator].mean() >= 0.95 and after.sum() > before.sum(), said)
with tempfile.TemporaryDirectory() as folder:
    m.save(pathlib.Path(folder) / "m")
    again = wisp.WispClassifier.load(pathlib.Path(folder) / "m")
    check("the file has them", (again.predict(V) != after).nnz == 0)
check("a pickle has them", (pickle.loads(pickle.dumps(m)).predict(V) != after).nnz == 0)
check("threshold='model' is the same", (m.set_params(threshold="model").predict(V) != after).nnz == 0)
check("a number wins", (m.set_params(threshold=0.5).predict(V) != before).nnz == 0)
m.set_params(threshold=None)
one = m.choose_thresholds(V, VL, per="one")
check("one for all labels", one["threshold_least"] == one["threshold_most"], one)
check("labels that the model does not know are misses", m.choose_thresholds(V, [row + ["pink"] for row in VL])["micro_recall"] < 70)

X = sp.csr_matrix(rng.random((300, 6)) * (rng.random((300, 6)) > 0.3))
Y = (X.toarray()[:, :3] > 0.5).astype(int)
d = wisp.WispClassifier(epochs=10).fit(X[:200], Y[:200])
check("CSR and an indicator", d.choose_thresholds(X[200:], Y[200:], goal="cost=1:2")["cost"] >= 0 and
      d.predict(X[200:]).shape == (100, 3))
single = wisp.WispClassifier(epochs=3).fit(X[:200], Y[:200, 0])
raises("one class for each row", ValueError, "gives the best", single.choose_thresholds, X[200:], Y[200:, 0])
raises("another goal", ValueError, "expected f1", d.choose_thresholds, X[200:], Y[200:], goal="f2")
plain = wisp.WispClassifier(epochs=3, threshold="model").fit(X[:200], Y[:200])
raises("threshold='model' without any", ValueError, "no thresholds", plain.predict, X)
end()
