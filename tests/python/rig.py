"""What the tests of the Python package share.  A test program says
    from rig import *
and ends with end(); its first argument is the build folder whose library it tests.  Without numpy or scipy, or with a library
for ThreadSanitizer, it says so and skips."""
import os
import re
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build"))
os.environ["WISP_LIBRARY"] = os.path.join(build, "libwisp.so")
sys.path.insert(0, os.path.join(root, "python"))
passed = failed = skipped = 0


def end():
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed != 0)


def skip(why):
    global skipped
    skipped += 1
    print(f"SKIP {why}")


def skip_all(why):
    skip(why)
    end()


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok   " if good else "FAIL ") + name + ("" if good else f": {why}"), flush=True)


def raises(name, kind, words, function, *arguments, **keywords):
    """The function must raise this kind of exception with these words (an expression) in it."""
    try:
        function(*arguments, **keywords)
    except kind as e:
        check(name, re.search(words, str(e)), f"{type(e).__name__}: {e}")
        return e
    except BaseException as e:
        check(name, False, f"{type(e).__name__}: {e}, expected {kind.__name__}")
        return None
    check(name, False, f"nothing was raised, expected {kind.__name__}")


def _sanitized():
    """A library with AddressSanitizer needs its runtime loaded before Python."""
    with open(os.environ["WISP_LIBRARY"], "rb") as f:
        runtime = re.search(rb"lib([at])san\.so", f.read())
    if runtime and runtime[1] == b"t":
        skip_all("the library is for ThreadSanitizer, Python is not")
    if runtime and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
        os.environ["LD_PRELOAD"] = asan
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0:allocator_may_return_null=1"  # Python's own would be reported
        os.execv(sys.executable, [sys.executable] + sys.argv)


_sanitized()
try:
    import numpy as np
    import scipy.sparse as sp
except ImportError as e:
    skip_all(f"{e}: apt-get install python3-numpy python3-scipy")
import wisp  # noqa: E402


def planted(n=400, n_features=60, n_labels=8, seed=0, dtype=np.float32):
    """Rows whose features tell their labels: X, and lists of label numbers."""
    r = np.random.RandomState(seed)
    X, Y = sp.lil_matrix((n, n_features), dtype=dtype), []
    for i in range(n):
        labels = sorted(r.choice(n_labels, 1 + i % 2, replace=False).tolist())
        for label in labels:
            X[i, 3 * label + r.randint(3)] = 1 + r.randint(3)
        X[i, 3 * n_labels + r.randint(n_features - 3 * n_labels)] = 1
        Y.append(labels)
    return X.tocsr(), Y


def small(**keywords):
    """An estimator that relies on no default and takes no time."""
    return wisp.WispClassifier(**{**dict(hidden=16, epochs=8, batch=32, dropout=0, input_dropout=0, lr=0.02, holdout=0.1,
                                         precision="fp32", threads=2), **keywords})


class Series:
    """As pandas has it, for what the package asks of one."""

    ndim = 1

    def __init__(self, items):
        self.items = np.empty(len(items), dtype=object)
        self.items[:] = items

    def __array__(self, dtype=None, copy=None):
        return self.items

    def __len__(self):
        return len(self.items)


class Frame:
    """A table with names of columns."""

    ndim = 2
    columns = None

    def __init__(self, array, columns):
        self.array, self.columns, self.shape = array, columns, array.shape

    def __array__(self, dtype=None, copy=None):
        return self.array
