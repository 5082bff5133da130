"""A server of the tests: started on a port that the system chooses, asked over loopback, always ended."""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

wisp = os.path.abspath(sys.argv[1])
passed = failed = skipped = 0


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok   " if good else "FAIL ") + name + ("" if good else f": {why}"), flush=True)


def end():
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


def need_server():
    """Without the part for servers there is nothing to test."""
    global skipped
    if not os.path.exists(os.path.join(os.path.dirname(wisp), "wisp-http.so")):
        skipped = 1
        print("SKIP wisp serve: this build has no wisp-http.so (libmicrohttpd-dev, or HTTP=0)")
        end()


def run(*words, **more):
    return subprocess.run([wisp, *words], capture_output=True, text=True, check=True, **more)


def make_models(folder):
    """A model of numbered features with an index ('rows'), and one of text ('words')."""
    os.chdir(folder)
    run("synth", "toy", "--rows", "2000", "--features", "500", "--labels", "60", "--test-rows", "200")
    with open("names.txt", "w") as f:
        f.writelines(f"label {i}\n" for i in range(60))
    with open("vocab.txt", "w") as f:
        f.writelines(f"word{i}\n" for i in range(500))
    run("train", "toy_train.txt", "-o", "rows", "--epochs", "2", "--labels", "names.txt", "--vocab", "vocab.txt",
        "--sampling", "random", "--index", "yes", "--hidden", "32")
    with open("texts.csv", "w") as f:
        f.write("text,labels\n")
        for i in range(400):
            f.write(("how long does bread keep,bread|storage\n", "my sponge cake sank,cake\n",
                     "too much salt in the broth,soup\n", "bread and cake in a tin,bread|cake\n")[i % 4])
    run("train", "texts.csv", "-o", "words", "--label-separator", "|", "--epochs", "5", "--hidden", "16")


class Server:
    def __init__(self, *words, env=None):
        self.err = tempfile.NamedTemporaryFile("w+", suffix=".err")
        self.process = subprocess.Popen([wisp, "serve", "--port", "0", *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.err, env={**os.environ, **(env or {})})
        self.port = None
        for _ in range(600):
            found = re.search(r"^listening on (https?)://.*:(\d+)$", self.said(), re.M)
            if found:
                self.port = int(found[2])
                break
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        if not self.port:
            self.process.kill()
            raise RuntimeError(f"no server: {self.said()}")

    def said(self):
        with open(self.err.name) as f:
            return f.read()

    def wait_for(self, pattern, seconds=20):
        for _ in range(int(seconds * 20)):
            if re.search(pattern, self.said()):
                return True
            time.sleep(0.05)
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.err.close()

    def stop(self, sig=15):
        self.process.send_signal(sig)
        self.output = self.process.stdout.read()
        return self.process.wait(60)

    def connect(self, seconds=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def ask(self, path, body=None, headers=None, method=None, connection=None):
        """(status, answer, headers); the answer is an object where it is JSON."""
        c = connection or self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        c.request(method or ("POST" if body is not None else "GET"), path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        if not connection:
            c.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = text.decode("utf-8", "replace")
        return r.status, answer, dict(r.getheaders())

    def raw(self, data, seconds=20, half=False):
        """Sends bytes as they are; all that comes back until the other side ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            got = b""
            try:
                s.sendall(data)
                if half:
                    s.shutdown(socket.SHUT_WR)
                while True:
                    piece = s.recv(65536)
                    if not piece:
                        return got
                    got += piece
            except OSError:
                return got


def at_once(n, work):
    """Runs work(i) in n threads; what each returned or raised."""
    out = [None] * n

    def one(i):
        try:
            out[i] = work(i)
        except Exception as e:  # the caller looks at it
            out[i] = e
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


class Load:
    """Clients that ask again and again, each on a connection that it keeps."""

    def __init__(self, server, n, body, good):
        self.server, self.body, self.good = server, json.dumps(body), good
        self.over = False
        self.answered, self.failures = [0] * n, []
        self.sending = [threading.Lock() for _ in range(n)]
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(n)]
        for t in self.threads:
            t.start()

    def work(self, i):
        c = self.server.connect()
        try:
            while True:
                with self.sending[i]:
                    if self.over:
                        return
                    c.request("POST", "/predict", self.body)
                r = c.getresponse()
                text = r.read()
                if r.status == 200 and self.good(json.loads(text)):
                    self.answered[i] += 1
                else:
                    self.failures.append((r.status, text[:200]))
                if r.getheader("Connection") == "close":
                    return
        except Exception as e:  # whatever it is: an answer did not come, or is none
            self.failures.append(repr(e))
        finally:
            c.close()

    def wait(self, n):
        """Until so many were answered, or some failed."""
        while sum(self.answered) < n and not self.failures:
            time.sleep(0.01)

    def hold(self):
        """From now on no request is sent; those that were are under way.  A client that is held up between its decision to send
        and the sending would else find a server that has ended, and nobody could tell that from a lost request."""
        self.over = True
        for lock in self.sending:
            with lock:
                pass

    def end(self):
        self.over = True
        for t in self.threads:
            t.join()
        return sum(self.answered)
