"""wisp.prune and WispClassifier.prune: networks that become small."""
from rig import *

import tempfile

X, Y = planted(n=1200)
X, Y = X[::2], Y[::2]  # those with one label
y = [row[0] for row in Y]
folder = tempfile.mkdtemp()
path = os.path.join(folder, "small")
how = dict(net="dense 48, relu, dense 48, relu", epochs=12, batch=16, holdout=0.2, seed=3, group_penalty=0.005)

small = wisp.prune(X, y, target_accuracy_drop=5, **how)
report = small.report_
check("a classifier", isinstance(small, wisp.WispClassifier) and small.predict(X).shape == (X.shape[0],))
check("a report", report["weights_ratio"] > 1.2 and report["accuracy_drop"] <= 5 and report["time_ratio"] > 0, report)
check("all that were tried", [r["weights"] for r in report["frontier"]][0] == report["weights_before"] and
      report["weights"] in [r["weights"] for r in report["frontier"]], report["frontier"])
said = small.describe()
check("what the model says of itself", said["parameters"] == report["weights"] and "width=" in said["net"], said["net"])
check("it predicts", small.score(X, y) > 0.5, small.score(X, y))

again = wisp.WispClassifier(path=path, **how).prune(X, y, target_accuracy_drop=5)
check("the same by the method", again.describe()["net"] == said["net"] and (again.predict(X) == small.predict(X)).all())
check("the model, and a picture", sorted(os.listdir(folder)) == ["small", "small.svg"], os.listdir(folder))
loaded = wisp.WispClassifier.load(path)
check("loaded", (loaded.predict(X) == small.predict(X)).all() and loaded.describe()["net"] == said["net"])

plot = os.path.join(folder, "seen.svg")
thin = wisp.prune(X, y, unstructured=True, plot=plot, target_accuracy_drop=5, **{**how, "group_penalty": 0})
check("single weights", "sparse" in thin.describe()["net"] or thin.report_["weights_ratio"] == 1, thin.describe()["net"])
check("a picture where it is asked for", os.path.getsize(plot) > 1000)

ends = []
wisp.prune(X, y, progress=lambda p: ends.append(p.eta_s) if p.epoch_ended and p.epoch == p.epochs else None, target_accuracy_drop=5, **how)
check("what is left is that of all networks", ends[0] > 0 and len(ends) > 2, ends)

seen = []
stopped = raises("stopped", InterruptedError, "go on with resume=True", wisp.prune, X, y,
                 progress=lambda p: seen.append(p.epoch) or len(seen) > 3, **how)
check("after some progress", len(seen) > 3)
raises("a keyword that is none", TypeError, "did you mean 'target_speedup'", wisp.WispClassifier().prune, X, y, target_speedups=2)
raises("a keyword that is none, of the function", TypeError, "unexpected keyword", wisp.prune, X, y, target_speedups=2)
raises("out of range", ValueError, "target_accuracy_drop", wisp.prune, X, y, target_accuracy_drop=101)
raises("not fitted", ValueError, "not fitted", wisp.WispClassifier().describe)
end()
