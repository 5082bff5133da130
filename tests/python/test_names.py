"""What classes are called beside files: integers that are no places, words, and files of numbers."""
from rig import *

import json
import pathlib
import tempfile

wisp_command = os.path.join(build, "wisp")

folder = pathlib.Path(tempfile.mkdtemp())
y = np.arange(120) % 3
X = np.zeros((120, 6), np.float32)
X[np.arange(120), y] = 1
X[:, 4] = np.random.default_rng(0).random(120)


def fitted(classes, **more):
    return wisp.WispClassifier(hidden=8, epochs=30, threads=1, seed=1, **more).fit(X, [[classes[k]] for k in y])


def text(name, classes, header=""):
    rows = folder / name
    lines = [f"{classes[k]} " + " ".join(f"{i + (not header)}:{v:g}" for i, v in enumerate(x) if v) for x, k in zip(X, y)]
    rows.write_text(header + "\n".join(lines) + "\n")
    return rows


def f1(model, *rows):
    return model.choose_thresholds(*rows)["micro_f1"]


for classes in ([0, 1, 2], [1, 2, 3], [10, 20, 30], [-1, 0, 1], ["cat", "dog", "owl"]):
    model = fitted(classes)
    check(f"{classes}: in memory", f1(model, X, [[classes[k]] for k in y]) > 99)
    check(f"{classes}: LibSVM text", f1(model, text("a.svm", classes)) > 99)
    model.save(folder / "m")
    said = subprocess.run([wisp_command, "eval", folder / "m", folder / "a.svm", "--json"], capture_output=True, text=True, check=True)
    check(f"{classes}: wisp eval", json.loads(said.stdout)["p@1"] == 100, said.stdout + said.stderr)
    check(f"{classes}: without a word about labels", "does not know" not in said.stderr, said.stderr)
for classes in ([1, 2, 3], [10, 20, 30], ["cat", "dog", "owl"]):
    some = folder / "some.svm"
    some.write_text("".join(line for line in open(text("a.svm", classes)) if not line.startswith(f"{classes[0]} ")))
    model = wisp.WispClassifier(hidden=8, epochs=30, threads=1, seed=1).fit(X, [[classes[k]] for k in y], X_valid=some)
    check(f"{classes}: validated by a file without the first", model.report_["valid_p@1"] == 100, model.report_["valid_p@1"])
model = fitted([10, 20, 30])
check("XC text", f1(model, text("a.txt", [10, 20, 30], "120 6 31\n")) > 99)
model.partial_fit(X[:30], [[[10, 20, 40][k]] for k in y[:30]])
check("names that are new", f1(model, text("b.svm", [10, 20, 40])) > 60)

# Classes that were places get others beside them.
model = fitted([0, 1, 2]).partial_fit(X[:60], [[[0, 1, 7][k]] for k in y[:60]])
model.save(folder / "m")
said = subprocess.run([wisp_command, "predict", folder / "m", text("c.svm", [0, 1, 7]), "-k", "1"], capture_output=True, text=True, check=True)
check("a place that is called otherwise", {line.split(":")[0] for line in said.stdout.split()} <= {"0", "1", "2", "7"}, said.stdout[:200])
check("files say its name", f1(model, text("c.svm", [0, 1, 7])) > 60)
end()
