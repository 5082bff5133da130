"""Objects that several threads use at once, and processes that fork meanwhile: the answers are those of one thread.
CALLS=10000 FORKS=100 in the environment ask for so many calls of each object, and so many children of each kind."""
import signal
import threading
import time

from rig import *

CALLS, FORKS, THREADS = int(os.environ.get("CALLS", 1600)), int(os.environ.get("FORKS", 20)), 8


def at_once(works, n):
    """Every work is a function of a number; thread t does works t, t + 1 ... in turn, n calls in all.  Returns what differed
    or was raised."""
    bad, begin = [], threading.Barrier(THREADS)

    def run(t):
        begin.wait()
        for i in range(n // THREADS):
            try:
                why = works[(t + i) % len(works)](t * n + i)
            except BaseException as e:
                why = f"{type(e).__name__}: {e}"
            if why:
                bad.append(why)

    threads = [threading.Thread(target=run, args=(t,)) for t in range(THREADS)]
    [t.start() for t in threads], [t.join() for t in threads]
    return bad


def same(name, function, rows, *arguments):
    """A work: the function's answer for one of these sets of rows must be the one that a thread alone had."""
    def flat(answer):
        answer = answer if isinstance(answer, tuple) else (answer,)
        return [a.toarray() if sp.issparse(a) else np.asarray(a) for a in answer]

    want = [flat(function(X, *arguments)) for X in rows]

    def work(i):
        got = flat(function(rows[i % len(rows)], *arguments))
        good = len(got) == len(want[i % len(rows)]) and all(np.array_equal(a, b) for a, b in zip(got, want[i % len(rows)]))
        return None if good else f"{name}: another answer for rows {i % len(rows)}"

    return work


def children(n, answers, busy):
    """Forks n times while other threads are busy; how many children answered within 20 seconds.  AddressSanitizer's own locks
    may be another thread's at that moment, and stay so in the child: under it a tenth of them may be forked again."""
    going, good = threading.Event(), 0
    again = 1 + n // 10 if "libasan" in os.environ.get("LD_PRELOAD", "") else 0

    def load():
        while not going.is_set():
            busy()

    threads = [threading.Thread(target=load) for _ in range(3)]
    [t.start() for t in threads]
    i = 0
    while i < n:
        time.sleep(0.001 * (i % 7))
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            code = 1
            try:
                code = 0 if answers() else 2
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == -signal.SIGALRM and again > 0:
            again -= 1
            continue
        good += code == 0
        i += 1
    going.set()
    [t.join() for t in threads]
    return good


X, lists = planted()
soft = small(loss="softmax", threads=2).fit(X, [[f"label {i}" for i in row] for row in lists])  # its two kinds of scores differ
single = small().fit(X, [row[0] for row in lists])
rows = [X[:1], X[1:2], X[7:19], X, X[300:303].toarray()]
works = [same("predict", soft.predict, rows), same("decision_function", soft.decision_function, rows),
         same("predict_proba", soft.predict_proba, rows), same("predict_top", soft.predict_top, rows, 3),
         same("predict_top", soft.predict_top, rows, 8), same("predict", single.predict, rows),
         same("score", lambda X: np.array(single.score(X, [0] * X.shape[0])), rows)]
words = ["sky and sea", "red wine", "green tea", "a rose", "the sea", "grass"] * 20
text = small(epochs=3).fit(words, [i % 6 for i in range(120)])
works += [same("text", text.predict_top, words[:6], 3), same("texts", text.predict_proba, [words[:9], words[2:40]])]
bad = at_once(works, CALLS)
check(f"{THREADS} threads on one estimator of each kind, {CALLS} calls", not bad, f"{len(bad)} wrong: {bad[:3]}")

# ---- training meanwhile ----
old, new = [[f"old {i}" for i in row] for row in lists], [[f"new {7 - i}" for i in row] for row in lists]
m = small(threads=1, epochs=3).fit(X, old)
answers = {}
for Y in (new, old):
    m.fit(X, Y)
    answers[str(Y[0][0])[:3]] = m.predict_top(X[:20])
going, bad = threading.Event(), []


def whole():
    """Labels and scores of one model, never of two."""
    while not going.is_set():
        try:
            names, scores = m.predict_top(X[:20])
            want = answers[str(names[0, 0])[:3]]
            if not (np.array_equal(names, want[0]) and np.array_equal(scores, want[1])):
                bad.append("labels of one model, scores of another")
        except BaseException as e:
            bad.append(f"{type(e).__name__}: {e}")


threads = [threading.Thread(target=whole) for _ in range(4)]
[t.start() for t in threads]
for i in range(12):
    m.fit(X, new if i % 2 else old)
going.set()
[t.join() for t in threads]
check("fit beside prediction: an answer is of one model", not bad, f"{len(bad)}: {bad[:2]}")
m = small(threads=1, epochs=1).partial_fit(X, lists, classes=list(range(8)))
bad = at_once([lambda i: m.partial_fit(X[:50], [[100 + i % 7919]] * 50) and None], 2 * THREADS)
check("partial_fit by several threads: no label is lost", not bad and len(m.classes_) == 8 + 2 * THREADS,
      (bad[:2], len(m.classes_)))

# ---- deep networks ----
r = np.random.RandomState(5)
weights = [sp.random(64, 64, 0.2, "csr", np.float32, r) for _ in range(8)]
inputs = [sp.random(n, 64, 0.2, "csr", np.float32, r) for n in (1, 40, 7)]
for mode in ("exact", "merged"):
    net = wisp.SparseNetwork(weights, -0.1, clip=8, mode=mode, threads=2)
    bad = at_once([same("run", net.run, inputs), same("nonzero", net.nonzero, inputs)], CALLS)
    check(f"{THREADS} threads on one SparseNetwork, {mode}, {CALLS} calls", not bad, f"{len(bad)} wrong: {bad[:3]}")
growing = wisp.SparseNetwork(clip=8, threads=1)
growing.add(sp.identity(64, format="csr"))


def grow(i):
    growing.add(sp.random(64 if growing.n_layers % 2 else 32, growing.n_outputs, 0.2, "csr", np.float32))


def use(i):
    out = growing.run(inputs[1])
    good = out.shape in ((40, 32), (40, 64)) and out.min() >= 0 and out.max() <= 8
    return None if good else f"{out.shape}, {out.min()} .. {out.max()}"


bad = [why for why in at_once([use, use, use, grow], 400) if "layer" not in why]  # two that add at once: widths may not fit
check("layers are added while others run", not bad, bad[:2])

# ---- forks ----
want = soft.predict_top(X), soft.decision_function(X)


def child_predicts():
    names, scores = soft.predict_top(X)
    return np.array_equal(names, want[0][0]) and np.array_equal(scores, want[0][1]) and \
        np.array_equal(soft.decision_function(X), want[1])


def busy():
    soft.predict_top(X)
    soft.decision_function(X[:30])
    soft.predict(X[:1])


good = children(FORKS, child_predicts, busy)
check(f"forked while others predict: {good} of {FORKS} children answer", good == FORKS)
good = children(FORKS // 4, lambda: small(threads=2, epochs=2).fit(X, lists).score(X, lists) > 0.1, busy)
check(f"forked while others predict: {good} of {FORKS // 4} children train", good == FORKS // 4)
good = children(FORKS // 4, lambda: m.partial_fit(X, lists).predict_top(X[:3])[0].shape == (3, 5),
                lambda: m.partial_fit(X, lists))
check(f"forked while others train: {good} of {FORKS // 4} children go on", good == FORKS // 4)
for mode in ("exact", "merged"):
    net = wisp.SparseNetwork(weights, -0.1, clip=8, mode=mode, threads=2)
    result = net.run(inputs[1])

    def other():
        net.run(inputs[2])
        net.mode = "exact" if net.mode == "merged" else "merged"  # so that it is analysed anew

    good = children(FORKS, lambda: np.allclose(net.run(inputs[1]), result, atol=1e-5), other)
    check(f"forked while a SparseNetwork runs, {mode}: {good} of {FORKS} children answer", good == FORKS)
end()
