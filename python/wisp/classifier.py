"""WispClassifier: training and prediction in the manner of scikit-learn, which need not be installed."""
from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import os
import shutil
import tempfile
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import scipy.sparse as sp

from . import _library as library
from . import _options as options
from ._model import Model, Rows, Setting, read_names, write_names
from ._rows import (Csr, Data, Images, Labels, Question, Text, feature_names, images, is_file, labels as to_labels, matrix,
                    more_classes, number_of, texts)
from ._training import train
from .explaining import Explanation, explain

MOST = 64  # labels of a row that 'predict' looks at; a card gives no more
FEW = 1000  # classes up to which predict_proba is dense

# config, json, watch: of the command.  valid: X_valid.  note: ours.  memory is there: it bounds files that are larger.
_ROWS = options.of_commands(["train", "predict"], without=["config", "json", "tsv", "quiet", "valid", "note", "watch"])
_OF_PRUNE = options.of_commands(["prune"], without=[*_ROWS, "config", "json", "quiet", "valid", "note", "watch"])
_EXTRA = {  # name: (default, type hint, help)
    "k": (5, "SupportsIndex", "labels of a row that predict_top gives, and predict_proba where it is CSR, unless they are told"),
    "threshold": (None, "SupportsFloat | str | None", "lowest probability of a label that 'predict' gives for multi-label rows; None, "
                  "'model': the model's own, where choose_thresholds or 'wisp threshold' has chosen one for each label; else "
                  "None: 0.5; of raw scores of the softmax, whose labels share 1, 0.5 / (labels of a training row, on average)"),
    "proba": ("auto", "str", "what predict_proba gives: dense, an array of all classes; csr, the k best of each row; auto: "
              f"dense up to {FEW} classes"),
    "path": (None, "str | os.PathLike[str] | None", "where 'fit' keeps the model file, and PATH.state while it trains, so that "
             "resume=True goes on after a stop; None: nowhere"),
    "class_weight": (None, "dict[Any, float] | str | os.PathLike[str] | None", "what classes count for in training, a row "
                     "the mean of its labels: a dict (a class that it does not have counts 1), 'balanced': rare ones more, "
                     "or a file as the command takes it"),
    "progress": (None, "Callable[[Any], Any] | bool | None", "called between batches, a few times a second, with an object that has "
                 "epoch, epochs, rows_done, n_rows, loss, rows_per_s, eta_s, valid, best, epoch_ended ...; what it "
                 "returns stops the run if it is true.  True: lines on stderr"),
}
_PLAIN = options.config({})  # how text is cut is the model's own
_PREDICT = ("k", "threshold", "inference", "scores", "proba")  # of prediction alone
# What other libraries call it.
_ELSEWHERE = {"n_jobs": "threads", "n_threads": "threads", "num_threads": "threads", "random_state": "seed",
              "verbose": "progress=True", "max_iter": "epochs", "n_epochs": "epochs", "learning_rate": "lr",
              "learning_rate_init": "lr", "batch_size": "batch", "hidden_layer_sizes": "hidden", "solver": "optimizer",
              "n_iter_no_change": "patience", "validation_fraction": "holdout", "warm_start": "init, or partial_fit"}


def _hint(name: str) -> str:
    """What a keyword that is not there may have been meant to be."""
    near = difflib.get_close_matches(name, _PARAMETERS, 1)
    if name in _ELSEWHERE:
        return f"; wisp's keyword for it is {_ELSEWHERE[name]}"
    return f"; did you mean '{near[0]}'?" if near else ""


class _Fitted(NamedTuple):
    """All that prediction needs of a training run.  It is replaced as a whole, so that a thread that predicts while another
    trains has one model or the other."""

    model: Model
    kind: str  # of Y: Labels.kind
    classes: np.ndarray
    names: Optional[np.ndarray]  # of the columns, where X was a DataFrame
    n_features: int
    loss: str
    labels_a_row: float  # of the training rows, on average
    words: bool  # it takes text


