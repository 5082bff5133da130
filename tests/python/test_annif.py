#!/usr/bin/python3
"""wisp in Annif: as a backend of its own (wisp.annif), and as a server behind Annif's http backend.  Skipped where this Python
has no Annif (pip install annif).

usage: test_annif.py BUILD
"""
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from rig import *

if not find_spec("annif"):
    skip_all("this Python has no Annif (pip install annif)")
command = os.path.join(build, "wisp")
sys.argv = [sys.argv[0], command]
sys.path.insert(0, os.path.join(root, "tests", "serve"))
from serve_rig import Server, run

folder = tempfile.TemporaryDirectory(prefix="wisp-annif-")
os.chdir(folder.name)
os.environ["PYTHONPATH"] = os.path.join(root, "python")
URI = "http://example.org/subject/"
documents = [("how long does bread keep", ["bread", "storage"]), ("my sponge cake sank in the oven", ["cake"]),
             ("too much salt in the broth", ["soup"]), ("bread and cake in a tin", ["bread", "cake"])] * 50
with open("vocab.tsv", "w") as f:
    f.writelines(f"<{URI}{name}>\t{name}\n" for name in ("bread", "storage", "cake", "soup"))
with open("corpus.tsv", "w") as f:
    f.writelines(text + "\t" + " ".join(f"<{URI}{s}>" for s in subjects) + "\n" for text, subjects in documents)
with open("corpus.jsonl", "w") as f:
    f.writelines(json.dumps({"text": text, "labels": [URI + s for s in subjects]}) + "\n" for text, subjects in documents)


def annif(*words, text=None):
    got = subprocess.run([sys.executable, "-m", "wisp.annif", *words], input=text, capture_output=True, text=True, timeout=200)
    return got.returncode, got.stdout + got.stderr


def projects(port):
    with open("projects.cfg", "w") as f:
        f.write("[module]\nname=module\nlanguage=en\nbackend=wisp\nvocab=food\nlimit=4\nepochs=5\nhidden=16\n\n"
                f"[served]\nname=served\nlanguage=en\nbackend=http\nvocab=food\nlimit=4\nendpoint=http://127.0.0.1:{port}/v1/projects/food/suggest\n")


projects(1)
code, said = annif("load-vocab", "food", "vocab.tsv", "--language", "en")
check("a vocabulary", code == 0, said)
code, said = annif("suggest", "module", text="rye bread")
check("not trained: said", code != 0 and "not trained" in said, said)
code, said = annif("train", "module", "corpus.tsv")
check("train", code == 0, said)
code, said = annif("suggest", "module", text="how long does rye bread keep")
check("suggest", code == 0 and said.split("\n")[0].startswith(f"<{URI}bread>"), said)
code, said = annif("eval", "module", "corpus.tsv")
check("eval", code == 0 and "F1@5" in said, said)
if os.path.exists(os.path.join(build, "wisp-http.so")):
    run("train", "corpus.jsonl", "-o", "food", "--epochs", "5", "--hidden", "16")
    with Server("food") as s:
        projects(s.port)
        code, said = annif("suggest", "served", text="how long does rye bread keep")
        check("over HTTP: suggest", code == 0 and said.split("\n")[0].startswith(f"<{URI}bread>"), said)
        code, said = annif("list-projects")
        check("over HTTP: is trained", code == 0 and "served" in said and "True" in said, said)
        code, said = annif("eval", "served", "corpus.tsv")
        check("over HTTP: eval", code == 0 and "F1@5" in said, said)
else:
    skip("over HTTP: this build has no wisp-http.so")
end()
