"""A model file held by its descriptor: mapped, pickled as its bytes, and predicted with."""
from __future__ import annotations

import ctypes as c
import json
import os
import shutil
import tempfile
import threading
import weakref
from typing import Any, List, Optional, Tuple

import numpy as np

from . import _library as library
from ._rows import Data


class Model:
    """The file may be gone from its folder; the descriptor keeps it.  A predictor is made once and kept; it holds the
    library's model, so that this is freed after it."""

    def __init__(self, fd: int, name: str = "a pickled model") -> None:
        weakref.finalize(self, os.close, fd)
        self.fd = fd
        try:
            self.handle = library.Handle("wisp_model_load", "wisp_model_free", self.path.encode())
        except (ValueError, OSError) as e:
            raise type(e)(str(e).replace(self.path, name)) from None
        self.describe = json.loads(library.lib.wisp_model_describe(self.handle))
        self._lock = threading.Lock()  # a handle is for one thread at a time
        self._predictor: Any = None
        self._made_for: Optional[tuple] = None
        self.calibrated = False  # the last scores that it gave

    @classmethod
    def open(cls, path: Any) -> "Model":
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC), os.fspath(path))

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
        """Whole or not at all: written beside it, then renamed."""
        folder = os.path.dirname(os.path.abspath(os.fspath(path)))
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".wisp-", delete=False) as out:
            try:
                with open(self.path, "rb") as f:
                    shutil.copyfileobj(f, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
                os.chmod(out.name, 0o666 & ~_umask())
                os.replace(out.name, path)
            except BaseException:
                os.unlink(out.name)
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

    def note(self) -> dict:
        """What the estimator that trained it has noted; {} for a model of the command."""
        for line in self.describe.get("options", "").split("\n"):
            key, _, value = line.partition("=")
            if key == "note" and value.startswith('{"wisp.py"'):
                return json.loads(value)
        return {}

    def predict(self, data: Data, n: int, k: int, threads: int, inference: str, scores: str, device: str
                ) -> Tuple[np.ndarray, np.ndarray]:
        """The k best labels of rows 0 .. n-1 and their probabilities, best first."""
        labels, found = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float32)
        with self._lock:
            predictor = self._use(k, threads, inference, scores, device)
            library.call("wisp_predictor_run", labels.ctypes.data, found.ctypes.data, predictor, data, 0, n)
            self.calibrated = bool(library.lib.wisp_model_calibrated(self.handle))
        return labels, found

    def _use(self, k: int, threads: int, inference: str, scores: str, device: str) -> library.Handle:
        wanted = (k, threads, inference, scores, device, os.getpid())  # a fork has none of the threads
        if wanted != self._made_for:
            self._predictor = None
            library.call("wisp_model_inference", self.handle, inference.encode())
            library.call("wisp_model_scores", self.handle, scores.encode())
            library.call("wisp_model_device", self.handle, device.encode())
            ctx = library.context(threads)
            self._predictor = library.Handle("wisp_predictor_create", "wisp_predictor_free", ctx, self.handle, k,
                                             keep=(ctx, self.handle))
            self._made_for = wanted
        return self._predictor


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
