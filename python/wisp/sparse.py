"""Very deep networks of few, fixed connections, run on scipy matrices."""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
import scipy.sparse as sp

from . import _library as library
from . import _options as options
from ._rows import ordered


class SparseNetwork(library.Shared):
    """Layers y = min(clip, max(0, W x + bias)).  Several threads may use one: they wait for each other.

    Parameters
    ----------
    weights : sequence of scipy sparse matrices (outputs, inputs), one per layer; None: add them one by one
    biases : for each layer a number, an array (outputs) or None; or one number for all
    clip : float, default=0
        Upper bound of the values; 0: none.
    linear : bool, default=False
        The last of 'weights' has no bounds, as that of a classifier.
    mode : {'exact', 'raw', 'merged'}
        raw: every edge of every input is computed; exact: inputs that no later layer changes are done; merged: exact,
        and equal neurons are computed once.
    device : {'cpu', 'cuda'}
    memory : int or str, default=0
        Limit for network and inputs on a card, e.g. '2G'; what is beyond it is streamed.  0: what it has.
    threads : int, default=0
        0: one per core.
    """

    def __init__(self, weights: Optional[Sequence[Any]] = None, biases: Any = None, *, clip: float = 0, linear: bool = False,
                 mode: str = "exact", device: str = "cpu", memory: Any = 0, threads: int = 0) -> None:
        super().__init__()
        self.mode, self.device, self.memory, self.threads = mode, device, memory, threads
        self.n_inputs = self.n_outputs = self.n_layers = 0
        self.report_: Dict[str, Any] = {}
        self._context: Optional[Tuple[int, library.Handle]] = None  # the threads that it was made for, and it
        self._net = library.Handle("wisp_sparse_create", "wisp_sparse_free", float(clip))
        weights = list(weights or [])
        for name, given in (("biases", np.isscalar(biases)), ("linear", linear)):
            if given and not weights:
                raise ValueError(f"{name} is given, but no weights that it is for; say it to add(), layer by layer")
        if biases is None or np.isscalar(biases):
            biases = [biases] * len(weights)
        if len(biases) != len(weights):
            raise ValueError(f"{len(weights)} layers, but {len(biases)} biases")
        for i, (W, bias) in enumerate(zip(weights, biases)):
            self.add(W, bias, linear=linear and i + 1 == len(weights))

    def add(self, W: Any, bias: Any = None, linear: bool = False) -> "SparseNetwork":
        """One more layer; W (outputs, inputs) is copied."""
        W = _canonical(W)
        n_out, n_in = W.shape
        b = None
        if bias is not None:
            b = np.asarray(bias, dtype=np.float32)
            if b.size != 1 and b.shape != (n_out,):
                raise ValueError(f"layer {self.n_layers}: its bias has the shape {b.shape}, expected a number or ({n_out},), as W has "
                                 "outputs")
            b = np.ascontiguousarray(np.broadcast_to(b.reshape(-1), (n_out,)))
        start, ids, values = _arrays(W)
        with self._lock:
            if self.n_layers and n_in != self.n_outputs:
                raise ValueError(f"layer {self.n_layers}: W takes {n_in} inputs, the layer before gives {self.n_outputs}")
            library.call("wisp_sparse_add", self._net, n_in, n_out, start.ctypes.data, ids.ctypes.data, values.ctypes.data,
                         None if b is None else b.ctypes.data, int(linear))
            self.n_inputs = self.n_inputs or n_in
            self.n_outputs = n_out
            self.n_layers += 1
        return self

    def run(self, X: Any) -> np.ndarray:
        """The last layer's values (rows, outputs) of inputs X (rows, inputs)."""
        X = _canonical(X)
        with self._lock:
            values = np.empty((X.shape[0], self.n_outputs), dtype=np.float32)
            self._run(X, values)
        return values

    def nonzero(self, X: Any) -> np.ndarray:
        """Which rows do not end with zeros alone, as numbers from 0."""
        X = _canonical(X)
        with self._lock:
            return np.flatnonzero(self._run(X, None))

    def _run(self, X: sp.csr_matrix, values: Optional[np.ndarray]) -> np.ndarray:
        """With the lock held: the library keeps what it found about the layers in the network."""
        if X.shape[1] != self.n_inputs:
            raise ValueError(f"X has {X.shape[1]} columns, the network takes {self.n_inputs} inputs")
        ends, out = np.zeros(X.shape[0], dtype=np.uint8), library.Pointer()
        start, ids, data = _arrays(X)
        cfg = options.config({"mode": self.mode, "device": self.device, "memory": self.memory})
        if self._context is None or self._context[0] != self.threads:
            self._context = None
            self._context = self.threads, library.context(self.threads)
        library.call("wisp_sparse_run", None if values is None else values.ctypes.data, ends.ctypes.data, out,
                     self._context[1], self._net, X.shape[0], start.ctypes.data, ids.ctypes.data, data.ctypes.data, cfg)
        self.report_ = library.report(out)
        return ends

    def _forget(self) -> None:
        super()._forget()
        self._context = None


def _canonical(M: Any) -> sp.csr_matrix:
    """As CSR, ids in order and without repeats; a matrix that is so already is taken as it is."""
    M = sp.csr_matrix(M)
    if M.dtype.kind == "c":
        raise ValueError(f"found a matrix of type {M.dtype}, expected numbers that are not complex")
    ordered(M)
    if not M.has_canonical_format:
        M = M.copy()
        M.sum_duplicates()
    return M


def _arrays(M: sp.csr_matrix) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, ids, values of the types that the engine has."""
    return (np.ascontiguousarray(M.indptr, dtype=np.uint64), np.ascontiguousarray(M.indices, dtype=np.uint32),
            np.ascontiguousarray(M.data, dtype=np.float32))
