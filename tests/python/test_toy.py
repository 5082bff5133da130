"""The README's example and a table of whole numbers, as a first-time user runs them: the answers are right, and sure."""
from rig import *

X = sp.csr_matrix([[1, 0, 2], [0, 1, 0], [1, 0, 1], [0, 3, 0]] * 25)
Y = [["fruit", "red"], ["tool"], ["fruit"], ["tool"]] * 25
for keywords in {}, {"hidden": 64, "epochs": 20}, {"hidden": 64, "epochs": 20, "seed": 2}, {"seed": 3}:
    model = wisp.WispClassifier(**keywords).fit(X, Y)
    labels, scores = model.predict_top(X, k=3)
    sure = [{label for label, score in zip(*row) if score >= 0.9} for row in zip(labels, scores)]
    out = [{label for label, score in zip(*row) if score <= 0.1} for row in zip(labels, scores)]
    names = {"fruit", "red", "tool"}
    check(f"the README's example, {keywords}", all(s == set(y) and o == names - set(y) for s, o, y in zip(sure, out, Y)),
          (labels[:4], scores[:4]))

random = np.random.RandomState(5)
A = random.randint(1, 50, (1500, 4))
y = A.argmax(axis=1)
for name, rows in ("whole numbers", A), ("floats", A * 0.37 - 5), ("flags beside them", np.hstack([A, A[:, :1] > 25])):
    model = wisp.WispClassifier(seed=1, hidden=128).fit(rows[:1000], y[:1000])
    right = (model.predict(rows[1000:]) == y[1000:]).mean()
    check(f"a table of {name}", right > 0.92, right)

weight = np.where(y[:1000] == 0, 1.0, 0.0)
model = wisp.WispClassifier(seed=1, hidden=32).fit(A[:1000], y[:1000], sample_weight=weight)
check("rows of weight 0 are not learnt", (model.predict(A[1000:]) == 0).all(), model.predict(A[1000:])[:20])
end()
