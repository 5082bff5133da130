"""A model file held by its descriptor: mapped, pickled as its bytes, and predicted with."""
from __future__ import annotations

import ctypes as c
import json
import os
import secrets
import shutil
import stat
import threading
import weakref
from typing import Any, Dict, List, Optional, Protocol, Tuple

import numpy as np

from . import _library as library
from . import _options as options

KEPT = 8  # predictors that wait for the next call


# How to predict: k, threads, inference, scores, device.
Setting = Tuple[int, int, str, str, str]


class Predictor(library.Handle):
    """A model with room to predict in: for one thread at a time."""

    def __init__(self, ctx: library.Handle, model: library.Handle, setting: Setting) -> None:
        k, _, inference, scores, device = setting
        cfg = options.config({"inference": inference, "scores": scores, "device": device})
        super().__init__("wisp_predictor_create", "wisp_predictor_free", ctx, model, cfg, k, keep=(ctx, model))
        self.setting = setting
        self.calibrated = bool(library.lib.wisp_predictor_calibrated(self))  # what its scores are
        self.labels, self.scores = _room(1, k)  # for one row
        self.at = self.labels.ctypes.data, self.scores.ctypes.data

    def run(self, rows: "Rows") -> Tuple[np.ndarray, np.ndarray, bool]:
        n = rows.n_rows
        if n == 1:  # what is there is copied faster than found
            rows.ask(self, *self.at)
            return self.labels.copy(), self.scores.copy(), self.calibrated
        labels, scores = _room(n, self.setting[0])
        rows.ask(self, labels.ctypes.data, scores.ctypes.data)
        return labels, scores, self.calibrated


def _room(n: int, k: int) -> Tuple[np.ndarray, np.ndarray]:
    return np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float32)


class Rows(Protocol):
    """Rows to predict: a view of arrays, or a set of the library."""

    n_rows: int

    def ask(self, predictor: Predictor, labels: int, scores: int) -> None:
        """Fills arrays (n_rows, k) at these addresses."""

    def to_data(self, ctx: library.Handle) -> Any:
        """The same as a set of the library, for as long as somebody holds it."""


