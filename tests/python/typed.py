"""Uses of the package that a type checker must let pass (test_types.py runs mypy --strict on it; nobody runs it)."""
import pathlib
from typing import List, Tuple

import numpy as np
import scipy.sparse as sp

import wisp
from wisp import SparseNetwork, WispClassifier


def train(X: "sp.csr_matrix", Y: List[List[str]]) -> Tuple[WispClassifier, float]:
    model = WispClassifier(hidden=32, epochs=10, lr=0.1, dropout=0, memory="2G", index=True, seed=np.int64(3), threads=0)
    WispClassifier(hidden=(512, 256), epochs=None, lr=np.float32(0.5), memory=2 << 30, index="auto", progress=True)
    WispClassifier(hidden=[64], hidden_sampling=None, net="input 32, relu", k=np.int32(3), threshold=0.25, path="model")
    WispClassifier(hidden="64,32", path=pathlib.Path("model"), resume=True, cache="-", batch="256", class_weight="balanced")
    WispClassifier(class_weight={"red": 2.0, "blue": 1}, proba="csr", progress=lambda p: p.epoch > 3, hash_transform=False)
    model.fit(X, Y).partial_fit(X, Y, classes=["red"]).set_params(epochs=3)
    model.fit(X, Y, X, Y)
    model.fit(X, np.array(["a", "b"]), sample_weight=np.ones(2))
    model.fit(["some text", "other text"], Y)
    model.fit(pathlib.Path("train.txt"))
    small: WispClassifier = wisp.prune(X, Y, net="input 32, relu", target_accuracy_drop=0.5)
    small.prune(X, Y, target_speedup=2, unstructured=True).describe()
    return model, model.score(X, Y)


def use(model: WispClassifier, X: "sp.csr_matrix") -> None:
    names, scores = model.predict_top(X, k=2)
    best: str = names[0, 0]
    total = float(scores.sum())
    found = model.predict("some text")
    proba = model.predict_proba(["some text", "other text"])
    decision = model.decision_function(X)
    why: wisp.Explanation = model.explain(X, k=2, features=None)[0][0]
    print(why.label, why.logit - why.bias, [r.part for r in why.reasons])
    print(best, total, found.shape, proba[0], decision.argmax(axis=1), model.classes_[0], model.n_features_in_ + 1)
    print(model.report_["valid_p@1"], model.multilabel_, model.get_params()["epochs"], model.hidden)
    model.save("model.wisp")
    again = WispClassifier.load(pathlib.Path("model.wisp"), threads=1)
    again.predict(X)


def others(folder: pathlib.Path) -> np.ndarray:
    X, Y = wisp.read(folder / "rows.txt", cache="-")
    print(X.shape, Y.nnz, wisp.__version__, wisp.info()["version"])
    layers = [sp.random(256, 256, density=0.1, format="csr") for _ in range(3)]
    net = SparseNetwork(layers, biases=-0.1, clip=32, mode="exact").add(layers[0], bias=None, linear=True)
    rows = net.nonzero(X)
    print(net.report_["seconds"], rows.tolist(), net.n_layers)
    return net.run(X)