class _Training(NamedTuple):
    """Rows to train on."""

    rows: Data
    form: type  # of X: one of _FORMS; Data: a file
    labels: Optional[Labels]  # None: the file has them
    kind: str  # of Y: Labels.kind


_FORMS = {Text: "text", Images: "images", Csr: "numbers"}


class WispClassifier(library.Shared):
    __doc__ = ("A network for sparse rows with many labels.\n\n"
               "Only what differs from its default is handed to the library, which chooses the rest from the data.  Several\n"
               "threads may use an estimator at once; those that train it wait for each other.\n\n"
               + options.docstring(_ROWS, _EXTRA) + """

Attributes
----------
classes_ : ndarray
    What label i stands for.
n_features_in_ : int
feature_names_in_ : ndarray
    Names of the columns, where X was a DataFrame whose names are all text.
multilabel_ : bool
    Whether Y had lists of labels or an indicator matrix; False: one class for each row.
report_ : dict
    Of the last run: valid_p@1, epochs, best_epoch, samples_per_s ...; empty when it was stopped.
""")

    def __init__(self, **keywords: Any) -> None:
        super().__init__()
        for name, parameter in _PARAMETERS.items():
            setattr(self, name, keywords.pop(name, parameter.default))
        for name in keywords:
            raise TypeError(f"__init__() got an unexpected keyword argument '{name}'{_hint(name)}")

    __init__.__signature__ = options.signature(_ROWS, _EXTRA)  # type: ignore[attr-defined]

    # ---- parameters ----

    def get_params(self, deep: bool = True) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> "WispClassifier":
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise ValueError(f"Invalid parameter '{name}' for estimator {self!r}{_hint(name)}. Valid parameters are: "
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

    def fit(self, X: Any, Y: Any = None, X_valid: Any = None, Y_valid: Any = None, sample_weight: Any = None, *, y: Any = None
            ) -> "WispClassifier":
        """Trains on rows X with labels Y: classes, lists of labels, or an indicator matrix.  X is a scipy matrix (borrowed as
        it is), an array, a DataFrame; texts (a list, an array or a Series of str); or a pathlib.Path, a data file that holds
        its own labels (without Y a str is a path, too).  Validation rows choose the best epoch and stop early; without them
        the library holds some out.  sample_weight: what each row counts for.  y is another name for Y.  Ctrl-C stops after the batch: the model
        trained so far is there when KeyboardInterrupt arrives."""
        with self._lock:
            return self._fit(X, _one_of(Y, y), X_valid, Y_valid, sample_weight, None, None)

    def partial_fit(self, X: Any, Y: Any = None, classes: Any = None, sample_weight: Any = None, *, y: Any = None
                    ) -> "WispClassifier":
        """Goes on from the model that is there ('epochs' passes over these rows; its network stays what it is), or starts
        one.  X may have further columns and Y further labels: their places come after the old ones, in classes_ too.
        classes: labels that are to come, so that there is a place for them already."""
        with self._lock:
            init: Optional[_Fitted] = self.__dict__.get("_fitted")
            known = None if init is None else init.classes
            if classes is not None:
                if _is_file(X, _one_of(Y, y)):
                    raise ValueError("a file holds its own labels; classes must be None")
                known = more_classes(classes, known)
            return self._fit(X, _one_of(Y, y), None, None, sample_weight, known, init)

    def prune(self, X: Any, Y: Any = None, X_valid: Any = None, Y_valid: Any = None, sample_weight: Any = None, *, y: Any = None,
              **options_of_prune: Any) -> "WispClassifier":
        """As 'fit', and then makes the network small, as the command 'wisp prune' does: units and channels go as long as P@1
        of the validation rows drops by no more than target_accuracy_drop points (0.3), or until it is target_speedup times as
        fast; unstructured=True: single weights go instead.  report_ has weights_ratio, accuracy_drop, time_ratio (256 rows per
        call), time_ratio_1, flops_ratio and frontier, all that were tried; plot names an SVG file of them, PATH.svg where
        'path' is given."""
        unknown = set(options_of_prune) - set(_OF_PRUNE)
        if unknown:
            near = difflib.get_close_matches(min(unknown), _OF_PRUNE, 1)
            raise TypeError(f"prune() got an unexpected keyword argument '{min(unknown)}'" +
                            (f"; did you mean '{near[0]}'?" if near else ""))
        with self._lock:
            return self._fit(X, _one_of(Y, y), X_valid, Y_valid, sample_weight, None, None, options_of_prune)

    def _fit(self, X: Any, Y: Any, X_valid: Any, Y_valid: Any, sample_weight: Any, known: Optional[np.ndarray],
             init: Optional[_Fitted], of_prune: Optional[Dict[str, Any]] = None) -> "WispClassifier":
        if X_valid is None and Y_valid is not None:
            raise ValueError("Y_valid has labels, but X_valid, the rows that they are for, is None; give both or neither")
        ctx = library.context(self.threads, _say if self.progress is True else None)
        folder = tempfile.mkdtemp(prefix="wisp-")
        try:
            settings = self._settings()
            if init is not None:
                settings.update(init=init.model.path, net=None, hidden=None, dropout=_ROWS["dropout"].default)
            training = self._training_rows(X, Y, known, init, settings, folder, ctx)
            if sample_weight is not None:
                training.rows.weigh(sample_weight)
            valid = None if X_valid is None else self._valid_rows(X_valid, Y_valid, training, feature_names(X), settings, ctx)
            path = os.path.join(folder, "model") if self.path is None else os.fspath(self.path)
            cfg = options.config({**settings, **(of_prune or {})})
            before = _file(path)
            report, stopped = train(ctx, cfg, training.rows, valid, path, self.progress, "wisp_train" if of_prune is None else "wisp_prune")
            if not report and of_prune is not None:  # what was trained so far is PATH.0, PATH.1 ...
                raise stopped or InterruptedError("stopped before the network was small; go on with resume=True and path")
            if not report and before and _file(path) == before:
                raise stopped or InterruptedError(f"stopped before there was a model; {path} holds an older one; go on with "
                                                  "resume=True")
            model = Model.open(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._take(model, training.kind, None if training.labels is None else training.labels.classes, _names(X, init, model.n_features))
        self.report_ = report
        if stopped is not None:
            raise stopped
        return self

    def _training_rows(self, X: Any, Y: Any, known: Optional[np.ndarray], init: Optional[_Fitted], settings: Dict[str, Any],
                       folder: str, ctx: library.Handle) -> _Training:
        if _is_file(X, Y):
            if Y is not None:
                raise ValueError("a file holds its own labels; Y must be None")
            settings["class_weight"] = self._class_weights(None, folder)
            return _Training(Data.open(X, ctx, options.config(settings)), Data, None, "sparse")
        if settings["labels"]:
            raise ValueError("labels: the classes of Y are the names; a file of names is for rows from a file")
        rows = _of(X, narrow=self.device != "cpu")
        y = to_labels(Y, rows.n_rows, known)
        if init is not None:
            if isinstance(rows, Csr):
                self._check_columns(init.names, init.n_features, X, rows.shape[1], more=True)
            if isinstance(rows, Images):
                self._check_size(init, rows.size)
            if (y.kind == "single") != (init.kind == "single"):
                raise ValueError(f"Y is {'classes' if y.kind == 'single' else 'multi-label'}, in 'fit' it was not")
        names = os.path.join(folder, "names")
        how = write_names(names, y.classes, init.model.note().get("names") if init is not None else None)
        mean = len(y.ids) / rows.n_rows
        settings["labels"] = names
        settings["class_weight"] = self._class_weights(y.classes, folder)
        settings["note"] = json.dumps({"wisp.py": 1, "kind": y.kind, "names": how, "labels": round(mean, 4)})
        data = _data(rows, y, ctx, settings)
        if y.classes.dtype.kind not in "biuf" or not np.array_equal(y.classes, np.arange(len(y.classes))):
            data.labels_by_name()
        return _Training(data, type(rows), y, y.kind)

    def _class_weights(self, classes: Optional[np.ndarray], folder: str) -> Any:
        """class_weight as the library takes it: a dict becomes a file; of classes that are not known yet by name."""
        if not isinstance(self.class_weight, dict):
            return self.class_weight
        lines: List[str]
        if classes is None:
            lines = [f"{name} {float(w)!r}" for name, w in self.class_weight.items()]
        else:
            known = classes.tolist()
            unknown = [c for c in self.class_weight if c not in set(known)]
            if unknown:
                raise ValueError(f"class_weight: {unknown[0]!r} is not one of the {len(known)} classes of Y")
            lines = [repr(float(self.class_weight.get(c, 1))) for c in known]
        path = os.path.join(folder, "class-weights")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in lines)
        return path

    def _valid_rows(self, X: Any, Y: Any, training: _Training, names: Optional[np.ndarray], settings: Dict[str, Any],
                    ctx: library.Handle) -> Data:
        """Rows to validate; names: of the columns of those to train on."""
        if _is_file(X, Y):
            if Y is not None:
                raise ValueError("X_valid is a file, which holds its own labels; Y_valid must be None")
            return Data.open(X, ctx, options.config(settings), like=training.rows)
        if training.labels is None:
            raise ValueError("X_valid must be the path of a file, as X is")
        if Y is None:
            raise ValueError("X_valid has rows, but Y_valid, their labels, is None; give both, or the pathlib.Path of a file that "
                             "has both")
        with _said_of("X_valid"):
            rows = _of(X)
        if type(rows) is not training.form:
            raise ValueError(f"X_valid is {_FORMS[type(rows)]}, but X is {_FORMS[training.form]}; expected rows of the same form")
        if isinstance(rows, Csr):
            self._check_columns(names, training.rows.stats.n_features, X, rows.shape[1], what="X_valid")
        with _said_of("Y_valid"):
            labels = to_labels(Y, rows.n_rows, training.labels.classes)  # those that no training row has are never found
        with _said_of("X_valid"):
            return _data(rows, labels, ctx, settings, like=training.rows)

    def _take(self, model: Model, kind: str, classes: Optional[np.ndarray], names: Optional[np.ndarray]) -> None:
        fitted = _Fitted(model, kind, read_names(model) if classes is None else classes, names, model.n_features,
                         model.describe["loss"], max(1.0, model.note().get("labels", 1.0)), model.describe.get("input", "").startswith("words"))
        self._fitted = fitted
        self.multilabel_ = kind != "single"
        self.classes_ = fitted.classes
        self.n_features_in_ = model.n_features
        if names is not None:
            self.feature_names_in_ = names
        else:
            self.__dict__.pop("feature_names_in_", None)

    # ---- prediction ----

    def _state(self) -> _Fitted:
        try:
            return self._fitted
        except AttributeError:
            raise _not_fitted()(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
                                "arguments before using this estimator.") from None

    def _check_columns(self, names: Optional[np.ndarray], n_features: int, X: Any, n: int, more: bool = False, what: str = "X"
                       ) -> None:
        """The number of columns, and their names where X and the training rows have them; more: further ones may come."""
        who = type(self).__name__
        if names is not None or hasattr(type(X), "columns"):
            _compare_names(who, names, feature_names(X), more, what)
        if n < n_features or (n > n_features and not more):
            raise ValueError(f"{what} has {n} features, but {who} is expecting {n_features} features as input")

    def _rows(self, fitted: _Fitted, X: Any) -> Rows:
        if not sp.issparse(X):
            if is_file(X):
                cfg = options.config({**self._settings(), "labels": None})
                return Data.open(X, library.context(self.threads), cfg, fitted.model.handle)
            words = texts(X)
            if fitted.words and isinstance(X, (list, tuple)) and not X:
                raise ValueError("Found 0 sample(s): X is an empty list, expected one text or more")
            if words is not None and fitted.words:
                return Question(words, _PLAIN, fitted.model.handle)
            if words is not None:
                raise ValueError("X is text, but this model was trained on numbers" +
                                 (f"; for a file pass pathlib.Path({X!r})" if isinstance(X, str) else ""))
            pictures = images(X)
            if pictures is not None:
                self._check_size(fitted, pictures.size)
                return pictures
        M = matrix(X)
        self._check_columns(fitted.names, fitted.n_features, X, M.shape[1])
        if "image" in fitted.model.describe:
            size = fitted.model.describe["image"]
            raise ValueError(f"X has 2 dimensions, but this model reads images of {size} (channels x height x width): "
                             f"X.reshape(-1, {size.replace(' x ', ', ')}) makes them of an array of pixels")
        return M

    def _check_size(self, fitted: _Fitted, size: Tuple[int, int, int]) -> None:
        said = fitted.model.describe.get("image")
        if said is None and size[0] * size[1] * size[2] != fitted.n_features:
            raise ValueError(f"X are images of {_size_text(size)}, {size[0] * size[1] * size[2]} pixels, but "
                             f"{type(self).__name__} is expecting {fitted.n_features} features as input")
        if said is not None and _size_text(size) != said:
            raise ValueError(f"X are images of {_size_text(size)} (channels x height x width), but this model reads those of "
                             f"{said}")

    def _top(self, fitted: _Fitted, X: Any, k: Optional[int], scores: Optional[str] = None
             ) -> Tuple[np.ndarray, np.ndarray, bool]:
        """Ids of the k best labels of each row (-1: no more were found), their scores, and whether these are calibrated."""
        k = self._most(fitted, self.k if k is None else k)
        return fitted.model.predict(self._rows(fitted, X), self._setting(k, scores or self.scores, self.device))

    def _most(self, fitted: _Fitted, k: Any) -> int:
        return min(library.whole_number("k", k, 1), len(fitted.classes))

    def _setting(self, k: int, scores: str, device: str) -> Setting:
        return k, library.whole_number("threads", self.threads, 0), self.inference, scores, device

    def predict_top(self, X: Any, k: Optional[int] = None) -> Tuple[np.ndarray, np.ndarray]:
        """The k best labels of each row and their probabilities, best first, as two arrays (rows, k)."""
        fitted = self._state()
        ids, scores, _ = self._top(fitted, X, k)
        if (ids.item(-1) if len(ids) == 1 else ids[:, -1].min()) >= 0:
            return fitted.classes[ids], scores
        found = fitted.classes[np.maximum(ids, 0)].astype(object)  # sparse prediction may find fewer: the last are missing
        found[ids < 0] = None
        return found, scores

    def predict_proba(self, X: Any, k: Optional[int] = None) -> Any:
        """Probabilities: an array (rows, classes) where classes are few, else, or with k, those of the k best labels of each
        row as CSR (see the parameter 'proba').  Each says whether its label applies; where rows have one class each, those
        of an array are divided by their sum, so that they sum to 1.  scores='raw' gives the loss's own."""
        fitted = self._state()
        dense = k is None and self._is_dense(fitted)
        ids, scores, _ = self._top(fitted, X, len(fitted.classes) if dense else k)
        if not dense:
            return _sparse(ids, scores, ids >= 0, len(fitted.classes))
        out = _spread(ids, scores.astype(np.float64), len(fitted.classes), 0)
        if fitted.kind == "single":
            total = out.sum(axis=1, keepdims=True)
            out = np.where(total > 0, out / np.where(total > 0, total, 1), 1 / out.shape[1])
        return out

    def _is_dense(self, fitted: _Fitted) -> bool:
        if self.proba not in ("auto", "dense", "csr"):
            raise ValueError(f"proba: {self.proba!r} is not one of auto, dense, csr")
        few = len(fitted.classes) <= (FEW if self.device == "cpu" else MOST)
        return few if self.proba == "auto" else self.proba == "dense"

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw scores of all classes, dense: log-odds (bce) or logarithms of the probabilities (softmax).  Of one class per row
        and two classes: (rows,), the logarithm of the ratio of their probabilities; more than 0 means the second.  For
        many labels take predict_proba."""
        fitted = self._state()
        two = fitted.kind == "single" and len(fitted.classes) == 2
        ids, p, _ = self._top(fitted, X, len(fitted.classes), None if two else "raw")
        p = np.maximum(p.astype(np.float64), np.finfo(np.float32).tiny)
        score = np.log(p)
        if fitted.loss == "bce" and not two:
            score -= np.log(np.maximum(1 - p, 2.0**-25))
        out = _spread(ids, score, len(fitted.classes), -np.inf)
        return out[:, 1] - out[:, 0] if two else out

    def explain(self, X: Any, k: int = 3, label: Any = None, features: Optional[int] = 10) -> List[List[Explanation]]:
        """Which features made the scores: for each row the explanations of its k best labels, or of 'label' (one of classes_)
        alone.  Each takes the label's logit apart: logit = the sum of all parts + bias + remainder; 'reasons' has those
        'features' (None: all) with the largest parts, 'more_part' the sum of the rest; of images 'pixels' has all parts.
        On the CPU, one row after the other; docs/explain.md."""
        fitted = self._state()
        chosen = None if label is None else [number_of(label, fitted.classes)]
        if self.device != "cpu":
            raise NotImplementedError("explain: only on the CPU, but device is 'cuda'; set_params(device='cpu')")
        k = self._most(fitted, k)
        features = None if features is None else library.whole_number("features", features, 0)
        rows = self._rows(fitted, X)
        with fitted.model.lend(self._setting(k, self.scores, "cpu")) as predictor:
            data = rows.to_data(predictor.keep[0])
            best = [chosen] * rows.n_rows if chosen else predictor.run(data)[0].tolist()
            return [[explain(predictor, fitted.model.handle, data, row, i, features, fitted.classes, fitted.names)
                     for i in best[row] if i >= 0] for row in range(rows.n_rows)]

    def predict(self, X: Any) -> Any:
        """The class of each row; for multi-label rows an indicator matrix (an array if Y was one, else CSR) of the
        labels, 64 at most, whose probability is 'threshold' or more."""
        fitted = self._state()
        ids, scores, calibrated = self._top(fitted, X, 1 if fitted.kind == "single" else MOST)
        if fitted.kind == "single":
            return fitted.classes[np.maximum(ids[:, 0], 0)]
        limit = self._limit(fitted, calibrated)
        wanted = (scores >= (limit[ids] if isinstance(limit, np.ndarray) else limit)) & (ids >= 0)
        out = _sparse(ids, np.ones(ids.shape, dtype=np.int64), wanted, len(fitted.classes))
        return out.toarray() if fitted.kind == "dense" else out

    def _limit(self, fitted: _Fitted, calibrated: bool) -> Union[float, np.ndarray]:
        """One threshold, or one for each label."""
        own = fitted.model.thresholds() if self.threshold in (None, "model") and self.scores != "raw" else None
        if own is not None:
            return own
        if self.threshold == "model":
            raise ValueError("threshold='model': the model has no thresholds" + (
                " of raw scores" if self.scores == "raw" else "; choose_thresholds(X, Y) chooses them"))
        if self.threshold is not None:
            return options.number("threshold", self.threshold)
        return 0.5 if calibrated or fitted.loss == "bce" else 0.5 / fitted.labels_a_row

    def choose_thresholds(self, X: Any, Y: Any = None, goal: str = "f1", per: str = "label", *, y: Any = None) -> Dict[str, Any]:
        """Chooses the score from which on 'predict' gives a label, on rows X with labels Y that the model was not trained on:
        goal is 'f1', 'precision=0.9', 'recall=0.8' or 'cost=FP:FN' (what a wrong label costs, and a missed one); per='one':
        the same for all labels.  The model has them from then on, and save() keeps them.  Gives what 'wisp threshold --json' says:
        micro_f1, macro_f1 ... of rows that are decided by thresholds of the other half, half_micro_f1 ... at 0.5.
        docs/prediction.md."""
        with self._lock:
            fitted = self._state()
            if fitted.kind == "single":
                raise ValueError("thresholds are for rows with any number of labels; of one class for each row 'predict' gives "
                                 "the best")
            ctx = library.context(self.threads)
            folder = tempfile.mkdtemp(prefix="wisp-")
            try:
                path, out = os.path.join(folder, "model"), library.Pointer()
                cfg = options.config({"for": goal, "per": per})
                library.call("wisp_threshold", out, ctx, fitted.model.handle, self._labelled(fitted, X, _one_of(Y, y), ctx), cfg,
                             path.encode())
                report = library.report(out)
                self._fitted = fitted._replace(model=Model.open(path))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return report

    def _labelled(self, fitted: _Fitted, X: Any, Y: Any, ctx: library.Handle) -> Data:
        """Rows with labels, as the model knows both; labels that it does not know are misses."""
        rows = self._rows(fitted, X)
        if isinstance(rows, Data):
            if Y is not None:
                raise ValueError("a file holds its own labels; Y must be None")
            return rows
        labels = to_labels(Y, rows.n_rows, fitted.classes)
        if isinstance(rows, Question):
            return Data.of_question(rows, ctx, labels)
        if isinstance(rows, Images):
            return Data.of_images(rows, labels, len(labels.classes))
        return Data.view(rows, labels, len(labels.classes))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose best label is right (P@1), weighted if weights are given: for one class per row the
        accuracy."""
        fitted = self._state()
        best = self._top(fitted, X, 1)[0][:, 0]
        true = to_labels(y, len(best), fitted.classes)
        row = np.repeat(np.arange(len(best)), np.diff(true.start))
        hit = np.zeros(len(best), dtype=bool)
        hit[row[true.ids == best[row]]] = True
        if sample_weight is not None:  # checked as those of training
            sample_weight = Data.view(matrix(sp.csr_matrix((len(best), 1)))).weigh(sample_weight)
        return float(np.average(hit, weights=sample_weight))

    # ---- files, pickling, scikit-learn ----

    def plan(self, batch: int = 0) -> Dict[str, Any]:
        """What prediction and training of this model take, as 'wisp inspect --plan --json' has it: bytes of weights,
        optimizer and a step's values, part by part, and the operations of each layer.  batch: rows of a training step, 0:
        those of the run."""
        return self._state().model.plan(library.context(self.threads), options.config({"batch": batch}))

    def describe(self) -> Dict[str, Any]:
        """What the model file says of itself, as 'wisp inspect --json' has it: net (its layers as text), parameters, features,
        labels, loss, options of its run ..."""
        return dict(self._state().model.describe)

    def save(self, path: Any) -> None:
        """The model file, which the command and every other interface read; parameters of prediction are not in it."""
        self._state().model.save(path)

    @classmethod
    def load(cls, path: Any, **keywords: Any) -> "WispClassifier":
        """A model file.  Classes that were text or numbers come back so; one that the command trained is multi-label,
        with names as classes where it has them."""
        out = cls(**keywords)
        model = Model.open(path)
        out._take(model, model.note().get("kind", "sparse"), None, None)
        out.report_ = {}
        return out

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_lock", None)
        fitted = state.pop("_fitted", None)
        if fitted is not None:
            state.update(_model=fitted.model.bytes(), _kind=fitted.kind)
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        library.Shared.__init__(self)
        state = {**{name: p.default for name, p in _PARAMETERS.items()}, **state}  # of a version with fewer parameters
        data, kind = state.pop("_model", None), state.pop("_kind", None)
        self.__dict__.update(state)
        if data is not None:
            self._take(Model.of_bytes(data), kind, state["classes_"], state.get("feature_names_in_"))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True),
                    classifier_tags=ClassifierTags(multi_label=True), input_tags=InputTags(sparse=True),
                    array_api_support=False, no_validation=False, non_deterministic=False, requires_fit=True)


