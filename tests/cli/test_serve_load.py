#!/usr/bin/python3
"""wisp serve under load and under abuse: models exchanged and the server ended while requests run, slow and idle
clients, bodies that are too large, requests that are none, tokens, TLS, the log.

usage: test_serve_load.py WISP
WISP_SERVE_SECONDS: how long models are exchanged under load (3)
"""
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
import serve_rig
from serve_rig import Load, Server, at_once, check, end, make_models, need_server, run, wisp

need_server()
folder = tempfile.TemporaryDirectory(prefix="wisp-serve-")
make_models(folder.name)
seconds = float(os.environ.get("WISP_SERVE_SECONDS", "3"))
row = {"ids": [1, 20, 300], "values": [1, 2, 1]}

# ---- models are exchanged while requests run: every answer is the one model's or the other's ----
run("train", "toy_train.txt", "-o", "other", "--epochs", "1", "--labels", "names.txt", "--seed", "2", "--sampling", "random",
    "--index", "yes", "--hidden", "16")
for how in "sparse", "exact":
    shutil.copy("rows", "first")
    os.rename("first", "live")
    with Server("live", "--inference", how, "--reload-every", "0.1") as s:
        right = []
        for model in "rows", "other":
            shutil.copy(model, "next")
            os.rename("next", "live")
            s.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            right.append(s.ask("/predict", row)[1]["rows"])
        check(f"{how}: the two models differ", right[0] != right[1], right)
        load = Load(s, 8, row, lambda got: got["rows"] in right or near(got["rows"], right))

        def near(got, wanted):  # one row alone and in a batch differ by rounding
            return any(all(abs(a["score"] - b["score"]) < 2e-5 and a["id"] == b["id"] for a, b in
                           zip(got[0]["labels"], w[0]["labels"])) for w in wanted)
        until, n = time.time() + seconds, 0
        while time.time() < until:
            shutil.copy(("rows", "other")[n % 2], "next")
            os.rename("next", "live")
            n += 1
            time.sleep(0.25 if seconds < 30 else 1)
        time.sleep(0.3)
        version = int(s.ask("/predict", row)[1]["version"])
        answered = load.end()
        check(f"{how}: {answered} requests while the model was exchanged {n} times: none failed",
              not load.failures and answered > 100, load.failures[:3])
        check(f"{how}: the model was exchanged", version >= n // 2, (version, n))

        # a bad file is not taken
        with open("next", "wb") as f:
            f.write(open("rows", "rb").read()[:-100])
        before = s.ask("/predict", row)[1]
        os.rename("next", "live")
        check(f"{how}: a bad file is reported", s.wait_for("the new file is not taken, the old one stays"), s.said()[-300:])
        check(f"{how}: and the old model stays", s.ask("/predict", row)[1] == before)
        check(f"{how}: ready all the while", s.ask("/v2/health/ready")[0] == 200)
        check(f"{how}: the failure is counted", 'wisp_model_reload_failures_total{model="live"} 1' in s.ask("/metrics")[1])
        os.remove("live")
        time.sleep(0.3)
        check(f"{how}: a file that is gone changes nothing", s.ask("/predict", row)[1] == before)
        shutil.copy("rows", "next")
        os.rename("next", "live")
        check(f"{how}: a good file after that is taken", s.wait_for(f"version {int(before['version']) + 1},"), s.said()[-300:])

        # a file that is written to in place: what was mapped is gone
        with open("live", "r+b") as f:
            f.write(b"\0" * 64)
        check(f"{how}: written to in place: said", s.wait_for("written to in place"), s.said()[-300:])
        got = s.ask("/predict", row)
        check(f"{how}: written to in place: 503", got[0] == 503 and "Retry-After" in got[2], got)
        check(f"{how}: written to in place: not ready", s.ask("/v2/health/ready")[0] == 503)
        shutil.copy("rows", "next")
        os.rename("next", "live")
        for _ in range(100):
            if s.ask("/v2/health/ready")[0] == 200:
                break
            time.sleep(0.05)
        check(f"{how}: ready again", s.ask("/predict", row)[0] == 200)

# ---- SIGTERM under load ----
for how in "sparse", "exact":
    with Server("rows", "--inference", how) as s:
        load = Load(s, 16, row, lambda got: len(got["rows"]) == 1)
        load.wait(200)
        load.hold()  # what is sent after SIGTERM may find the door closed
        code = s.stop()
        answered = load.end()
        check(f"{how}: SIGTERM under load: exit code 0", code == 0, s.said())
        check(f"{how}: SIGTERM under load: {answered} answered, none lost", answered > 50 and not load.failures, load.failures[:3])

# ---- SIGTERM with more to do than there is time for ----
with Server("rows", "--drain-time", "0", "--max-wait", "1000") as s:
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(s.ask("/predict", row)[0])) for _ in range(4)]
    for t in threads:
        t.start()
    time.sleep(0.3)  # they wait for others to go with
    code = s.stop()
    for t in threads:
        t.join()
    check("no time to drain: an answer all the same, 200 or 503", code == 0 and len(answers) == 4 and set(answers) <= {200, 503},
          (code, answers, s.said()))

