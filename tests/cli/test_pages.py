#!/usr/bin/python3
"""The pages in a real browser: contents, accessibility, no wider than the window, no error on the console.

usage: test_pages.py WISP [FOLDER]       (the path of the wisp binary; screenshots are kept in FOLDER)
Skipped where there is no Chromium."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(here), "web"))
import browser  # noqa: E402

wisp = os.path.abspath(sys.argv[1])
shots = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
passed = failed = skipped = 0
WIDTHS = (360, 1280)


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok   " if good else "FAIL ") + name + ("" if good else f": {why}"), flush=True)


def skip(name, why):
    global skipped
    skipped += 1
    print(f"SKIP {name}: {why}")


def run(*words, **how):
    done = subprocess.run([wisp, *words], capture_output=True, text=True, **how)
    assert done.returncode == 0, (words, done.stderr)
    return done


def look(page, name, what, axe=False):
    """What holds for every page, whatever it shows."""
    faults = page.audit(axe=axe)
    check(f"{name}: {what}: nothing stands in anybody's way", not faults, "; ".join(faults[:6]))
    check(f"{name}: {what}: no error on the console", not page.errors, page.errors[:3])
    if shots:
        page.shot(os.path.join(shots, re.sub(r"\W+", "-", f"{name} {what}") + ".png"))


def each_view(chrome, name, url, ready="true", tests=None):
    """Opens it narrow and wide, light and dark."""
    for width in WIDTHS:
        for dark in (False, True):
            page = chrome.page(width=width, dark=dark, calm=dark)
            page.open(url)
            page.until(ready)
            look(page, name, f"{width} px, {'dark' if dark else 'light'}", axe=width == 360 and not dark)
            if tests and not dark:
                tests(page, width)
            page.close()


# ---- the report ----

def test_report(chrome):
    run("synth", "P", "--rows", "800", "--features", "300", "--labels", "40", "--row-features", "12")
    for name, more in (("narrow", ["--hidden", "8"]), ("wide and <b>deep", ["--hidden", "32,16"])):
        run("train", "P_train.txt", "-o", "m", "--epochs", "5", "--patience", "0", "--log", f"{name}.jsonl", *more)
    run("report", "narrow.jsonl", "wide and <b>deep.jsonl", "-o", "two.html")
    run("report", "narrow.jsonl", "-o", "one.html")
    rows = [json.loads(line) for line in open("narrow.jsonl")]
    kept = [r for r in rows if r["best"]][-1]

    def two(page, width):
        heads = page.run("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        check(f"report {width}: headings", heads == ["Final figures", "What differs between the runs", "Curves", "Zeros per layer", "Every epoch"], heads)
        cells = page.run("[...document.querySelector('table').rows].map(r => [...r.cells].map(c => c.textContent))")
        check(f"report {width}: the runs", [r[0] for r in cells[1:]] == ["narrow.jsonl", "wide and <b>deep.jsonl"], cells)
        check(f"report {width}: P@1 of the kept epoch", f"{kept['valid_p@1']:.2f}" in cells[1][cells[0].index("P@1")], cells)
        check(f"report {width}: no element of a name", page.run("document.querySelectorAll('b').length") == 0)
        check(f"report {width}: every chart has a curve for each run",
              page.run("[...document.querySelectorAll('figure')].slice(0, 3).every(f => f.querySelectorAll('g > path').length === 2)"))
        check(f"report {width}: dots have numbers", page.run("document.querySelector('figure g g title').textContent") ==
              f"wide and <b>deep.jsonl, epoch 1: {json.loads(open('wide and <b>deep.jsonl').readline())['loss']:.6g}",
              page.run("document.querySelector('figure g g title').textContent"))
        page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        look(page, "report", f"{width} px, unfolded")
        check(f"report {width}: nothing is fetched", page.run("performance.getEntriesByType('resource').length") == 0)

    def one(page, width):
        tiles = page.run("Object.fromEntries([...document.querySelectorAll('.tiles > div')].map(d => [d.children[0].textContent, d.children[1].textContent]))")
        check(f"report of one run {width}: tiles", tiles.get("P@1", "").startswith(f"{kept['valid_p@1']:.2f}") and tiles.get("Epochs") == "5 of 5, finished", tiles)

    folder = "file://" + os.getcwd()
    each_view(chrome, "report of two runs", f"{folder}/two.html", tests=two)
    each_view(chrome, "report of one run", f"{folder}/one.html", tests=one)


# ---- the live page of a run ----

def test_watch(chrome):
    if not os.path.exists(os.path.join(os.path.dirname(wisp), "wisp-http.so")):
        return skip("the live page", "there is no wisp-http.so (libmicrohttpd-dev)")
    run("synth", "W", "--rows", "3000", "--features", "2000", "--labels", "6000")
    # its steps are sampled; it is stopped when all has been seen
    process = subprocess.Popen([wisp, "train", "W_train.txt", "-o", "<b>m", "--hidden", "32", "--epochs", "1000", "--patience", "0", "--watch"],
                               stderr=subprocess.PIPE, text=True)
    url = re.search(r"http\S+", process.stderr.readline())[0]
    wide, narrow = chrome.page(), chrome.page(width=360, dark=True, calm=True)
    tiles = "Object.fromEntries([...document.querySelectorAll('.tiles > div')].map(d => [d.children[0].textContent, d.children[1].textContent]))"
    for page in (wide, narrow):
        page.open(url)
        page.until("document.querySelectorAll('#precision circle').length >= 6", 120)  # two epochs of three curves
        found = page.run(tiles)
        check("live page: tiles", {"Time left", "Epoch", "Training loss", "P@1", "Rows per second", "Rows scored", "Recall"} <= set(found), found)
        check("live page: how far", page.run("Number(document.getElementById('progress').getAttribute('aria-valuenow'))") < 100 and
              re.fullmatch(r"Training, epoch \d+ of 1000", page.run("document.getElementById('state').textContent")))
        check("live page: names are text", page.run("document.querySelector('h1').textContent") == "<b>m" and page.run("document.querySelectorAll('b').length") == 0)
        check("live page: all charts", page.run("[...document.querySelectorAll('figure')].filter(f => !f.hidden).map(f => f.id).sort().join()") ==
              "layers,loss,precision,rate,recall,rows,valid", page.run("[...document.querySelectorAll('figure')].filter(f => !f.hidden).map(f => f.id).sort().join()"))
        check("live page: options", page.run("document.getElementById('facts').textContent").find("sampling") >= 0)
        page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        look(page, "live page", "360 px, dark" if page is narrow else "1280 px, light", axe=page is wide)
    before = wide.run(tiles)["Training loss"], wide.run("document.querySelectorAll('#precision circle').length")
    wide.until(f"document.querySelectorAll('#precision circle').length > {before[1]}", 120)
    check("live page: it goes on by itself", True)
    check("live page: still for who wants no motion", narrow.run("getComputedStyle(document.getElementById('dot')).animationName") == "none" and
          wide.run("getComputedStyle(document.getElementById('dot')).animationName") == "breathe")
    process.send_signal(signal.SIGINT)
    for page in (wide, narrow):
        page.until("/^stopped in epoch/.test(document.getElementById('state').textContent)")
        check("live page: the end is told", True)
    process.stderr.read()
    check("live page: the run ends", process.wait() == 130)
    check("live page: what it told stays, without an error", wide.run(tiles)["Time left"] == "none" and not wide.errors, wide.errors)
    wide.close()
    narrow.close()


def main():
    if not browser.program():
        skip("pages in a browser", "there is no Chromium (apt-get install chromium-headless-shell)")
        return
    if not browser.axe_source():
        print("note: axe-core is not installed (pip install axe-playwright-python): our own checks alone")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder
        with browser.Browser() as chrome:
            test_report(chrome)
            test_watch(chrome)
        os.chdir("/")


main()
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