_PARAMETERS = {name: p for name, p in inspect.signature(WispClassifier.__init__).parameters.items() if name != "self"}


def _is_file(X: Any, Y: Any) -> bool:
    """Of rows with labels: a str is a path where there are no labels, as such text would teach nothing."""
    return is_file(X) or (Y is None and isinstance(X, str))


def _of(X: Any, narrow: bool = False) -> Union[Text, Images, Csr]:
    """X in the form that the library takes."""
    words = texts(X)
    if words is not None:
        return Text(words)
    return images(X) or matrix(X, narrow)


def _data(rows: Union[Text, Images, Csr], labels: Labels, ctx: library.Handle, settings: Dict[str, Any],
          like: Optional[Data] = None) -> Data:
    """Rows with labels, to train on, or to validate with those of 'like'."""
    if isinstance(rows, Text):
        return Data.of_text(rows, ctx, options.config(settings), labels, like=like)
    if isinstance(rows, Images):
        return Data.of_images(rows, labels, len(labels.classes))
    return Data.view(rows, labels, len(labels.classes))


@contextlib.contextmanager
def _said_of(argument: str) -> Iterator[None]:
    """Errors name the argument, where X and Y may be taken for others."""
    try:
        yield
    except ValueError as e:
        e.args = (f"{argument}: {e}",)
        raise


