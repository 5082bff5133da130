"""The same net behind other people's servers, for bench/serve: FastAPI and uvicorn with the Python package or with ONNX Runtime, and
TorchServe.

ONNX Runtime and TorchServe score all labels: values of the row as wisp scales them, one hidden layer, ReLU, softmax, the five best.
Weights are the model's own, so answers can be compared with those of wisp's exact prediction, and are, before anything is timed."""
import json
import os
import shutil
import struct
import subprocess
import sys

FIVE = 5
CORES = len(os.sched_getaffinity(0))


class Missing(Exception):
    """A server that cannot be measured here; the text says why, and stands in its row."""


# ---- the net ----

def read_net(path):
    """{name: array} and how values are scaled, of a model with one hidden layer."""
    import numpy as np
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        base = f.tell()

        def tensor(name):
            kind = {"F32": np.float32}.get(head[name]["dtype"])
            if not kind:
                raise Missing(f"its weights are {head[name]['dtype']}, not F32")
            begin, end = head[name]["data_offsets"]
            f.seek(base + begin)
            return np.frombuffer(f.read(end - begin), kind).reshape(head[name]["shape"])

        meta = head.get("__metadata__", {})
        layers = sorted((name for name in head if name[0].isdigit() and name.endswith(".weight")), key=lambda name: int(name.split(".")[0]))
        net = [layer.split()[0] for layer in meta.get("net", "").split(", ")]
        if [name.split(".")[1] for name in layers] != ["input", "output"] or not {*net} <= {"input", "relu", "dropout"} or "relu" not in net:
            raise Missing("the model is not input, relu, output: " + (meta.get("net") or "no net by itself"))
        if meta["values"] not in ("tfidf", "unit", "raw"):
            raise Missing(f"values {meta['values']}")
        first, last = (name[:-len("weight")] for name in layers)
        return {"embed": tensor(first + "weight"), "embed_bias": tensor(first + "bias").reshape(-1), "out": tensor(last + "weight"),
                "out_bias": tensor(last + "bias").reshape(-1), **({"idf": tensor("idf").reshape(-1)} if meta["values"] == "tfidf" else {})}, meta["values"]


def write_onnx(net, scaling, path):
    """A graph from 'ids' (n, int64) and 'values' (n, float) of one row to 'scores' and 'labels', the five best."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights = [], [numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in {**net, "out": net["out"].T}.items()]

    def constant(name, value, kind):
        weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def node(kind, inputs, output, **how):
        nodes.append(helper.make_node(kind, inputs, [output] if isinstance(output, str) else output, **how))
        return output
    one, least, x = constant("one", 1, np.float32), constant("least", 1e-30, np.float32), "values"
    if scaling == "tfidf":  # x > 1 ? 1 + log x : x
        counts = node("Add", [node("Min", [x, one], "small"), node("Log", [node("Max", [x, one], "large")], "logs")], "counts")
        x = node("Mul", [counts, node("Gather", ["idf", "ids"], "rare")], "weighed")
    if scaling in ("tfidf", "unit"):
        x = node("Div", [x, node("Max", [node("ReduceL2", [x], "length", keepdims=0), least], "some")], "scaled")
    column, rows = constant("column", [1], np.int64), node("Gather", ["embed", "ids"], "rows")
    parts = node("Mul", [rows, node("Unsqueeze", [x, column], "upright")], "parts")
    hidden = node("ReduceSum", [parts, constant("first", [0], np.int64)], "sum", keepdims=1)
    hidden = node("Relu", [node("Add", [hidden, "embed_bias"], "biased")], "hidden")
    logits = node("Add", [node("MatMul", [hidden, "out"], "products"), "out_bias"], "logits")
    node("TopK", [node("Softmax", [logits], "shares", axis=1), constant("k", [FIVE], np.int64)], ["scores", "labels"], axis=1)
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"]),
                                             helper.make_tensor_value_info("values", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, FIVE]),
                               helper.make_tensor_value_info("labels", TensorProto.INT64, [1, FIVE])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


# ---- FastAPI ----

HEAD = """
import sys
import numpy as np
from fastapi import FastAPI, Request
app = FastAPI()
@app.get("/v2/health/live")
async def live():
    return {"live": True}
"""
PACKAGE = HEAD + """
sys.path.insert(0, PYTHON)
import scipy.sparse as sp, wisp
model = wisp.WispClassifier.load(MODEL)
model.set_params(inference="sparse") if "inference" in model.get_params() else None
n = model.n_features_in_
@app.post("/predict")
async def predict(request: Request):
    q = await request.json()
    x = sp.csr_matrix((np.asarray(q["values"], np.float32), np.asarray(q["ids"], np.int32), np.asarray([0, len(q["ids"])], np.int32)), shape=(1, n))
    labels, scores = model.predict_top(x, k=5)
    return {"rows": [{"labels": [{"label": str(l), "score": float(s)} for l, s in zip(labels[0], scores[0])]}]}
"""
ONNX = HEAD + """
import onnxruntime as ort
o = ort.SessionOptions()
o.intra_op_num_threads = o.inter_op_num_threads = 1  # a process for each core
session = ort.InferenceSession(MODEL, o, providers=["CPUExecutionProvider"])
@app.post("/predict")
async def predict(request: Request):
    q = await request.json()
    scores, labels = session.run(None, {"ids": np.asarray(q["ids"], np.int64), "values": np.asarray(q["values"], np.float32)})
    return {"rows": [{"labels": [{"label": str(l), "score": float(s)} for l, s in zip(labels[0], scores[0])]}]}
