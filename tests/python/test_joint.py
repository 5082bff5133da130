"""Several models as one: an ensemble of nets, what 'auto' makes of many rows, and rows with weights, which are a net's."""
import tempfile

from rig import *

X, Y = planted()
model = wisp.WispClassifier(ensemble=3, hidden=8, epochs=6, seed=2).fit(X, Y)
labels, scores = model.predict_top(X, k=2)
check("three nets know the rows", np.mean([label in y for label, y in zip(labels[:, 0], Y)]) > 0.9, labels[:5])
check("scores fall", (scores[:, 0] >= scores[:, 1]).all())
check("of one row the same", np.allclose(model.predict_top(X[5], k=2)[1], scores[5], atol=1e-5))
path = os.path.join(tempfile.mkdtemp(), "joint.wisp")
model.save(path)
again = wisp.WispClassifier.load(path)
check("saved and loaded", (again.predict_top(X, k=2)[1] == scores).all())
more = [y + [99] if i % 9 == 0 else y for i, y in enumerate(Y)]
before = len(model.classes_)
model.partial_fit(X, more)
check("it goes on, with a new label", len(model.classes_) == before + 1 and model.predict_top(X, k=2)[0].shape == labels.shape)
check("and still knows the rows", np.mean([label in y for label, y in zip(model.predict_top(X, k=1)[0][:, 0], more)]) > 0.8)

X, Y = planted(2500, 400, 8)
model = wisp.WispClassifier(seed=1).fit(X, Y)
labels, scores = model.predict_top(X, k=1)
check("many rows", np.mean([label in y for label, y in zip(labels[:, 0], Y)]) > 0.9, labels[:5])
before = len(model.classes_)
model.partial_fit(X, [y + [99] if 0 in y else y for y in Y])
labels, scores = model.predict_top(X, k=3)
check("what 'auto' made goes on, with a new label", len(model.classes_) == before + 1 and
      np.mean([99 in row for row, y in zip(labels.tolist(), Y) if 0 in y]) > 0.8, labels[:5])
weights = np.ones(2500)
weights[[Y[i][0] == 0 for i in range(2500)]] = 0
weighted = wisp.WispClassifier(seed=1).fit(X, Y, sample_weight=weights)
path = os.path.join(os.path.dirname(path), "weighted.wisp")
weighted.save(path)
with open(path, "rb") as f:
    check("rows with weights are a net's", b'"net":"input ' in f.read(10000).replace(b": ", b":"))
end()