# ---- kill -9 and again on the same port ----
with Server("rows") as s:
    s.stop(signal.SIGKILL)
    port = s.port
    again = subprocess.Popen([wisp, "serve", "rows", "--port", str(port)], stderr=subprocess.PIPE, text=True)
    lines = [again.stderr.readline() for _ in range(2)]
    again.terminate()
    again.stderr.close()
    check("kill -9, and again on the same port", again.wait(30) == 0 and "listening" in lines[1], lines)

# ---- limits ----
with Server("rows", "--header-time", "0.5", "--idle-time", "1", "--max-body", "100K", "--max-rows", "10", "--max-connections", "300",
            "--max-queue", "20", "--max-wait", "200") as s:
    got = s.ask("/predict", '{"text":"' + "x" * 200000 + '"}')
    check("a body that is too large: 413", got[0] == 413 and "102400" in got[1]["error"]["message"], got)
    pieces = (b"%x\r\n" % 50000 + b"y" * 50000 + b"\r\n") * 4 + b"0\r\n\r\n"
    got = s.raw(b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + pieces)
    check("the same in chunks, whose length is not told: 413", got.startswith(b"HTTP/1.1 413"), got[:200])
    got = s.ask("/predict", {"rows": [row] * 11})
    check("too many rows: 400", got[0] == 400 and "more than 10 rows" in got[1]["error"]["message"], got)
    answers = at_once(12, lambda i: s.ask("/predict", {"rows": [row] * 9}))
    codes = sorted(a[0] for a in answers)
    check("a full queue: 503 with Retry-After, the others are answered", codes[0] == 200 and codes[-1] == 503 and
          all(a[0] == 200 or a[2].get("Retry-After") for a in answers), codes)
    for name, begun in (("headers", b"POST /predict HTTP/1.1\r\nHost: x\r\n"),
                        ("a body", b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")):
        t = time.time()
        got = s.raw(begun)
        check(f"{name} that do not come: 408 soon", got.startswith(b"HTTP/1.1 408") and time.time() - t < 8, (got[:100], time.time() - t))
        head, _, body = got.partition(b"\r\n\r\n")
        check(f"{name} that do not come: JSON of the length that is told",
              json.loads(body)["error"]["status"] == 408 and b"Content-Length: %d" % len(body) in head, got)

    def drip(i):
        with socket.create_connection(("127.0.0.1", s.port), timeout=20) as c:
            c.sendall(b"GET /v2/health/live HTTP/1.1\r\n")
            for _ in range(100):  # a byte now and then, so that it is never idle
                try:
                    c.sendall(b"A")
                    time.sleep(0.1)
                except OSError:
                    return True
        return False
    check("20 clients that send a byte now and then are ended", all(r is True for r in at_once(20, drip)))
    idle = [socket.create_connection(("127.0.0.1", s.port), timeout=20) for _ in range(50)]
    check("idle connections are ended", all(c.recv(10) == b"" for c in idle))
    for c in idle:
        c.close()
    kept = s.connect()
    s.ask("/predict", row, connection=kept)
    check("a connection that is kept for too long is ended", kept.sock.recv(1) == b"")
    kept.close()
    metrics = s.ask("/metrics")[1]
    check("late requests are counted", "wisp_requests_late_total 0\n" not in metrics)
    check("alive after all that", s.ask("/predict", row)[0] == 200)
    check("and ends well", s.stop() == 0, s.said())

# ---- as many connections as are allowed; none of them is ended for being idle, however long a busy machine takes to open them ----
with Server("rows", "--header-time", "600", "--idle-time", "600", "--max-connections", "300") as s:
    idle = [socket.create_connection(("127.0.0.1", s.port), timeout=60) for _ in range(250)]
    check("answers beside 250 idle connections", s.ask("/predict", row)[0] == 200)
    more = [socket.create_connection(("127.0.0.1", s.port), timeout=60) for _ in range(60)]
    refused = [c.recv(1000) for c in more[-5:]]
    check("connections beyond the limit: 503", all(b"503" in r[:20] and b"Retry-After" in r for r in refused), refused[-1])
    body = refused[0].partition(b"\r\n\r\n")[2]
    check("503: JSON of the length that is told", b'"status":503' in body and b"Content-Length: %d\r\n" % len(body) in refused[0], refused[0])
    for c in idle + more:
        c.close()
    for _ in range(200):  # until there is room again
        if s.ask("/v2/health/live")[0] == 200:
            break
        time.sleep(0.05)
    check("refused connections are counted", "wisp_connections_refused_total 0\n" not in s.ask("/metrics")[1])
    check("the limit: ends well", s.stop() == 0, s.said())


def connections_left(s):
    """How many are open: "1", this one, as soon as the others have been ended."""
    for _ in range(100):
        left = re.search(r"^wisp_connections (\d+)$", s.ask("/metrics")[1], re.M)[1]
        if left == "1":
            break
        time.sleep(0.1)
    return left


# ---- requests that are none ----
with Server("rows", "--header-time", "1", "--idle-time", "2") as s:
    draw = random.Random(7)
    good = b'POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\nConnection: close\r\n\r\n{"ids":[1],"values":[1]}'

    def bad_request(i):
        b = bytearray(good)
        kind = draw.randrange(5)
        if kind == 0:
            b = bytearray(draw.randbytes(draw.randrange(1, 400)))
        elif kind == 1:
            b = b[:draw.randrange(1, len(b))]
        elif kind == 2:
            for _ in range(draw.randrange(1, 12)):
                b[draw.randrange(len(b))] = draw.randrange(256)
        elif kind == 3:
            at = draw.randrange(len(b))
            b[at:at] = draw.randbytes(draw.randrange(1, 3000))
        else:
            b = b.replace(b"24", draw.choice([b"-1", b"99999999999999999999", b"0x18", b"24,24", b"", b"1e1"]))
        return s.raw(bytes(b), half=True)
    for _ in range(10):
        at_once(20, bad_request)
    check("alive after 200 malformed requests", s.ask("/predict", row)[0] == 200)
    left = connections_left(s)
    check("no connection is left behind", left == "1", left)
    check("ends well", s.stop() == 0)

# ---- many clients at once: small requests are predicted together, and are answered as one alone is ----
with Server("rows", "--inference", "sparse") as s:
    want = s.ask("/predict", row)[1]["rows"][0]["labels"]
    body = json.dumps(row).encode()
    asked = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def answer(c):
        got = b""
        while b"\r\n\r\n" not in got:
            got += c.recv(65536)
        head, _, text = got.partition(b"\r\n\r\n")
        while len(text) < int(re.search(rb"Content-Length: (\d+)", head)[1]):
            text += c.recv(65536)
        return json.loads(text)["rows"][0]["labels"]

    def near(got):  # a row alone and a row in a batch may round differently
        return [g["id"] for g in got] == [w["id"] for w in want] and all(abs(g["score"] - w["score"]) < 2e-5 for g, w in zip(got, want))

    def batches(s, most):
        return int(re.search(rf'^wisp_batch_rows_bucket{{le="{re.escape(most)}"}} (\d+)$', s.ask("/metrics")[1], re.M)[1])
    crowd = [socket.create_connection(("127.0.0.1", s.port), timeout=60) for _ in range(8 * os.cpu_count() + 30)]
    wrong, rounds = [], 0
    while rounds < 50 and (rounds < 3 or batches(s, "+Inf") == batches(s, "1")):
        for c in crowd:
            c.sendall(asked)
        wrong += [got for got in map(answer, crowd) if not near(got)]
        rounds += 1
    check(f"{len(crowd)} clients at once, {rounds} times: the answers of one alone", not wrong, wrong[:1])
    check("some of them were predicted together", batches(s, "+Inf") > batches(s, "1"))
    for c in crowd:
        c.close()
    check("the crowd: ends well", s.stop() == 0)

# ---- clients that end their half of the connection after the request ----
for how in ("--inference", "sparse"), ("--max-wait", "20"):
    with Server("rows", *how) as s:  # --idle-time 60, --header-time 10
        one = b'POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\n\r\n{"ids":[1],"values":[1]}'
        chunks = b'POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{"ids":[1\r\n2\r\n]}\r\n0\r\n\r\n'
        for name, data, n in (("one", one, 1), ("five in a row", one * 5, 5), ("chunks", chunks, 1),
                              ("nothing", b"", 0), ("half a header", one[:30], 0), ("half a body", one[:-5], 0)):
            begun = time.time()
            got = s.raw(data, seconds=50, half=True)
            check(f"half-closed, {how[0]}: {name}: {n} answers, then the end", got.count(b"HTTP/1.1 200") == n and
                  time.time() - begun < 40, (got[:200], time.time() - begun))
        left = connections_left(s)
        check(f"half-closed, {how[0]}: no place is held", left == "1", left)
        with socket.create_connection(("127.0.0.1", s.port), timeout=20) as c:
            c.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 24\r\n\r\n")
            said = c.recv(1000)
            c.sendall(one[-24:])
            check(f"{how[0]}: a client that waits to be told to go on", said.startswith(b"HTTP/1.1 100") and
                  c.recv(100).startswith(b"HTTP/1.1 200"), said)

# ---- tokens, the log ----
with open("token", "w") as f:
    f.write("open sesame\n")
with Server("rows", "--token-file", "token", "--access-log", "log.jsonl") as s:
    check("no token: 401", s.ask("/predict", row)[0] == 401)
    check("another token: 401", s.ask("/predict", row, {"Authorization": "Bearer open sesam"})[0] == 401)
    check("a longer one: 401", s.ask("/predict", row, {"Authorization": "Bearer open sesameopen sesame"})[0] == 401)
    check("an empty one: 401", s.ask("/metrics", None, {"Authorization": "Bearer "})[0] == 401)
    check("the token", s.ask("/predict", row, {"Authorization": "Bearer open sesame"})[0] == 200)
    check("health needs none", s.ask("/v2/health/live")[0] == 200)
    s.ask("/nowhere%22%7f%ff", None)
    check("the token is said nowhere", "sesame" not in s.said())
    s.stop()
    lines = [json.loads(line) for line in open("log.jsonl")]
    seen = sorted((e["path"], e["status"], e["rows"]) for e in lines)  # two threads write: neighbours may change places
    check("the log has a line for each request", seen[:5] == [("/metrics", 401, 0), ("/nowhere\"\x7f\ufffd", 404, 0)] +
          [("/predict", 200, 1)] + [("/predict", 401, 0)] * 2 and len(seen) == 7, seen)
with Server("rows", env={"WISP_TOKEN": "x y"}) as s:
    check("a token of the environment", s.ask("/predict", row)[0] == 401 and
          s.ask("/predict", row, {"Authorization": "Bearer x y"})[0] == 200)
    check("'bearer' in any case, as HTTP has it", s.ask("/predict", row, {"Authorization": "bearer x y"})[0] == 200)
    got = s.ask("/predict", row, {"Authorization": "Basic eCB5"})
    check("another scheme is no other token", got[0] == 401 and "another scheme than Bearer" in got[1]["error"]["message"], got)
with Server("rows", "--access-log", "-") as s:
    s.ask("/predict", row)
    s.stop()
    check("the log on stdout", json.loads(s.output)["status"] == 200, s.output)

# ---- TLS ----
made = shutil.which("openssl") and subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days",
                       "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True)
if made and made.returncode == 0:
    with Server("rows", "--tls-cert", "cert.pem", "--tls-key", "key.pem") as s:
        trust = ssl.create_default_context(cafile="cert.pem")
        c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=20, context=trust)
        check("TLS", s.ask("/predict", row, connection=c)[0] == 200 and "https://" in s.said())
        c.close()
        s.raw(b"GET / HTTP/1.1\r\n\r\n", half=True)
        check("alive after plain HTTP to TLS", s.process.poll() is None)
        check("TLS: ends well", s.stop() == 0)
else:
    serve_rig.skipped += 1
    print("SKIP TLS: there is no openssl to make a certificate with")

for words, code, said in ((("nowhere",), 5, "nowhere: No such file"), (("toy_train.txt",), 4, "expected a model"),
                          (("rows", "rows"), 2, "two models are called 'rows'"), (("a b=rows",), 2, "cannot name a model"),
                          (("words", "--inference", "sparse"), 2, "index"), (("rows", "--address", "no such host"), 2, "no address"),
                          (("rows", "--tls-cert", "names.txt"), 2, "without the other"),
                          (("rows", "--tls-cert", "names.txt", "--tls-key", "names.txt"), 2, "PEM"),
                          (("rows", "--access-log", "rows"), 2, "would be written")):
    got = subprocess.run([wisp, "serve", "--port", "0", *words], capture_output=True, text=True, timeout=30)
    check(f"serve {' '.join(words)}: {code}", got.returncode == code and said in got.stderr, (got.returncode, got.stderr))
with socket.create_server(("127.0.0.1", 0)) as taken:
    got = subprocess.run([wisp, "serve", "rows", "--port", str(taken.getsockname()[1])], capture_output=True, text=True, timeout=30)
    check("a port that is taken: 5", got.returncode == 5 and "take another --port" in got.stderr, got)
end()
