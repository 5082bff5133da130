#!/usr/bin/python3
"""wisp.Client against 'wisp serve': every kind of row, pictures, errors, tokens; and the form that Annif asks with.

usage: test_client.py BUILD
"""
import base64
import json
import os
import struct
import sys
import tempfile
import urllib.parse
import zlib

from rig import *

command = os.path.join(build, "wisp")
sys.argv = [sys.argv[0], command]
sys.path.insert(0, os.path.join(root, "tests", "serve"))
if not os.path.exists(os.path.join(build, "wisp-http.so")):
    skip_all("this build has no wisp-http.so (libmicrohttpd-dev, or HTTP=0)")
import numpy as np
import scipy.sparse as sp
import wisp
from serve_rig import Server, make_models, run

folder = tempfile.TemporaryDirectory(prefix="wisp-client-")
make_models(folder.name)

# Images of 8 x 8: class 0 is dark above, class 1 is dark below.
draw = np.random.RandomState(1)
images = draw.randint(0, 100, (400, 8, 8)).astype(np.uint8)
classes = draw.randint(0, 2, 400)
for image, c in zip(images, classes):
    image[4 * c:4 * c + 4] += 150
with open("x-images-idx3-ubyte", "wb") as f:
    f.write(struct.pack(">IIII", 0x803, 400, 8, 8) + images.tobytes())
with open("x-labels-idx1-ubyte", "wb") as f:
    f.write(struct.pack(">II", 0x801, 400) + classes.astype(np.uint8).tobytes())
run("train", "x-images-idx3-ubyte", "--net", "image, conv 4 3x3, relu, maxpool 2, flatten", "-o", "halves", "--epochs", "5")


def png(pixels):
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = pixels.shape
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            part(b"IDAT", zlib.compress(b"".join(b"\0" + line.tobytes() for line in pixels))) + part(b"IEND", b""))


def told(*words):
    return [[(b["label"], b["score"]) for b in json.loads(line)["labels"]] for line in run("predict", *words, "--json").stdout.splitlines()]


def near(got, want):
    return len(got) == len(want) and all(
        len(g) == len(w) and all(a.id == b[0] and abs(a.score - b[1]) < 2e-5 for a, b in zip(g, w)) for g, w in zip(got, want))


lines = open("toy_test.txt").read().split("\n")[1:21]
x = sp.lil_matrix((20, 500), dtype=np.float32)
for i, line in enumerate(lines):
    for pair in line.split(" ")[1:]:
        j, v = pair.split(":")
        x[i, int(j)] = float(v)
x = x.tocsr()
with open("twenty.txt", "w") as f:
    f.write("20 500 60\n" + "\n".join(lines) + "\n")