def _size_text(size: Tuple[int, ...]) -> str:
    return " x ".join(map(str, size))


def _sparse(ids: np.ndarray, values: np.ndarray, wanted: np.ndarray, n: int) -> sp.csr_matrix:
    """The wanted values at their ids, as CSR (rows, n)."""
    start = np.concatenate([[0], np.cumsum(wanted.sum(axis=1))])
    out = sp.csr_matrix((values[wanted], ids[wanted], start), shape=(len(ids), n))
    out.sort_indices()
    return out


def _spread(ids: np.ndarray, values: np.ndarray, n: int, missing: float) -> np.ndarray:
    """The values at their ids, as an array (rows, n); what was not found is missing."""
    out = np.full((len(ids), n + 1), missing, dtype=np.float64)  # -1 is the last place, which nobody gets
    np.put_along_axis(out, ids, values, axis=1)
    return out[:, :n]


def _names(X: Any, init: Optional[_Fitted], n_features: int) -> Optional[np.ndarray]:
    """Names of the columns: those of X, or, where it has none, of the rows before."""
    names = feature_names(X)
    if names is None and init is not None and init.names is not None and len(init.names) == n_features:
        return init.names
    return names


def _compare_names(who: str, known: Optional[np.ndarray], given: Optional[np.ndarray], more: bool, what: str) -> None:
    """Columns must be those of the training rows, in their order, as scikit-learn has it."""
    if given is None or known is None:
        if given is not None:
            warnings.warn(f"{what} has feature names, but {who} was fitted without feature names", stacklevel=5)
        elif known is not None:
            warnings.warn(f"{what} does not have valid feature names, but {who} was fitted with feature names", stacklevel=5)
        return
    if given[:len(known) if more else None].tolist() == known.tolist():
        return
    of = "" if what == "X" else f" of {what}"
    text = f"The feature names{of} should match those that were passed during fit.\n"
    unseen, missing = sorted(set(given) - set(known)), sorted(set(known) - set(given))
    for title, names in (("Feature names unseen at fit time", unseen),
                         ("Feature names seen at fit time, yet now missing", missing)):
        if names:
            text += f"{title}:\n" + "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if names[5:] else "")
    if not unseen and not missing:
        text += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(text)


def _one_of(Y: Any, y: Any) -> Any:
    if Y is not None and y is not None:
        raise TypeError("Y and y are two names for the labels: one of them, please")
    return y if Y is None else Y


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
