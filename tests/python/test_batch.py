"""docs/batch.md with local Spark and Ray: its programs run as they stand, answers are those of one process, and a worker process
opens the model once and has it mapped, without a page of its own.

usage: test_batch.py BUILD       BATCH_PYTHON names a python3 that has pyspark (which needs Java) or ray, with pandas and pyarrow
"""
import shutil
import tempfile

from rig import *

python = os.environ.get("BATCH_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = os.path.join(root, "python")
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
os.environ.update(SPARK_LOCAL_IP="127.0.0.1", RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")

# Loaded by every process that looks for it: each opening of a model is written down, and what is mapped when a process ends.
SITE = '''
import os, sys
if os.path.exists("/proc/self/smaps"):
    import importlib.abc, importlib.util
    class Watch(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name != "wisp._model":
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            run = spec.loader.exec_module
            def exec_module(module):
                run(module)
                opened, asked = module.Model.open.__func__, module.Model.__init__
                def note(what):
                    with open(os.path.join(%r, str(os.getpid())), "a") as f:
                        f.write(what + "\\n")
                def open_and_note(cls, path):
                    note("opened")
                    out = opened(cls, path)
                    lines = open("/proc/self/smaps").read().splitlines()
                    inside = False
                    for line in lines:
                        word = line.split()
                        if "-" in word[0] and not word[0].endswith(":"):
                            inside = line.endswith("questions.wisp")
                            if inside: note("mapped")
                        elif inside and word[0] in ("Private_Dirty:", "Anonymous:"):
                            note("own " + word[1])
                    return out
                module.Model.open = classmethod(open_and_note)
            spec.loader.exec_module = exec_module
            return spec
    sys.meta_path.insert(0, Watch())
'''


def has(*names):
    return subprocess.run([python, "-c", "import " + ", ".join(names)], capture_output=True).returncode == 0


def program(name):
    """Runs it; what its processes noted about models."""
    notes = os.path.abspath("notes")
    shutil.rmtree(notes, ignore_errors=True)
    os.mkdir(notes)
    os.makedirs("site", exist_ok=True)
    with open("site/sitecustomize.py", "w") as f:
        f.write(SITE % notes)
    paths = os.pathsep.join([os.path.abspath("site"), os.path.join(root, "python"), os.getcwd()])
    ran = subprocess.run([python, name], capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": paths})
    check(f"{name} runs", ran.returncode == 0, ran.stderr[-1500:])
    return {pid: open(os.path.join(notes, pid)).read().split("\n")[:-1] for pid in os.listdir(notes)}


def judge(name, answers, notes):
    read = f"""
import pandas, json, wisp
got = pandas.read_parquet({answers!r}).sort_values("id")
labels, scores = wisp.WispClassifier.load("questions.wisp").predict_top(list(got["text"]), k=2)
assert len(got) == 300 and list(got["id"]) == list(range(300)), len(got)
assert [list(x) for x in got["labels"]] == [list(x) for x in labels]
assert all(abs(a - b) < 1e-6 for x, y in zip(got["scores"], scores) for a, b in zip(x, y))
assert [x[0] for x in got["labels"]][1:3] == ["cake", "soup"], got
"""
    ran = subprocess.run([python, "-c", read], capture_output=True, text=True)
    check(f"{name}: the answers of one process", ran.returncode == 0, ran.stderr[-800:])
    check(f"{name}: workers opened the model", notes)
    check(f"{name}: once per process", all(lines.count("opened") == 1 for lines in notes.values()), notes)
    check(f"{name}: it is mapped", all("mapped" in lines for lines in notes.values()), notes)
    own = [line for lines in notes.values() for line in lines if line.startswith("own ") and line != "own 0"]
    check(f"{name}: with no page of its own", not own, notes)


with open(os.path.join(root, "docs", "batch.md")) as f:
    blocks = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
programs = {block.split("\n")[0][2:]: block for block in blocks if block.startswith("# ")}
check("the page has a model and three programs", len(blocks) == 4 and set(programs) == {"tagging.py", "spark.py", "rays.py"}, list(programs))
if not has("wisp", "pandas", "pyarrow"):
    skip("Spark and Ray: pandas or pyarrow is missing (pip install pyspark ray pandas pyarrow, and BATCH_PYTHON=that python3)")
    end()
with tempfile.TemporaryDirectory(prefix="wisp-batch-") as folder:
    os.chdir(folder)
    large = blocks[0].replace("seed=1", "seed=1, hidden=16384")  # small files are copied, not mapped
    ran = subprocess.run([python, "-c", large], capture_output=True, text=True)
    check("the model", ran.returncode == 0 and os.path.getsize("questions.wisp") > 4 << 20, ran.stderr[-800:])
    for name, text in programs.items():
        with open(name, "w") as f:
            f.write(text)
    if has("pyspark") and shutil.which("java"):
        judge("Spark", "answers", program("spark.py"))
    else:
        skip("Spark: there is no pyspark, or no Java (pip install pyspark; BATCH_PYTHON=that python3)")
    if has("ray.data"):
        judge("Ray", "answers-of-ray", program("rays.py"))
    else:
        skip("Ray: there is no ray (pip install ray; BATCH_PYTHON=that python3)")
    os.chdir(root)
end()
