#!/usr/bin/python3
"""wisp train --watch: what its server tells, that the run is the same with it, and how it ends.  The page: test_pages.py.

usage: test_watch.py WISP       (the path of the wisp binary)"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

wisp = os.path.abspath(sys.argv[1])
passed = failed = skipped = 0
OPTIONS = ["P_train.txt", "--hidden", "16", "--epochs", "30", "--patience", "0", "--batch", "8", "--threads", "2"]


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok   " if good else "FAIL ") + name + ("" if good else f": {why}"), flush=True)


def run(*words):
    return subprocess.run([wisp, *words], capture_output=True, text=True)


def start(*words):
    """A run, and where its page is."""
    process = subprocess.Popen([wisp, "train", *words], stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    found = re.fullmatch(r"watch     (http://127\.0\.0\.1:\d+/)\n", line)
    assert found, line
    return process, found[1]


def get(url, **headers):
    """Status, headers and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def follow(url, states):
    """Asks until the run is gone, as a page would, but more often."""
    seen = 0
    try:
        while True:
            state = json.loads(get(f"{url}watch.json?from={seen}")[2])
            seen = state["from"] + len(state["epochs"])
            states.append(state)
            time.sleep(0.02)
    except OSError:
        pass


def test_same():
    plain = run("train", *OPTIONS, "-o", "plain", "--log", "plain.log", "--quiet")
    check("a run without a page", plain.returncode == 0, plain.stderr)
    process, url = start(*OPTIONS, "-o", "watched", "--log", "watched.log", "--watch")
    states = []
    reader = threading.Thread(target=follow, args=(url, states))
    reader.start()
    said = process.stderr.read()
    check("a run with one ends well", process.wait() == 0, said)
    reader.join()
    same = open("plain", "rb").read() == open("watched", "rb").read()
    check("both models have the same bytes", same)
    log = [json.loads(line) for line in open("watched.log")]
    lines = [e for s in states for e in s["epochs"]]
    check("the epochs are those of the log, each once", lines == log, f"{len(lines)} of {len(log)}")
    check("the last state is the end", states[-1]["state"] == "ended" and states[-1]["words"] == "The run has ended.", states[-1]["state"])
    check("what the run is", states[-1]["run"] == log[0]["run"])
    now = [s["now"] for s in states if s["now"]]
    check("it goes on", [n["epoch"] for n in now] == sorted(n["epoch"] for n in now) and now[-1]["epoch"] == 30, now[-1])
    check("fields of now", set(now[0]) == {"epoch", "epochs", "rows_done", "n_rows", "loss", "rows_per_s", "eta_s", "train_s", "active", "scored",
                                           "recall", "sampled"}, now[0])
    trail = states[-1]["trail"]
    mean = sum(e["loss"] for e in log) / len(log)
    check("the trail covers the run", 30 <= len(trail) <= 512 and trail[-1][0] == 30 and [t[0] for t in trail] == sorted(t[0] for t in trail), len(trail))
    check("and means the same", abs(sum(t[1] for t in trail) / len(trail) - mean) < 0.3 * mean, (trail[:3], mean))


def test_answers():
    process, url = start(*OPTIONS, "--epochs", "100000", "-o", "long", "--watch=0")
    status, headers, body = get(url)
    check("the page", status == 200 and headers["Content-Type"].startswith("text/html") and b"<h1" in body, status)
    policy = headers["Content-Security-Policy"] or ""
    check("its policy", "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy, policy)
    check("no sniffing, no referrer", headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer")
    for name in re.findall(r'(?:src|href)="(/pages/[^"]*)"', body.decode()):
        status, headers, text = get(url[:-1] + name)
        check(f"its file {name}", status == 200 and text, status)
    check("a file that is not there", get(url + "pages/none.js")[0] == 404)
    check("nor one beside the pages", get(url + "pages/../watch.c")[0] == 404 and get(url + "pages/%2e%2e/watch.c")[0] == 404)
    check("another path", get(url + "none")[0] == 404)
    check("by another name than this machine's", get(url + "watch.json", Host="evil.example")[0] == 403)
    check("by the name localhost", get(url + "watch.json", Host="localhost:1")[0] == 200)
    check("numbers that are none", get(url + "watch.json?from=-1")[0] == 200 and get(url + "watch.json?from=99999999999999999999")[0] == 200)
    port = re.search(r":(\d+)/", url)[1]
    second = run("train", *OPTIONS, "-o", "second", "--watch", port)
    check("a port that is taken", second.returncode == 5 and port in second.stderr, second.stderr)
    check("and nothing was trained", not os.path.exists("second"))
    while json.loads(get(url + "watch.json")[2])["now"] is None:  # until its first batch a signal ends it at once
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    states = []
    follow(url, states)
    said = process.stderr.read()
    check("stopped", process.wait() == 130, said)
    check("and the page is told", states and states[-1]["state"] == "stopped" and "stopped in epoch" in states[-1]["words"], states[-1:])


def test_ends():
    process, _ = start("P_train.txt", "--hidden", "4", "--epochs", "1", "-o", "short", "--watch")
    process.stderr.read()
    check("nobody looks", process.wait() == 0)
    wrong = run("train", "none.txt", "-o", "x", "--watch")
    check("a run that cannot begin", wrong.returncode == 5 and "none.txt" in wrong.stderr, wrong.stderr)
    for words in (["--watch", "70000"], ["--watch=x"]):
        wrong = run("train", "P_train.txt", "-o", "x", *words)
        check(" ".join(words), wrong.returncode == 2 and "watch" in wrong.stderr, wrong.stderr)
    before = run("train", "--watch", "P_train.txt", "--hidden", "4", "--epochs", "1", "-o", "before")
    check("a file behind --watch is a file", before.returncode == 0, before.stderr)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    chosen = run("train", "P_train.txt", "--hidden", "4", "--epochs", "1", "-o", "chosen", "--watch", str(port))
    check("a port that was chosen", f"http://127.0.0.1:{port}/" in chosen.stderr, chosen.stderr)
    model = open("chosen", "rb").read()
    check("the option is not part of the model", b"watch" not in model and model == open("before", "rb").read())


def test_ranks():
    """Several processes: one page, and no hanging where its port is taken."""
    global skipped
    if not shutil.which("mpirun") or not os.path.exists(os.path.join(os.path.dirname(wisp), "wisp-mpi.so")):
        skipped += 1
        return print("SKIP --watch of several ranks: there is no MPI")
    several = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", wisp, "train", "P_train.txt", "--hidden", "8", "--epochs", "2"]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        taken = subprocess.run([*several, "-o", "ranks", "--watch", str(port)], capture_output=True, text=True, timeout=120)
    check("ranks: a port that is taken", taken.returncode == 0 and taken.stderr.count("watch     no page") == 1, taken.stderr[:300])
    free = subprocess.run([*several, "-o", "ranks", "--watch"], capture_output=True, text=True, timeout=120)
    check("ranks: one page", free.returncode == 0 and free.stderr.count("watch     http://") == 1, free.stderr[:300])


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.environ["HOME"] = folder
    if os.path.exists(os.path.join(os.path.dirname(wisp), "wisp-http.so")):
        run("synth", "P", "--rows", "1500", "--features", "300", "--labels", "40", "--row-features", "12")
        test_same()
        test_answers()
        test_ends()
        test_ranks()
    else:
        skipped = 1
        print("SKIP train --watch: there is no wisp-http.so (libmicrohttpd-dev)")
    os.chdir("/")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
