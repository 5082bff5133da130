#!/usr/bin/python3
"""The pages in a real browser: contents, accessibility, no wider than the window, no error on the console.

usage: test_pages.py WISP [FOLDER [TEST]]       (the path of the wisp binary; screenshots are kept in FOLDER; test_try alone)
Skipped where there is no Chromium."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(here), "web"))
import browser  # noqa: E402

wisp = os.path.abspath(sys.argv[1])
shots = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else None  # "": none
only = sys.argv[3] if len(sys.argv) > 3 else ""
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
    process = start("train", "W_train.txt", "-o", "<b>m", "--hidden", "32", "--epochs", "1000", "--patience", "0", "--watch")
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
        said = page.run("[...document.querySelectorAll('#facts th')].map(t => t.textContent)")
        check("live page: nothing about the run is said twice", len(said) == len(set(said)), said)
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


# ---- the page of a server ----

LABELS = "[...document.querySelectorAll('#labels > li')].map(l => [l.querySelector('.name').textContent, l.querySelector('.value').textContent])"


def make_models():
    """Texts whose labels are their words, one of them markup; rows of numbers; pictures that are light above or below."""
    with open("texts.txt", "w") as f:
        for i in range(400):
            name, words = (("bread", "rye loaf oven"), ("<b>soup", "broth spoon bowl"), ("cake", "sugar cream sponge"))[i % 3]
            f.write(f"__label__{name} {words} {('and', 'or', 'with', 'the')[i % 4]} {words.split()[i % 2]}\n")
    run("train", "texts.txt", "-o", "words", "--hidden", "16", "--epochs", "20", "--chars", "3-5")
    run("synth", "N", "--rows", "300", "--features", "50", "--labels", "8", "--row-features", "6")
    run("train", "N_train.txt", "-o", "rows", "--hidden", "8", "--epochs", "3")
    rng = random.Random(1)
    pictures, labels = bytearray(), bytes(i % 2 for i in range(400))
    for label in labels:
        picture = bytearray(rng.randrange(40) for _ in range(28 * 28))
        for y in range(14 * label + 3, 14 * label + 11):
            picture[28 * y + 6:28 * y + 22] = bytes([230] * 16)
        pictures += picture
    for name, sizes, data in (("pictures-images-idx3-ubyte", (400, 28, 28), pictures), ("pictures-labels-idx1-ubyte", (400,), labels)):
        with open(name, "wb") as f:
            f.write(bytes([0, 0, 8, len(sizes)]) + b"".join(n.to_bytes(4, "big") for n in sizes) + data)
    run("train", "pictures-images-idx3-ubyte", "--net", "lenet", "-o", "halves", "--epochs", "2")


processes = []  # ended whatever happens


def start(*words):
    process = subprocess.Popen([wisp, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    processes.append(process)
    return process


def serve(*words):
    process = start("serve", *words, "--port", "0")
    for line in process.stderr:
        found = re.search(r"listening on (http\S+)", line)
        if found:
            return process, found[1].rstrip("/") + "/"
    raise RuntimeError("the server has not begun")


def choose(page, name):
    page.run(f"(s => {{ s.value = {json.dumps(name)}; s.dispatchEvent(new Event('change')); }})(document.getElementById('model'))")


def test_try(chrome):
    if not os.path.exists(os.path.join(os.path.dirname(wisp), "wisp-http.so")):
        return skip("the page of a server", "there is no wisp-http.so (libmicrohttpd-dev)")
    make_models()
    process, url = serve("words", "rows", "halves")

    def on_page(page, width):
        name = f"try {width}"
        for _ in range(3):  # past the link that skips, and the choice of the model, to the text
            page.key("Tab")
        check(f"{name}: the keyboard leads to the text", page.run("document.activeElement.id") == "text", page.run("document.activeElement.id"))
        page.type("A loaf of rye, fresh from the oven")
        page.until("document.querySelectorAll('#labels > li').length === 3")
        found = page.run(LABELS)
        check(f"{name}: text", found[0][0] == "bread" and float(found[0][1].split()[0]) > 50, found)
        check(f"{name}: names are text", "<b>soup" in [f[0] for f in found] and page.run("document.querySelectorAll('b').length") == 0, found)
        why = page.run("[...document.querySelectorAll('#labels > li:first-child .why li')].map(l => l.firstChild.data)")
        check(f"{name}: which words made it, their pieces added up", {"rye", "loaf", "oven"} <= set(why[:4]) and not [w for w in why if "~" in w], why)
        check(f"{name}: a screen reader hears the best", page.run("document.getElementById('status').textContent").startswith("3 labels. The first is bread,"))
        look(page, "try page, text", f"{width} px", axe=width == 360)
        page.run("document.getElementById('clear').click()")
        check(f"{name}: cleared", page.run(LABELS) == [] and page.run("document.getElementById('text').value") == "")
        choose(page, "rows")
        page.run("document.getElementById('features').focus()")
        page.type("3: 1.5\n17\n<i>no such")
        page.until("document.querySelectorAll('#labels > li').length === 5")
        check(f"{name}: features that are not known", page.run("document.getElementById('note').textContent") == "1 feature is not known to the model.")
        look(page, "try page, features", f"{width} px")
        choose(page, "halves")
        page.until("!document.getElementById('of-image').hidden")
        page.run("document.getElementById('draw').scrollIntoView({ block: 'center' })")
        x, y, w, h = page.run("(r => [r.left, r.top, r.width, r.height])(document.getElementById('draw').getBoundingClientRect())")
        page.drag([(x + w * a, y + h * b) for a, b in ((.2, .3), (.8, .3), (.8, .4), (.2, .4))])
        page.until("document.querySelectorAll('#labels > li').length === 2")
        check(f"{name}: a drawing", len(page.run(LABELS)) == 2)
        look(page, "try page, picture", f"{width} px")
        drawn = page.run("""(async () => {
            const c = document.createElement('canvas'); c.width = c.height = 56; const g = c.getContext('2d');
            g.fillStyle = '#000'; g.fillRect(0, 0, 56, 56); g.fillStyle = '#fff'; g.fillRect(12, 34, 32, 16);
            const blob = await new Promise(r => c.toBlob(r)); const t = new DataTransfer(); t.items.add(new File([blob], 'low.png', { type: 'image/png' }));
            const i = document.getElementById('file'); document.getElementById('status').textContent = '';
            i.files = t.files; i.dispatchEvent(new Event('change')); return true; })()""")
        page.until("document.getElementById('status').textContent !== ''")
        found = page.run(LABELS)
        check(f"{name}: a picture from a file", drawn and found[0][0] == "1" and float(found[0][1].split()[0]) > 80, found)
        check(f"{name}: which pixels made it", page.run("document.querySelectorAll('#labels canvas.parts').length") >= 1)
        page.until("document.getElementById('tiles').textContent.includes('Rows predicted')")
        said = page.run("[...document.querySelectorAll('#card th')].map(t => t.textContent)")
        check(f"{name}: nothing in the card is said twice", len(said) == len(set(said)), said)
        check(f"{name}: the model card", page.run("document.getElementById('card').textContent").find("lenet") >= 0 or
              page.run("document.getElementById('card').textContent").find("conv") >= 0)

        joint = page.run("""(async () => {
            const { facts } = await import('/pages/chart.js'), table = document.createElement('tbody');
            facts(table, { loss: 'bce', card: { data: 'd.csv', seed: 1 }, validation: { loss: 2 }, members: 2,
                           '0/net': 'a', '0/card': { data: 'd.csv', lr: 3, batch: 8 }, '1/net': 'b', '1/card': { data: 'd.csv', lr: 3, batch: 9 } });
            return [...table.rows].map(r => [...r.cells].map(c => c.textContent).join(' ')); })()""")
        check(f"{name}: of members what differs", joint == ["loss bce", "data d.csv", "seed 1", "validation loss 2", "members 2", "member 1 net a",
                                                            "member 1 lr 3", "member 1 batch 8", "member 2 net b", "member 2 batch 9"], joint)

    each_view(chrome, "try page", url, "!document.getElementById('work').hidden", on_page)
    process.send_signal(signal.SIGTERM)
    check("try: the server ends", process.wait() == 0)

    with open("token", "w") as f:
        f.write("open sesame\n")
    process, url = serve("words", "--token-file", "token")
    page = chrome.page(width=360)
    page.open(url)
    page.until("!document.getElementById('unlock').hidden")
    look_errors, page.errors = page.errors, []  # the browser reports the 401
    check("try: a token is asked for", page.run("document.activeElement.id") == "token" and len(look_errors) <= 2, look_errors)
    look(page, "try page, locked", "360 px")
    page.type("open sesame")
    page.key("Enter")
    page.until("!document.getElementById('work').hidden")
    page.run("document.getElementById('text').focus()")
    page.type("broth in a bowl")
    page.until("document.querySelectorAll('#labels > li').length === 3")
    check("try: unlocked", page.run(LABELS)[0][0] == "<b>soup", page.run(LABELS))
    page.close()
    process.send_signal(signal.SIGTERM)
    check("try: that server ends, too", process.wait() == 0)


def main():
    if not browser.program():
        skip("pages in a browser", "there is no Chromium (apt-get install chromium-headless-shell)")
        return
    if not browser.axe_source():
        print("note: axe-core is not installed (pip install axe-playwright-python): our own checks alone")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder
        try:
            with browser.Browser() as chrome:
                for test in (test_report, test_watch, test_try):
                    if only in ("", test.__name__):
                        test(chrome)
        finally:
            for process in processes:
                process.kill()
        os.chdir("/")


main()
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
