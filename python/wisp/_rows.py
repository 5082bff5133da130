"""Rows for the library: scipy matrices are viewed, not copied; labels in any of the usual forms become ids."""
from __future__ import annotations

import itertools
import os
import warnings
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import scipy.sparse as sp

from . import _library as library


def is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


# ---- features ----


def matrix(X: Any, narrow: bool = False) -> sp.csr_matrix:
    """X as CSR with ids and values of types that the library takes, shared with X where they are; narrow: 32 bits."""
    if not sp.issparse(X):
        X = _dense(X)
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X!r}")
    if X.shape[0] < 1:
        raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
    if X.shape[1] < 1:
        raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if not sp.issparse(X) or X.format != "csr":
        X = sp.csr_matrix(X)
    values = X.data if X.dtype in (np.float32, np.float64) else X.data.astype(np.float32)
    ids, start = (a if a.dtype in (np.int32, np.int64) else a.astype(np.int64) for a in (X.indices, X.indptr))
    if narrow:
        values, ids = values.astype(np.float32, copy=False), ids.astype(np.int32, copy=False)
    out = sp.csr_matrix(X.shape, dtype=values.dtype)  # as it is: scipy would choose types anew
    out.data, out.indices, out.indptr = (np.ascontiguousarray(a) for a in (values, ids, start))
    return out


def _dense(X: Any) -> np.ndarray:
    A = np.asarray(X)
    if A.ndim != 2:
        raise ValueError(f"Expected 2D array, got {A.ndim}D array instead:\narray={A}.\nReshape your data either using "
                         "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it "
                         "contains a single sample.")
    if A.dtype.kind in "OUS":
        try:
            A = A.astype(np.float64)
        except TypeError as e:
            raise TypeError(f"{e}: argument must be a string or a number") from None
    elif A.dtype.kind not in "bifuc":
        raise ValueError(f"X has values of type {A.dtype}, expected numbers")
    return A


def tidy(X: sp.csr_matrix) -> sp.csr_matrix:
    """A copy without zeros and repeats, its ids in order, as floats."""
    X = sp.csr_matrix((X.data.astype(np.float32), X.indices.copy(), X.indptr.copy()), shape=X.shape)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


class Data(library.Handle):
    """Rows of the library.  Arrays that it borrows live as long as it does."""

    @classmethod
    def view(cls, X: sp.csr_matrix, labels: Optional["Labels"] = None, n_labels: int = 0) -> "Data":
        try:
            return cls._view(X, labels, n_labels)
        except ValueError as e:
            if getattr(e, "status", 0) != library.EFORMAT:
                raise
        except FloatingPointError as e:
            raise ValueError(f"X has NaN or infinity: {e}") from None
        return cls._view(tidy(X), labels, n_labels)  # only where the library would have to tidy a copy, too

    @classmethod
    def _view(cls, X: sp.csr_matrix, labels: Optional["Labels"], n_labels: int) -> "Data":
        types = (library.PTR64 * (X.indptr.dtype == np.int64) | library.IDS64 * (X.indices.dtype == np.int64) |
                 library.VALUES64 * (X.data.dtype == np.float64))
        y = (None, None) if labels is None else (labels.start.ctypes.data, labels.ids.ctypes.data)
        return cls("wisp_data_view_csr", "wisp_data_free", X.shape[0], X.shape[1], n_labels, X.indptr.ctypes.data,
                   X.indices.ctypes.data, X.data.ctypes.data, types, *y, keep=(X, labels))

    @classmethod
    def open(cls, path: Any, ctx: library.Handle, cfg: library.Handle, model: Any = None,
             like: Optional["Data"] = None) -> "Data":
        name = os.fsencode(path)
        if like is not None:
            return cls("wisp_data_open_like", "wisp_data_free", ctx, name, cfg, like)
        return cls("wisp_data_open", "wisp_data_free", ctx, name, cfg, model)

    @property
    def stats(self) -> library.DataStats:
        out = library.DataStats()
        library.lib.wisp_data_stats_get(self, out)
        return out


# ---- labels ----


class Labels(NamedTuple):
    """Labels of rows as ids in CSR order, and what the ids stand for."""

    start: np.ndarray  # (n + 1) int64
    ids: np.ndarray  # int32
    classes: np.ndarray  # what id i stands for; beyond the known ones: new
    kind: str  # "single": a class a row; "lists", "sparse", "dense": any number, and how Y said so