"""


def can_import(*packages):
    missing = [p for p in packages if subprocess.run([sys.executable, "-c", f"import {p}"], capture_output=True, check=False).returncode]
    if missing:
        raise Missing(f"{sys.executable} cannot import {', '.join(missing)}")


def uvicorn(folder, name, text, port):
    """The command, and how often it says that a process has started.

    With uvloop and httptools: several processes of plain asyncio share a socket that holds back the second part of an answer (Nagle's
    algorithm, 40 ms), and would be measured by that."""
    can_import("uvloop", "httptools")
    with open(os.path.join(folder, name + ".py"), "w") as f:
        f.write(text)
    return [sys.executable, "-m", "uvicorn", name + ":app", "--app-dir", folder, "--log-level", "info", "--no-access-log", "--loop", "uvloop", "--http", "httptools",
            "--workers", str(CORES), "--port", str(port)], ("Application startup complete", CORES)


def package(folder, model, port, root):
    can_import("fastapi", "uvicorn", "numpy", "scipy")
    text = PACKAGE.replace("PYTHON", repr(os.path.join(root, "python"))).replace("MODEL", repr(os.path.abspath(model)))
    return uvicorn(folder, "package", text, port)


def onnx(folder, model, port, _root):
    can_import("fastapi", "uvicorn", "numpy", "onnx", "onnxruntime")
    path = os.path.join(folder, "net.onnx")
    if not os.path.exists(path):
        write_onnx(*read_net(model), path)
    return uvicorn(folder, "runtime", ONNX.replace("MODEL", repr(path)), port)


# ---- TorchServe ----

HANDLER = """
import json, os
import numpy as np, torch
class Handler:
    def initialize(self, context):
        torch.set_num_threads(1)  # a process for each core
        kept = np.load(os.path.join(context.system_properties["model_dir"], "net.npz"))
        self.net = {name: torch.from_numpy(kept[name]) for name in kept.files}
    def handle(self, data, context):
        answers = []
        with torch.inference_mode():
            for row in data:
                q = row.get("body") or row.get("data")
                q = q if isinstance(q, dict) else json.loads(q)
                ids, x = torch.tensor(q["ids"], dtype=torch.int64), torch.tensor(q["values"], dtype=torch.float32)
                if "idf" in self.net: x = (x.clamp(max=1) + x.clamp(min=1).log()) * self.net["idf"][ids]
                if SCALED: x = x / x.norm().clamp(min=1e-30)
                hidden = torch.relu(x @ self.net["embed"][ids] + self.net["embed_bias"])
                scores, labels = torch.softmax(self.net["out"] @ hidden + self.net["out_bias"], 0).topk(5)
                answers.append({"rows": [{"labels": [{"label": str(l), "score": s} for l, s in zip(labels.tolist(), scores.tolist())]}]})
        return answers
service = Handler()
def handle(data, context):
    if not hasattr(service, "net"): service.initialize(context)
    return service.handle(data, context) if data is not None else None
"""


def torchserve(folder, model, port, _root):
    can_import("numpy", "torch", "yaml", "ts")
    if not shutil.which("java"):
        raise Missing("no java: apt-get install default-jre-headless")
    store = os.path.join(folder, "store")
    if not os.path.isdir(store):
        import numpy as np
        net, scaling = read_net(model)
        os.makedirs(os.path.join(store, "net", "MAR-INF"))
        np.savez(os.path.join(store, "net", "net.npz"), **net)
        with open(os.path.join(store, "net", "handler.py"), "w") as f:
            f.write(HANDLER.replace("SCALED", str(scaling != "raw")))
        with open(os.path.join(store, "net", "MAR-INF", "MANIFEST.json"), "w") as f:
            json.dump({"runtime": "python", "archiverVersion": "0.12.0",
                       "model": {"modelName": "net", "modelVersion": "1.0", "handler": "handler.py"}}, f)
    config = os.path.join(folder, "config.properties")
    with open(config, "w") as f:
        for i, name in enumerate(("inference", "management", "metrics")):
            f.write(f"{name}_address=http://127.0.0.1:{port + i}\n")
        f.write(f"default_workers_per_model={CORES}\ndisable_token_authorization=true\ndisable_system_metrics=true\n"
                f"vmargs=-Djava.io.tmpdir={folder}\n")
    return [os.path.join(os.path.dirname(sys.executable), "torchserve"), "--start", "--foreground", "--ncs", "--disable-token-auth",
            "--model-store", store, "--models", "net=net", "--ts-config", config], ("State change WORKER_STARTED -> WORKER_MODEL_LOADED", CORES)


# what its row is called, what starts it, where it is asked, whether its answers are those of exact prediction
PEERS = (
    ("FastAPI, empty", package, "/v2/health/live", False),
    ("FastAPI, package", package, "/predict", False),
    ("FastAPI, ONNX Runtime", onnx, "/predict", True),
    ("TorchServe, PyTorch", torchserve, "/predictions/net", True),
)
