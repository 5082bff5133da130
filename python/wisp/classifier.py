"""WispClassifier: training and prediction in the manner of scikit-learn, which need not be installed."""
from __future__ import annotations

import inspect
import json
import os
import shutil
import tempfile
from typing import Any, Dict, Optional, Tuple

import numpy as np
import scipy.sparse as sp

from . import _library as library
from . import _options as options
from ._model import Model, read_names, write_names
from ._rows import Data, Labels, is_path, labels as to_labels, matrix, more_classes
from ._training import train

MOST = 64  # labels a row that 'predict' looks at; a card gives no more

# config, json: of the command.  valid: X_valid.  note: ours.  memory is there: it bounds files that are larger.
_ROWS = options.of_commands(["train", "predict"], without=["config", "json", "tsv", "quiet", "valid", "note"])
_EXTRA = {  # name: (default, type hint, help)
    "k": (5, "int", "labels a row that predict_proba and predict_top give unless they are told"),
    "threshold": (None, "float | None", "lowest probability of a label that 'predict' gives for multi-label rows; None: "
                  "0.5; of raw scores of the softmax, whose labels share 1, 0.5 / (labels a row of the training rows)"),
    "path": (None, "str | os.PathLike | None", "where 'fit' keeps the model file, and PATH.state while it trains, so that "
             "resume=True goes on after a stop; None: nowhere"),
    "progress": (None, "Callable | bool | None", "called between batches, a few times a second, with an object that has "
                 "epoch, epochs, rows_done, n_rows, loss, rows_per_s, eta_s, valid, best, epoch_ended ...; what it "
                 "returns stops the run if it is true.  True: lines on stderr"),
}
_PREDICT = ("k", "threshold", "inference", "scores")  # of prediction alone


