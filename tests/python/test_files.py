"""Where the process has a locale with a decimal comma, and where files are pipes, or change while they are in use."""
from rig import *

import locale
import shutil
import signal
import tempfile

X, Y = planted()
folder = tempfile.mkdtemp()


def in_folder(name):
    return os.path.join(folder, name)


# ---- a decimal comma ----
def work(name):
    model = small(lr=0.0125, input_dropout=0.25, holdout=0.2).fit(X, Y)
    model.save(in_folder(name))
    again = wisp.WispClassifier.load(in_folder(name))
    with open(in_folder(name), "rb") as f:
        return f.read(), again.predict_proba(X).toarray() if hasattr(again.predict_proba(X), "toarray") else again.predict_proba(X)


plain = work("plain")
made = subprocess.run(["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", in_folder("de_DE.UTF-8")], capture_output=True)
os.environ["LOCPATH"] = folder
try:
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
except locale.Error as e:
    skip(f"a decimal comma: {e}; {made.stderr!r}")
else:
    check("the locale has a decimal comma", locale.localeconv()["decimal_point"] == ",")
    german = work("german")
    check("a decimal comma: the same model", german[0] == plain[0])
    check("a decimal comma: the same answers", (german[1] == plain[1]).all())
    locale.setlocale(locale.LC_ALL, "C")

# ---- a pipe ----
os.mkfifo(in_folder("pipe"))
signal.alarm(60)  # code that waits for a writer ends here
raises("a model that is a pipe", OSError, "pipe", wisp.WispClassifier.load, in_folder("pipe"))
signal.alarm(0)

# ---- a model that changes under its user ----

wide = sp.random(200, 60000, 0.0005, format="csr", random_state=1, dtype="float32")
labels = [i % 3 for i in range(200)]
for how in "cut", "written over":
    path = in_folder("wide")
    small(hidden="32", epochs=1).fit(wide, labels).save(path)
    model = wisp.WispClassifier.load(path)
    model.predict(wide)
    check(f"a model of {os.path.getsize(path)} bytes is mapped", os.path.getsize(path) > 4 << 20)
    if how == "cut":
        os.truncate(path, 1000)
    else:
        with open(path, "r+b") as f:
            f.write(b"x" * 5000000)
    raises(f"a model that is {how}", OSError, "was (cut|changed)", model.predict, wide)
shutil.rmtree(folder)
end()