want = told("rows", "twenty.txt", "-k", "3")
with Server("rows", "words", "halves") as s:
    url = f"http://127.0.0.1:{s.port}"
    client = wisp.Client(url)
    check("ready", client.ready())
    check("models", [m["name"] for m in client.models()] == ["rows", "words", "halves"])
    check("metrics", 'wisp_model_version{model="words"} 1' in client.metrics())
    check("a scipy matrix", near(client.predict(x, k=3), want))
    check("an array", near(client.predict(x.toarray(), k=3), want))
    one = {int(j): float(v) for j, v in zip(x[0].indices, x[0].data)}
    check("a dict of ids", near(client.predict(one, k=3), want[:1]))
    check("dicts of names", near(client.predict([{f"word{j}": v for j, v in one.items()}], k=3), want[:1]))
    texts = ["How long does rye BREAD keep?", "a sponge cake"]
    got = client.predict(texts, model="words", k=1)
    check("texts", [row[0].label for row in got] == ["bread", "cake"], got)
    check("a text, and the model of the client", wisp.Client(url, model="words").predict(texts[0], k=1) == got[:1])
    check("no rows", client.predict([]) == [])
    e = raises("an unknown model", wisp.ClientError, "404: no model 'x'", client.predict, "a", model="x")
    check("its status", e.status == 404)
    raises("text for numbers", wisp.ClientError, "400: found 'text'", client.predict, "a")

    want = told("halves", "x-images-idx3-ubyte", "-k", "2")[:10]
    files = [png(i) for i in images[:10]]
    with open("one.png", "wb") as f:
        f.write(files[0])
    got = client.predict_pictures(["one.png", *files[1:]], k=2, model="halves")
    check("pictures", near(got, want), (got[:2], want[:2]))
    bodies = [{"rows": [{"pixels": i.tolist()} for i in images[:10]]}, {"rows": [{"pixels": i.ravel().tolist()} for i in images[:10]]},
              {"rows": [{"image": "data:image/png;base64," + base64.b64encode(p).decode()} for p in files]}]
    for name, body in zip(("pixels, nested", "pixels", "data URLs"), bodies):
        answer = s.ask("/predict", {**body, "k": 2, "model": "halves"})[1]
        check(name, [[b["id"] for b in row["labels"]] for row in answer["rows"]] == [[b[0] for b in row] for row in want], answer)
    answer = s.ask("/v2/models/halves/infer", {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [10, 1, 8, 8],
                                                           "data": images[:10].ravel().tolist()}], "parameters": {"k": 1}})[1]
    check("v2: images", answer["outputs"][0]["data"] == [row[0][0] for row in want], answer)
    answer = s.ask("/predict/halves", {"pixels": images[0].tolist(), "k": 1, "explain": True})[1]
    check("explain: a part for each pixel", len(answer["rows"][0]["labels"][0]["parts"]) == 64, answer)
    check("explain, by the client", any(
        w["feature"] == "bread" for w in client.predict("rye bread", k=1, explain=50, model="words")[0][0].why))
    for body, words in (({"pixels": [1, 2]}, "row 0 has 2 pixels, expected 64"), ({"image": "AAAA"}, "JPEG or PNG"), ({"image": "A"}, "base64"),
                        ({"image": base64.b64encode(files[0][:-30]).decode()}, "damaged"), ({"pixels": [256]}, "0..255"),
                        ({"ids": [1]}, "images of 1 x 8 x 8"),
                        ({"image": base64.b64encode(files[0][:16] + struct.pack(">II", 60000, 60000) + files[0][24:]).decode()}, "")):
        status, answer, _ = s.ask("/predict/halves", body)
        check(f"refused: {str(body)[:30]}", status == 400 and words in answer["error"]["message"], answer)

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, answer, _ = s.ask("/v1/projects/words/suggest", urllib.parse.urlencode({"project": "x", "text": "rye bread & käse", "limit": 2}), form)
    check("Annif's form", status == 200 and len(answer["results"]) == 2 and answer["results"][0]["uri"] == "bread" and
          answer["results"][0]["score"] > 0.1, answer)
    check("Annif's form without a text", s.ask("/v1/projects/words/suggest", "texts=1", form)[0] == 400)
    check("Annif's form with bytes that are no text", s.ask("/v1/projects/words/suggest", "text=%ff", form)[0] == 400)
    check("Annif's question about a project", s.ask("/v1/projects/words")[1]["is_trained"] is True)
    check("other paths and projects", s.ask("/v1/projects/words/x", "text=a", form)[0] == s.ask("/v1/projects/y/suggest", "text=a", form)[0] ==
          s.ask("/v1/projects/y")[0] == s.ask("/v1/projects/")[0] == 404)

with open("token", "w") as f:
    f.write("s3cret\n")
with Server("words", "--token-file", "token", "--max-queue", "1", "--max-wait", "300") as s:
    url = f"http://127.0.0.1:{s.port}"
    raises("no token", wisp.ClientError, "401: no token", wisp.Client(url).predict, "bread")
    client = wisp.Client(url, token="s3cret")
    check("a token", client.predict("bread", k=1)[0][0].label == "bread")
    from serve_rig import at_once
    got = at_once(4, lambda i: client.predict(["bread"] * 3, k=1))
    check("a server that is busy is asked again", all(isinstance(g, list) and len(g) == 3 for g in got), got)
raises("no server", wisp.ClientError, "refused", wisp.Client(url).predict, "bread")
check("not ready", not wisp.Client(url).ready())
end()