class WispClassifier:
    __doc__ = ("A network for sparse rows with many labels.\n\n"
               "Only what differs from its default is handed to the library, which chooses the rest from the data.\n\n"
               + options.docstring(_ROWS, _EXTRA) + """

Attributes
----------
classes_ : ndarray
    What label i stands for.
n_features_in_ : int
multilabel_ : bool
    Whether Y had lists of labels or an indicator matrix; False: one class a row.
report_ : dict
    Of the last run: valid_p@1, epochs, best_epoch, samples_per_s ...; empty when it was stopped.
""")

    def __init__(self, **keywords: Any) -> None:
        for name, parameter in _PARAMETERS.items():
            setattr(self, name, keywords.pop(name, parameter.default))
        if keywords:
            raise TypeError(f"__init__() got an unexpected keyword argument '{next(iter(keywords))}'")

    __init__.__signature__ = options.signature(_ROWS, _EXTRA)  # type: ignore[attr-defined]

    # ---- parameters ----

    def get_params(self, deep: bool = True) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> "WispClassifier":
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise ValueError(f"Invalid parameter '{name}' for estimator {self!r}. Valid parameters are: "
                                 f"{sorted(_PARAMETERS)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = (f"{name}={getattr(self, name)!r}" for name, p in _PARAMETERS.items()
                 if not _same(getattr(self, name), p.default))
        return f"{type(self).__name__}({', '.join(given)})"

    def _settings(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in _ROWS if name not in _EXTRA and name not in _PREDICT}

    # ---- training ----

    def fit(self, X: Any, Y: Any = None, X_valid: Any = None, Y_valid: Any = None) -> "WispClassifier":
        """Trains on rows X (a scipy matrix, borrowed as it is; an array; or the path of a data file, which holds its own
        labels) with labels Y: classes, lists of labels, or an indicator matrix.  Validation rows choose the best epoch
        and stop early; without them the library holds some out.  Ctrl-C stops after the batch: the model trained so far
        is there when KeyboardInterrupt arrives."""
        return self._fit(X, Y, X_valid, Y_valid, None, None)

    def partial_fit(self, X: Any, Y: Any, classes: Any = None) -> "WispClassifier":
        """Goes on from the model that is there ('epochs' passes over these rows; its network stays what it is), or starts
        one.  X may have further columns and Y further labels: their places come after the old ones, in classes_ too.
        classes: labels that are to come, so that there is a place for them already."""
        known, init = getattr(self, "classes_", None), getattr(self, "_model", None)
        if classes is not None:
            known = more_classes(classes, known)
        return self._fit(X, Y, None, None, known, init)

    def _fit(self, X: Any, Y: Any, X_valid: Any, Y_valid: Any, known: Optional[np.ndarray], init: Optional[Model]
             ) -> "WispClassifier":
        ctx = library.context(self.threads, _say if self.progress is True else None)
        folder = tempfile.mkdtemp(prefix="wisp-")
        try:
            settings = self._settings()
            if init is not None:
                settings.update(init=init.path, net=None, hidden=None, dropout=_ROWS["dropout"].default)
            rows, y, kind = self._training_rows(X, Y, known, init, settings, folder, ctx)
            valid = None if X_valid is None else self._valid_rows(X_valid, Y_valid, rows, y, settings, ctx)
            path = os.path.join(folder, "model") if self.path is None else os.fspath(self.path)
            cfg = options.config(settings)
            before = _file(path)
            report, stopped = train(ctx, cfg, rows, valid, path, self.progress)
            if not report and before and _file(path) == before:
                raise stopped or InterruptedError(f"stopped before there was a model; {path} holds an older one; go on with "
                                                  "resume=True")
            model = Model.open(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._take(model, kind, None if y is None else y.classes)
        self.report_ = report
        if stopped is not None:
            raise stopped
        return self

    def _training_rows(self, X: Any, Y: Any, known: Optional[np.ndarray], init: Optional[Model], settings: dict,
                       folder: str, ctx: library.Handle) -> Tuple[Data, Optional[Labels], str]:
        if is_path(X):
            if Y is not None:
                raise ValueError("a file holds its own labels; Y must be None")
            return Data.open(X, ctx, options.config(settings)), None, "sparse"
        if settings["labels"]:
            raise ValueError("labels: the classes of Y are the names; a file of names is for rows from a file")
        M = matrix(X, narrow=self.device != "cpu")
        y = to_labels(Y, M.shape[0], known)
        if init is not None:
            self._check_features(M, more=True)
            if (y.kind == "single") == self.multilabel_:
                raise ValueError(f"Y is {'classes' if self.multilabel_ else 'multi-label'}, in 'fit' it was not")
        n_labels = len(y.classes)
        names = os.path.join(folder, "names")
        how = write_names(names, y.classes, init.note().get("names") if init is not None else None)
        mean = len(y.ids) / max(1, M.shape[0])
        settings["labels"] = names
        settings["note"] = json.dumps({"wisp.py": 1, "kind": y.kind, "names": how, "labels": round(mean, 4)})
        return Data.view(M, y, n_labels), y, y.kind

    def _valid_rows(self, X: Any, Y: Any, rows: Data, y: Optional[Labels], settings: dict, ctx: library.Handle) -> Data:
        if is_path(X):
            return Data.open(X, ctx, options.config(settings), like=rows)
        if y is None:
            raise ValueError("X_valid must be the path of a file, as X is")
        M = matrix(X)
        there = to_labels(Y, M.shape[0], y.classes)
        return Data.view(M, there, len(there.classes))  # labels that no training row has are never found

    def _take(self, model: Model, kind: str, classes: Optional[np.ndarray]) -> None:
        self._model = model
        self._kind = kind
        self.multilabel_ = kind != "single"
        self.classes_ = read_names(model) if classes is None else classes
        self.n_features_in_ = model.n_features

    # ---- prediction ----

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise _not_fitted()(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
                                "arguments before using this estimator.")

    def _check_features(self, M: sp.csr_matrix, more: bool = False) -> None:
        n = M.shape[1]
        if n < self.n_features_in_ or (n > self.n_features_in_ and not more):
            raise ValueError(f"X has {n} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                             "as input")

    def _top(self, X: Any, k: Optional[int], scores: Optional[str] = None) -> Tuple[np.ndarray, np.ndarray]:
        self._check_fitted()
        k = min(int(self.k if k is None else k), len(self.classes_))
        if is_path(X):
            cfg = options.config({**self._settings(), "labels": None})
            data = Data.open(X, library.context(self.threads), cfg, self._model.handle)
        else:
            M = matrix(X)
            self._check_features(M)
            data = Data.view(M)
        return self._model.predict(data, data.stats.n_rows, k, int(self.threads), self.inference,
                                   scores or self.scores, self.device)

    def predict_top(self, X: Any, k: Optional[int] = None) -> Tuple[np.ndarray, np.ndarray]:
        """The k best labels of each row and their probabilities, best first, as two arrays (rows, k)."""
        ids, scores = self._top(X, k)
        found = self.classes_[np.maximum(ids, 0)]
        if ids.size and ids.min() < 0:  # sparse prediction may find fewer
            found = found.astype(object)
            found[ids < 0] = None
        return found, scores

    def predict_proba(self, X: Any, k: Optional[int] = None) -> sp.csr_matrix:
        """Probabilities of the k best labels of each row as CSR (rows, classes): that each label applies, so that they
        need not sum to 1.  scores='raw' gives the loss's own, which for softmax do.  k=len(classes_) gives all."""
        ids, scores = self._top(X, k)
        return self._sparse(ids, scores, ids >= 0)

    def _sparse(self, ids: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> sp.csr_matrix:
        start = np.concatenate([[0], np.cumsum(wanted.sum(axis=1))])
        out = sp.csr_matrix((values[wanted], ids[wanted], start), shape=(len(ids), len(self.classes_)))
        out.sort_indices()
        return out

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw scores of all classes, dense: log-odds (bce) or logarithms of the probabilities (softmax); (rows, classes), or
        (rows,) for two classes, where more than 0 means the second.  For many labels take predict_proba."""
        ids, p = self._top(X, len(self.classes_) if hasattr(self, "classes_") else None, "raw")
        p = p.astype(np.float64)
        p = np.maximum(p, np.finfo(np.float32).tiny)
        score = np.log(p)
        if self._model.describe["loss"] == "bce":
            score -= np.log(np.maximum(1 - p, 2.0**-25))
        out = np.full((len(ids), len(self.classes_)), -np.inf)
        np.put_along_axis(out, np.maximum(ids, 0), score, axis=1)
        return out[:, 1] - out[:, 0] if not self.multilabel_ and out.shape[1] == 2 else out

    def predict(self, X: Any) -> Any:
        """The class of each row; for multi-label rows an indicator matrix (an array if Y was one, else CSR) of the
        labels, 64 at most, whose probability is 'threshold' or more."""
        self._check_fitted()
        ids, scores = self._top(X, MOST if self.multilabel_ else 1)
        if not self.multilabel_:
            return self.classes_[np.maximum(ids[:, 0], 0)]
        wanted = (scores >= self._limit()) & (ids >= 0)
        out = self._sparse(ids, np.ones(ids.shape, dtype=np.int64), wanted)
        return out.toarray() if self._kind == "dense" else out

    def _limit(self) -> float:
        if self.threshold is not None:
            return float(self.threshold)
        if self._model.calibrated or self._model.describe["loss"] == "bce":
            return 0.5
        return 0.5 / max(1.0, self._model.note().get("labels", 1.0))

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose best label is right (P@1): for one class a row the accuracy."""
        best = self._top(X, 1)[0][:, 0]
        true = to_labels(y, len(best), self.classes_)
        row = np.repeat(np.arange(len(best)), np.diff(true.start))
        hit = np.zeros(len(best), dtype=bool)
        hit[row[true.ids == best[row]]] = True
        return float(hit.mean())

    # ---- files, pickling, scikit-learn ----

    def save(self, path: Any) -> None:
        """The model file, which the command and every other interface read; parameters of prediction are not in it."""
        self._check_fitted()
        self._model.save(path)

    @classmethod
    def load(cls, path: Any, **keywords: Any) -> "WispClassifier":
        """A model file.  Classes that were text or numbers come back so; one that the command trained is multi-label,
        with names as classes where it has them."""
        out = cls(**keywords)
        model = Model.open(path)
        out._take(model, model.note().get("kind", "sparse"), None)
        out.report_ = {}
        return out

    def __getstate__(self) -> dict:
        state = dict(self.__dict__)
        if "_model" in state:
            state["_model"] = self._model.bytes()
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        if "_model" in state:
            self._model = Model.of_bytes(state["_model"])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True),
                    classifier_tags=ClassifierTags(multi_label=True), input_tags=InputTags(sparse=True),
                    array_api_support=False, no_validation=False, non_deterministic=False, requires_fit=True)


_PARAMETERS = {name: p for name, p in inspect.signature(WispClassifier.__init__).parameters.items() if name != "self"}


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(np.all(a == b)))


def _file(path: str) -> Optional[tuple]:
    """What tells whether a file was replaced; None: there is none."""
    if not os.path.exists(path):
        return None
    s = os.stat(path)
    return s.st_ino, s.st_mtime_ns, s.st_size


def _say(line: str) -> None:
    import sys

    print(line, file=sys.stderr)


def _not_fitted() -> type:
    """scikit-learn's own where it is in use."""
    import sys

    seen = sys.modules.get("sklearn.exceptions")
    return seen.NotFittedError if seen else type("NotFittedError", (ValueError, AttributeError), {})