class Model(library.Shared):
    """The file may be gone from its folder; the descriptor keeps it.  Predictors are made once and lent to whoever predicts;
    they hold the library's model, so that this is freed after them."""

    def __init__(self, fd: int, name: str = "a pickled model") -> None:
        weakref.finalize(self, os.close, fd)
        super().__init__()
        self.fd = fd
        self.handle = library.Handle("wisp_model_load", "wisp_model_free", self.path.encode(), file=name)
        self.describe = json.loads(library.lib.wisp_model_describe(self.handle))
        self._thresholds: Optional[np.ndarray] = None
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._waiting: List[Predictor] = []  # the one used last is last
        self._batches = threading.Lock()  # each uses all cores: one at a time

    @classmethod
    def open(cls, path: Any) -> "Model":
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), os.fspath(path))

    @classmethod
    def of_bytes(cls, data: bytes) -> "Model":
        fd = os.memfd_create("wisp-model", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(fd), "wb") as f:
            f.write(data)
        return cls(fd)

    @property
    def path(self) -> str:
        """A path to the file for as long as this object lives, whatever became of its name."""
        return f"/proc/self/fd/{self.fd}"

    def bytes(self) -> bytes:
        with open(self.path, "rb") as f:
            return f.read()

    def save(self, path: Any) -> None:
        """Whole or not at all: written beside it, then renamed.  Whoever may read a file that is replaced may read this."""
        path = os.path.abspath(os.fspath(path))
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except FileNotFoundError:
            mode = 0o666  # less what the system takes away for this process
        made = os.path.join(os.path.dirname(path), f".wisp-{os.getpid()}-{secrets.token_hex(6)}")
        try:
            fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        except OSError as e:
            raise OSError(e.errno, e.strerror, path) from None  # the name that the caller knows
        try:
            with os.fdopen(fd, "wb") as out:
                with open(self.path, "rb") as f:
                    shutil.copyfileobj(f, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
            os.replace(made, path)
        except BaseException:
            os.unlink(made)
            raise

    @property
    def n_labels(self) -> int:
        return library.lib.wisp_model_n_labels(self.handle)

    @property
    def n_features(self) -> int:
        return int(self.describe["features"])

    def names(self) -> Optional[List[str]]:
        """Names of the labels, or None where the file has none."""
        size, out = c.c_size_t(), []
        for i in range(self.n_labels):
            at = library.lib.wisp_model_label_name(self.handle, i, size)
            if at is None:
                return None
            out.append(c.string_at(at, size.value).decode(errors="replace"))
        return out

    def thresholds(self) -> Optional[np.ndarray]:
        """The score from which on each label is given, or None where nobody has chosen it."""
        if "threshold" not in self.describe:
            return None
        if self._thresholds is None:
            of = library.lib.wisp_model_threshold
            self._thresholds = np.array([of(self.handle, i) for i in range(self.n_labels)], dtype=np.float32)
        return self._thresholds

    def note(self) -> Dict[str, Any]:
        """What the estimator that trained it has noted; {} for a model of the command."""
        for line in self.describe.get("options", "").split("\n"):
            key, _, value = line.partition("=")
            if key == "note" and value.startswith('{"wisp.py"'):
                return json.loads(value)
        return {}

    def plan(self, ctx: library.Handle, cfg: library.Handle) -> Dict[str, Any]:
        """What memory and operations the model takes."""
        out = library.Pointer()
        library.call("wisp_model_plan", out, ctx, self.handle, cfg)
        return library.report(out)

    def predict(self, rows: Rows, setting: Setting) -> Tuple[np.ndarray, np.ndarray, bool]:
        """The k best labels of each row and their scores, best first, and whether these are calibrated.  One row is work for
        the calling thread alone, beside others; on a card one call at a time works, with one copy of the weights."""
        if rows.n_rows == 1 and setting[4] == "cpu":
            return self._run(rows, (setting[0], 1) + setting[2:])
        with self._batches:
            return self._run(rows, setting)

    def lend(self, setting: Setting) -> "Lent":
        """A predictor, for 'with'."""
        return Lent(self, setting)

    def _run(self, rows: Rows, setting: Setting) -> Tuple[np.ndarray, np.ndarray, bool]:
        with self.lend(setting) as predictor:
            return predictor.run(rows)

    def _take(self, setting: Setting) -> Predictor:
        """One that waits, or a new one."""
        with self._lock:
            for i in range(len(self._waiting) - 1, -1, -1):
                if self._waiting[i].setting == setting:
                    return self._waiting.pop(i)
            return Predictor(library.context(setting[1]), self.handle, setting)

    def _give(self, predictor: Predictor) -> None:
        with self._lock:
            self._waiting.append(predictor)
            unused = self._waiting.pop(0) if len(self._waiting) > KEPT else None
        del unused  # freed without the lock: its threads are waited for


class Lent:
    """A predictor that goes back to its model."""

    def __init__(self, model: Model, setting: Setting) -> None:
        self.model, self.setting = model, setting

    def __enter__(self) -> Predictor:
        self.predictor = self.model._take(self.setting)
        return self.predictor

    def __exit__(self, *_: Any) -> None:
        self.model._give(self.predictor)


# ---- classes as names in the model file ----


def _plain(x: Any) -> bool:
    return isinstance(x, str) and bool(x) and x[0] != "\ufeff" and not any(ord(ch) < 32 for ch in x)


# how: (whether it can name this class, the name)
_NAMINGS = {
    "text": (_plain, str),
    "int": (lambda x: isinstance(x, int) and not isinstance(x, bool), str),
    "json": (lambda x: x is None or isinstance(x, (str, int, float, bool)), json.dumps),
    "repr": (lambda x: True, lambda x: repr(x).replace("\n", " ").replace("\t", " ")),  # for reading only
}


def write_names(path: str, classes: np.ndarray, how: Optional[str] = None) -> str:
    """Line i names class i.  Says how: the first way that can, or the one that the model to go on from has."""
    items = classes.tolist()
    for way in [how] if how else _NAMINGS:
        can, name = _NAMINGS[way]
        bad = next((x for x in items if not can(x)), _plain)
        if bad is _plain:
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
                f.writelines(name(x) + "\n" for x in items)
            return way
    raise ValueError(f"the label {bad!r} is of another kind than those that the model has")


def read_names(model: Model) -> np.ndarray:
    names, how = model.names(), model.note().get("names")
    if names is None:
        return np.arange(model.n_labels)
    if how == "int":
        return np.array([int(x) for x in names])
    if how == "json":
        from ._rows import _class_array

        return _class_array([json.loads(x) for x in names])
    return np.array(names)
