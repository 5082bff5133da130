"""A real browser for tests: Chromium without a window, driven through its DevTools protocol over a pipe.

No package is needed: messages are JSON, ended by a zero byte, on descriptors 3 (to the browser) and 4 (from it).

    with Browser() as browser:
        page = browser.page(width=360, dark=True)
        page.open("http://127.0.0.1:8080/")
        page.run("document.title")

Whatever a page writes to its console as an error, throws, or is refused by its Content-Security-Policy, is in
page.errors."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
HERE = os.path.dirname(os.path.abspath(__file__))


def program():
    """The browser's path; None: there is none."""
    return next((p for p in map(shutil.which, NAMES) if p), None)


class Browser:
    def __init__(self, seconds=60):
        self.seconds = seconds
        self.folder = tempfile.mkdtemp(prefix="wisp-browser-")
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()

        def hand_over():  # the ends that the browser expects, where it expects them
            low = [os.dup(to_read), os.dup(back_write)]
            os.dup2(low[0], 3)
            os.dup2(low[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={self.folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=hand_over)
        os.close(to_read)
        os.close(back_write)
        self.last = 0
        self.text = b""
        self.pages = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, until):
        """The next message; None when it is too late."""
        while b"\0" not in self.text:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                return None
            piece = os.read(self.back, 1 << 16)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.text += piece
        one, self.text = self.text.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        until = time.monotonic() + self.seconds
        while (answer := self.receive(until)) is not None:
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.event(answer)
        raise RuntimeError(f"{method}: no answer in {self.seconds} s")

    def event(self, message):
        page = self.pages.get(message.get("sessionId"))
        if page and "method" in message:
            page.event(message["method"], message["params"])

    def page(self, **how):
        return Page(self, **how)


class Page:
    def __init__(self, browser, width=1280, height=900, dark=False, calm=False):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        self.errors = []
        self.loaded = False
        for what in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{what}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def event(self, method, p):
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.errors.append(f"{p['entry']['text']} {p['entry'].get('url', '')}")

    def open(self, url):
        self.loaded = False
        said = self.call("Page.navigate", url=url)
        if said.get("errorText"):
            raise RuntimeError(f"{url}: {said['errorText']}")
        self.until("document.readyState === 'complete'")

    def run(self, js):
        """The value of an expression; promises are waited for."""
        said = self.call("Runtime.evaluate", expression=js, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return said["result"].get("value")

    def until(self, js, seconds=20):
        """Waits until an expression is true, and gives its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(js)):
            if time.monotonic() > end:
                raise RuntimeError(f"not within {seconds} s: {js}")
            time.sleep(0.05)
        return value

    def type(self, text):
        """Into what has the focus, as a keyboard would."""
        self.call("Input.insertText", text=text)

    def key(self, name, code=None):
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37}
        text = {"Enter": "\r", " ": " "}.get(name)
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=code or name, windowsVirtualKeyCode=codes.get(name, 0), **more)

    def drag(self, points):
        """With a mouse's button held down, through points of the window."""
        x, y = points[0]
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for x, y in points:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def audit(self, axe=True):
        """What tests/web/audit.js, and axe where it is installed, have to say against the page."""
        with open(os.path.join(HERE, "audit.js"), encoding="utf-8") as f:
            found = self.run(f"({f.read()})()")
        axe = axe and axe_source()
        if axe:
            self.call("Page.setBypassCSP", enabled=True)
            self.run(axe + ";0")
            found += self.run("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap("
                              "v => v.nodes.map(n => 'axe ' + v.id + ': ' + n.target.join(' '))))")
        return found

    def shot(self, path, whole=True):
        size = self.run("[document.documentElement.clientWidth, document.documentElement.scrollHeight, innerHeight]")
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size[0], "height": min(size[1] if whole else size[2], 8000), "scale": 1})["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        self.browser.pages.pop(self.session, None)


def axe_source():
    """axe-core, of a Python package that brings it along (axe-core-python, axe-playwright-python), or None."""
    for folder in os.environ.get("WISP_AXE", "").split(":"):
        for root, _, names in os.walk(folder) if folder else ():
            if "axe.min.js" in names:
                with open(os.path.join(root, "axe.min.js"), encoding="utf-8") as f:
                    return f.read()
    from importlib.util import find_spec
    for package in ("axe_playwright_python", "axe_core_python"):
        spec = find_spec(package)
        for folder in spec.submodule_search_locations if spec else ():
            for root, _, names in os.walk(folder):
                if "axe.min.js" in names:
                    with open(os.path.join(root, "axe.min.js"), encoding="utf-8") as f:
                        return f.read()
    return None