def _class_array(classes: Sequence) -> np.ndarray:
    """Classes as an array that gives them back as they are."""
    kinds = {type(x) for x in classes}
    if len(kinds) == 1 and (kinds <= {str, int, bool, float} or issubclass(next(iter(kinds)), np.generic)):
        return np.array(list(classes))
    out = np.empty(len(classes), dtype=object)
    for i, x in enumerate(classes):
        out[i] = x
    return out


def _order(found: set) -> list:
    try:
        return sorted(found)
    except TypeError:  # of several types
        return sorted(found, key=lambda x: (type(x).__name__, repr(x)))


def _ids(flat: list, known: Optional[np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
    """Ids of classes; those that 'known' does not have come after it."""
    try:
        found = set(flat)
    except TypeError as e:
        raise ValueError(f"labels must be hashable: {e}") from None
    old = [] if known is None else known.tolist()
    new = _order(found.difference(old))
    number = {label: i for i, label in enumerate(itertools.chain(old, new))}
    ids = np.fromiter((number[label] for label in flat), dtype=np.int32, count=len(flat))
    return ids, known if known is not None and not new else _class_array(old + new)


def more_classes(classes: Any, known: Optional[np.ndarray]) -> np.ndarray:
    """What is known, then what of 'classes' is not."""
    given = np.asarray(classes).tolist()
    return _ids(given, known)[1] if known is not None else _class_array(_order(set(given)))


def _indicator(Y: sp.csr_matrix, known: Optional[np.ndarray], kind: str) -> Labels:
    Y = sp.csr_matrix(Y)
    if not Y.has_canonical_format or np.count_nonzero(Y.data) < Y.nnz:
        Y = tidy(Y)
    n = Y.shape[1]
    classes = np.arange(n) if known is None else known
    if len(classes) < n:  # further columns
        classes = _class_array(classes.tolist() + list(range(len(classes), n)))
    return Labels(Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False), classes, kind)


def _single(y: np.ndarray, known: Optional[np.ndarray]) -> Labels:
    if y.dtype.kind == "f":
        if not np.all(np.isfinite(y)):
            raise ValueError("Y contains NaN or infinity")
        if np.any(y != np.floor(y)):
            raise ValueError("Unknown label type: continuous. Y must be classes, lists of labels or an indicator matrix")
    start = np.arange(len(y) + 1, dtype=np.int64)
    if known is None and y.dtype != object:
        classes, ids = np.unique(y, return_inverse=True)
        return Labels(start, ids.astype(np.int32).reshape(-1), classes, "single")
    ids, classes = _ids(y.tolist(), known)
    return Labels(start, ids, classes, "single")


def _lists(Y: Sequence, known: Optional[np.ndarray]) -> Labels:
    rows: List[list] = [list(row) for row in Y]
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=start[1:])
    ids, classes = _ids(list(itertools.chain.from_iterable(rows)), known)
    return Labels(start, ids, classes, "lists")


def labels(Y: Any, n_rows: int, known: Optional[np.ndarray] = None) -> Labels:
    """Y (classes, lists of labels, an indicator matrix: dense or sparse) as ids."""
    if Y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if sp.issparse(Y):
        out = _indicator(Y, known, "sparse")
    else:
        is_list = isinstance(Y, (list, tuple)) or (isinstance(Y, np.ndarray) and Y.dtype == object and Y.ndim == 1)
        rows = is_list and any(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) for row in Y)
        if rows and not all(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) for row in Y):
            raise ValueError("Y has rows that are lists of labels and rows that are not")
        A = None if rows else np.asarray(Y)
        if A is None:
            out = _lists(Y, known)
        elif A.ndim == 2 and A.shape[1] == 1:
            warnings.warn("A column-vector y was passed when a 1d array was expected", _conversion(), stacklevel=4)
            out = _single(A.ravel(), known)
        elif A.ndim == 2:
            if A.dtype.kind not in "biuf":
                raise ValueError(f"Y is a matrix of type {A.dtype}, expected an indicator matrix of 0 and 1")
            out = _indicator(A, known, "dense")
        elif A.ndim == 1:
            out = _single(A, known)
        else:
            raise ValueError(f"Y has {A.ndim} dimensions, expected classes, lists of labels or an indicator matrix")
    if len(out.start) != n_rows + 1:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n_rows, len(out.start) - 1]}")
    return out


def _conversion() -> type:
    import sys

    seen = sys.modules.get("sklearn.exceptions")
    return seen.DataConversionWarning if seen else UserWarning
