#!/usr/bin/python3
"""The pages in a real browser: contents, accessibility, no wider than the window, no error on the console.

usage: test_pages.py WISP [FOLDER]       (the path of the wisp binary; screenshots are kept in FOLDER)
Skipped where there is no Chromium."""
import json
import os
import re
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
        os.chdir("/")


main()
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
