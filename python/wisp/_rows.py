"""Rows for the library: scipy matrices are viewed, not copied; labels in any of the usual forms become ids."""
from __future__ import annotations

import ctypes
import itertools
import numbers
import os
import warnings
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import scipy.sparse as sp

from . import _library as library


# ---- what X is ----


def is_file(X: Any) -> bool:
    """A path object names a file; a str is text."""
    return isinstance(X, os.PathLike)


def texts(X: Any) -> Optional[List[str]]:
    """X as texts, one for each row: a str is one, a list, an array or a Series of str are many; None: X is something else."""
    if isinstance(X, str):
        return [X]
    if isinstance(X, (list, tuple)):
        items: Any = X
    elif not sp.issparse(X) and getattr(X, "ndim", 0) == 1:
        A = as_array(X, "X")
        items = A.tolist() if A.dtype.kind in "OU" else ()
    else:
        return None
    if not any(isinstance(x, str) for x in items):
        return None
    bad = next((i for i, x in enumerate(items) if not isinstance(x, str)), None)
    if bad is not None:
        raise ValueError(f"row {bad} of X is {items[bad]!r}, expected text, as others are")
    return list(items)


def as_array(A: Any, what: str) -> np.ndarray:
    """As numpy has it, which would take what lies under a mask."""
    if isinstance(A, np.ma.MaskedArray) and A.mask.any():
        raise ValueError(f"{what} is masked in row {np.argwhere(A.mask)[0][0]}, expected values everywhere; {what}.filled(...) puts "
                         "some there")
    return np.asarray(A)


def feature_names(X: Any) -> Optional[np.ndarray]:
    """Names of the columns of a DataFrame where they are text; None: it has none."""
    columns = getattr(X, "columns", None)
    if columns is None or sp.issparse(X):
        return None
    names = np.asarray(list(columns), dtype=object)
    kinds = sorted({type(x).__name__ for x in names})
    if "str" not in kinds:
        return None
    if kinds != ["str"]:
        raise TypeError("Feature names are only supported if all input features have string names, but your input has "
                        f"{kinds} as feature name / column name types. Make all of them text, e.g. with "
                        "X.columns = X.columns.astype(str)")
    return names


# ---- text ----


class Text:
    """Rows of text, as the library takes them."""

    def __init__(self, rows: List[str]) -> None:
        self.n_rows = len(rows)
        parts = [row.encode() for row in rows]
        self.bytes = parts[0] if len(parts) == 1 else b"".join(parts)
        self._start = (ctypes.c_uint64 * (len(parts) + 1))(0, *itertools.accumulate(map(len, parts)))
        self.start = ctypes.addressof(self._start)


class Question(Text):
    """Rows of text to predict with a model: what they become lives as long as the call."""

    def __init__(self, rows: List[str], cfg: library.Handle, model: library.Handle) -> None:
        super().__init__(rows)
        self.cfg, self.model = cfg, model

    def ask(self, predictor: library.Handle, labels: int, scores: int) -> None:
        data = library.Pointer()
        library.call("wisp_data_from_text", data, predictor.keep[0], self.n_rows, self.bytes, self.start, 0, None, None,
                     self.cfg, self.model)
        try:
            library.call("wisp_predictor_run", labels, scores, predictor, data, 0, self.n_rows)
        finally:
            library.lib.wisp_data_free(data)

    def to_data(self, ctx: library.Handle) -> "Data":
        return Data("wisp_data_from_text", "wisp_data_free", ctx, self.n_rows, self.bytes, self.start, 0, None, None, self.cfg,
                    self.model)


# ---- features ----

# What the library takes as it is: this machine's order of bytes, 32 or 64 bits.
_OFFSETS = {np.dtype(np.int32): 0, np.dtype(np.int64): library.PTR64}
_IDS = {np.dtype(np.int32): 0, np.dtype(np.int64): library.IDS64}
_VALUES = {np.dtype(np.float32): 0, np.dtype(np.float64): library.VALUES64}


class Csr(NamedTuple):
    """Rows in CSR order with ids and values of types that the library takes."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: Tuple[int, int]

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def types(self) -> int:
        return _OFFSETS[self.indptr.dtype] | _IDS[self.indices.dtype] | _VALUES[self.data.dtype]

    def ask(self, predictor: library.Handle, labels: int, scores: int) -> None:
        try:
            self._ask(predictor, labels, scores)
        except ValueError as e:
            if getattr(e, "status", 0) != library.EFORMAT:
                raise
            tidy(self)._ask(predictor, labels, scores)  # only where ids are not in order, or a value is 0
        except FloatingPointError as e:
            raise ValueError(f"X has NaN or infinity: {e}") from None

    def to_data(self, ctx: library.Handle) -> "Data":
        return Data.view(self)

    def _ask(self, predictor: library.Handle, labels: int, scores: int) -> None:
        library.call("wisp_predictor_run_csr", labels, scores, predictor, *self.shape, self.indptr.ctypes.data,
                     self.indices.ctypes.data, self.data.ctypes.data, self.types)


def whole(M: Any) -> None:
    """Arrays of a CSR matrix that do not go together are refused before anything reads them.  (That offsets do not fall is
    seen by the library, and by 'ordered'.)"""
    start, ids, values = M.indptr, M.indices, M.data
    if start.ndim != 1 or ids.ndim != 1 or values.ndim != 1 or len(start) != M.shape[0] + 1:
        raise ValueError(f"X has {M.shape[0]} rows, but its indptr has {start.size} entries, expected one more than rows")
    first, last = start.item(0), start.item(-1)
    if first != 0 or last > len(ids) or last > len(values):
        raise ValueError(f"the indptr of X goes from {first} to {last}, but there are {len(ids)} indices and "
                         f"{len(values)} values; expected offsets from 0 to at most their number")


def ordered(M: Any) -> None:
    """For matrices that scipy is to work on, too."""
    whole(M)
    if np.any(np.diff(M.indptr) < 0):
        row = int(np.flatnonzero(np.diff(M.indptr) < 0)[0])
        raise ValueError(f"the indptr of X falls after row {row}: from {M.indptr[row]} to {M.indptr[row + 1]}")


def matrix(X: Any, narrow: bool = False) -> Csr:
    """X in CSR order, shared with X where its types are those of the library; narrow: 32 bits."""
    if not sp.issparse(X):
        return _of_array(_not_empty(_dense(X)), narrow)
    if X.format != "csr":
        X = sp.csr_matrix(X)
    start, ids, values, shape = X.indptr, X.indices, X.data, X.shape
    if shape[0] < 1 or shape[1] < 1 or values.dtype not in _VALUES:
        _not_empty(X)
        values = values.astype(np.float32)
    whole(X)
    if ids.dtype not in _IDS or start.dtype not in _OFFSETS:
        ids, start = ids.astype(np.int64), start.astype(np.int64)
    if narrow:
        values, ids = values.astype(np.float32, copy=False), ids.astype(np.int32, copy=False)
    return Csr(np.ascontiguousarray(start), np.ascontiguousarray(ids), np.ascontiguousarray(values), shape)


def _not_empty(X: Any) -> Any:
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X!r}")
    for n, what in zip(X.shape, ("sample", "feature")):
        if n < 1:
            raise ValueError(f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required.")
    return X


def _of_array(A: np.ndarray, narrow: bool) -> Csr:
    if narrow or A.dtype not in _VALUES:
        A = A.astype(np.float32)
    A = np.ascontiguousarray(A)
    there = A != 0  # NaN, too; numpy finds the places of bits, and in one dimension, much faster than others
    at = there.ravel().nonzero()[0]
    start = np.zeros(len(A) + 1, dtype=np.int64)
    if len(A) == 1:
        start[1] = len(at)
    else:
        np.cumsum(there.sum(axis=1), out=start[1:])
    return Csr(start, at if len(A) == 1 else at % A.shape[1], A.ravel()[at], A.shape)


def _dense(X: Any) -> np.ndarray:
    A = as_array(X, "X")
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


def tidy(X: Any) -> Csr:
    """A copy without zeros and repeats, its ids in order, as floats."""
    ordered(X)
    M = sp.csr_matrix((X.data.astype(np.float32), X.indices.copy(), X.indptr.copy()), shape=X.shape)
    M.sum_duplicates()
    M.eliminate_zeros()
    return matrix(M)


class Images(NamedTuple):
    """Images as the library takes them: (n, channels, height, width), bytes or floats."""

    values: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @property
    def size(self) -> Tuple[int, int, int]:
        return self.values.shape[1:]

    def ask(self, predictor: library.Handle, labels: int, scores: int) -> None:
        self.to_data(predictor).ask(predictor, labels, scores)

    def to_data(self, ctx: library.Handle) -> "Data":
        return Data.of_images(self)


def images(X: Any) -> Optional[Images]:
    """An array of three or four dimensions: (n, channels, height, width), (n, height, width, channels) where the last is 4 or
    less and the second is not, or (n, height, width).  None: X is something else."""
    if sp.issparse(X) or getattr(X, "ndim", 0) not in (3, 4):
        return None
    A = as_array(X, "X")
    if A.dtype != np.uint8 and A.dtype.kind != "f":
        raise ValueError(f"X are images of the type {A.dtype}, expected uint8 (0 to 255) or floats; X.astype(...) makes them so")
    if 0 in A.shape:
        raise ValueError(f"X are images of the shape {A.shape}, expected at least one image with at least one pixel")
    if A.ndim == 3:
        A = A[:, None]
    elif A.shape[3] <= 4 < A.shape[1]:
        A = np.moveaxis(A, 3, 1)
    return Images(np.ascontiguousarray(A, dtype=A.dtype if A.dtype == np.uint8 else np.float32))


class Data(library.Handle):
    """Rows of the library.  Arrays that it borrows live as long as it does."""

    def labels_by_name(self) -> None:
        """Files that go with a model of these rows say the names of labels, not our places among them."""
        library.lib.wisp_data_labels_by_name(self)

    @classmethod
    def view(cls, X: Csr, labels: Optional["Labels"] = None, n_labels: int = 0) -> "Data":
        try:
            return cls._view(X, labels, n_labels)
        except ValueError as e:
            if getattr(e, "status", 0) != library.EFORMAT:
                raise
        except FloatingPointError as e:
            raise ValueError(f"X has NaN or infinity: {e}") from None
        return cls._view(tidy(X), labels, n_labels)  # only where the library would have to tidy a copy, too

    @classmethod
    def _view(cls, X: Csr, labels: Optional["Labels"], n_labels: int) -> "Data":
        y = (None, None) if labels is None else (labels.start.ctypes.data, labels.ids.ctypes.data)
        return cls("wisp_data_view_csr", "wisp_data_free", *X.shape, n_labels, X.indptr.ctypes.data,
                   X.indices.ctypes.data, X.data.ctypes.data, X.types, *y, keep=(X, labels))

    @classmethod
    def of_images(cls, X: Images, labels: Optional["Labels"] = None, n_labels: int = 0) -> "Data":
        y = (None, None) if labels is None else (labels.start.ctypes.data, labels.ids.ctypes.data)
        try:
            return cls("wisp_data_from_images", "wisp_data_free", X.n_rows, *X.size, X.values.ctypes.data,
                       int(X.values.dtype != np.uint8), n_labels, *y)
        except FloatingPointError as e:
            raise ValueError(f"X has NaN or infinity: {e}") from None

    @classmethod
    def of_text(cls, rows: Text, ctx: library.Handle, cfg: library.Handle, labels: "Labels", like: Optional["Data"] = None
                ) -> "Data":
        """Rows to train on, or to validate with those of 'like'."""
        start = (rows.n_rows, rows.bytes, rows.start, len(labels.classes), labels.start.ctypes.data, labels.ids.ctypes.data)
        create = "wisp_data_from_text" if like is None else "wisp_data_from_text_like"
        return cls(create, "wisp_data_free", ctx, *start, cfg, like)

    @classmethod
    def of_question(cls, rows: "Question", ctx: library.Handle, labels: "Labels") -> "Data":
        """Text of a model's words, with labels."""
        return cls("wisp_data_from_text", "wisp_data_free", ctx, rows.n_rows, rows.bytes, rows.start, len(labels.classes),
                   labels.start.ctypes.data, labels.ids.ctypes.data, rows.cfg, rows.model)

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

    @property
    def n_rows(self) -> int:
        return int(self.stats.n_rows)

    def ask(self, predictor: library.Handle, labels: int, scores: int) -> None:
        library.call("wisp_predictor_run", labels, scores, predictor, self, 0, self.n_rows)

    def to_data(self, ctx: library.Handle) -> "Data":
        return self

    def weigh(self, weights: Any) -> np.ndarray:
        """What each row counts for in training; gives it as numbers."""
        w = as_array(weights, "sample_weight")
        if w.ndim != 1 or len(w) != self.n_rows or w.dtype.kind not in "biufO":
            raise ValueError(f"sample_weight has the shape {w.shape} and the type {w.dtype}, expected ({self.n_rows},) "
                             "numbers, one for each row")
        w = np.ascontiguousarray(w, dtype=np.float32)
        if not w.any():
            raise ValueError("sample_weight: the weights of all rows are zero, so that none counts")
        library.call("wisp_data_set_weights", self, w.ctypes.data)
        return w.astype(np.float64)


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
    return _objects(classes)


def _objects(items: Sequence) -> np.ndarray:
    """As they are: numpy would make text of numbers beside text."""
    out = np.empty(len(items), dtype=object)
    for i, x in enumerate(items):
        out[i] = x
    return out


def _order(found: set) -> list:
    try:
        return sorted(found)
    except TypeError:  # of several types
        return sorted(found, key=lambda x: (type(x).__name__, repr(x)))


def _ids(flat: list, known: Optional[np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
    """Ids of classes; those that 'known' does not have come after it."""
    if any(issubclass(t, (np.number, np.bool_)) for t in set(map(type, flat))):  # equal to Python's, but of another type
        flat = [x.item() if isinstance(x, (np.number, np.bool_)) else x for x in flat]
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
    array = hasattr(classes, "ndim")  # a Series, too
    if isinstance(classes, (str, bytes)) or (classes.ndim != 1 if array else not hasattr(classes, "__iter__")):
        raise ValueError(f"classes: found {classes!r}, expected a list of labels")
    given = np.asarray(classes).tolist() if array else list(classes)
    if any(map(_is_missing, given)):
        raise ValueError("classes: None and NaN are no labels; leave them out")
    return _ids(given, known)[1]


def number_of(label: Any, classes: np.ndarray) -> int:
    """Its place among the classes."""
    known = classes.tolist()
    try:
        hash(label)  # what has no hash is no label, though an array may say that it is equal to one
        return known.index(label)
    except (TypeError, ValueError):
        raise ValueError(f"label: {label!r} is not one of the {len(known)} classes, which are "
                         f"{' and '.join(sorted(_kinds(known)))} (the first is {known[0]!r})") from None


def _indicator(Y: Any, known: Optional[np.ndarray], kind: str) -> Labels:
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"Y is a matrix of type {Y.dtype}, expected an indicator matrix of 0 and 1")
    Y = sp.csr_matrix(Y)
    ordered(Y)
    _says_whether(Y)
    if not Y.has_canonical_format or np.count_nonzero(Y.data) < Y.nnz:
        Y = tidy(Y)
    n = Y.shape[1]
    classes = np.arange(n) if known is None else known
    if len(classes) < n:  # further columns
        classes = _class_array(classes.tolist() + list(range(len(classes), n)))
    return Labels(Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False), classes, kind)


def _says_whether(Y: sp.csr_matrix) -> None:
    """Every value of an indicator matrix: does the label apply?  NaN says neither, and -1 hardly that it does."""
    values = Y.data[:Y.indptr[-1]]
    good = (values >= 0) & (values < np.inf)
    if not good.all():
        at = int(good.argmin())
        row = int(np.searchsorted(Y.indptr, at, side="right")) - 1
        raise ValueError(f"Y, an indicator matrix: row {row}, column {Y.indices[at]} is {values[at]}; expected 0, or a finite "
                         "number above 0 where the label applies")


def _single(y: np.ndarray, known: Optional[np.ndarray]) -> Labels:
    if y.dtype.kind == "f":
        finite = np.isfinite(y)
        if not finite.all():
            raise ValueError(f"Y contains NaN or infinity: row {finite.argmin()}; leave out rows without a label")
        if np.any(y != np.floor(y)):
            raise ValueError("Unknown label type: continuous. Y must be classes, lists of labels or an indicator matrix")
    start = np.arange(len(y) + 1, dtype=np.int64)
    if known is None and y.dtype != object:
        classes, ids = np.unique(y, return_inverse=True)
        _need_all(classes.tolist(), ([label] for label in y.tolist()))
        return Labels(start, ids.astype(np.int32).reshape(-1), classes, "single")
    ids, classes = _ids(y.tolist(), known)
    _need_all(classes.tolist(), ([label] for label in y.tolist()))
    return Labels(start, ids, classes, "single")


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, numbers.Number) and label != label) or type(label).__name__ in ("NAType", "NaTType")


def _need_all(classes: Iterable, rows: Iterable) -> None:
    """A label that is not there is none; all that there are are few, so those are looked at."""
    if any(map(_is_missing, classes)):
        row = next(i for i, labels in enumerate(rows) if any(map(_is_missing, labels)))
        raise ValueError(f"Y contains NaN or None: row {row}; leave out rows without a label, or give lists, of which some may be empty")


_MADE = {"text": "; Y.astype(str) makes an array text", "numbers": "; Y.astype(int) makes an array of text numbers"}


def kind(label: Any) -> str:
    """What a label is, as far as labels of one kind may be equal."""
    if isinstance(label, (numbers.Number, np.bool_)):
        return "numbers"
    return "text" if isinstance(label, str) else type(label).__name__


def _kinds(items: Iterable) -> Set[str]:
    return {kind(x) for x in {type(x): x for x in items}.values()}


def _need_kind(Y: Labels, known: np.ndarray) -> None:
    """Labels that are not known are misses, or new; if none is known, and none could be, something else was meant."""
    if Y.ids.size == 0 or Y.ids.min() < len(known) or not len(known):
        return
    new, old = Y.classes[len(known):].tolist(), known.tolist()
    given, there = _kinds(new), _kinds(old)
    if given & there:
        return
    hint = _MADE.get(min(there), "") if len(there) == 1 else ""
    raise ValueError(f"Y has labels that are {' and '.join(sorted(given))} ({new[0]!r}), but the classes are "
                     f"{' and '.join(sorted(there))} ({old[0]!r}); give labels of the kind that the classes are{hint}")


def _lists(Y: Sequence, known: Optional[np.ndarray]) -> Labels:
    rows: List[list] = [list(row) for row in Y]
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=start[1:])
    ids, classes = _ids(list(itertools.chain.from_iterable(rows)), known)
    _need_all(classes.tolist(), rows)
    return Labels(start, ids, classes, "lists")


def labels(Y: Any, n_rows: int, known: Optional[np.ndarray] = None) -> Labels:
    """Y (classes, lists of labels, an indicator matrix: dense or sparse) as ids; known: classes that have the first ones."""
    if Y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if sp.issparse(Y):
        out = _indicator(Y, known, "sparse")
    else:
        if not isinstance(Y, (list, tuple)):
            Y = as_array(Y, "Y")  # a Series too
        is_list = isinstance(Y, (list, tuple)) or (Y.dtype == object and Y.ndim == 1)
        rows = is_list and any(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) for row in Y)
        if rows and not all(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) for row in Y):
            raise ValueError("Y has rows that are lists of labels and rows that are not")
        if isinstance(Y, (list, tuple)) and not rows and len(_kinds(Y)) > 1:
            Y = _objects(Y)
        A = None if rows else np.asarray(Y)
        if A is None:
            out = _lists(Y, known)
        elif A.ndim == 2 and A.shape[1] == 1:
            warnings.warn("A column-vector y was passed when a 1d array was expected", _conversion(), stacklevel=4)
            out = _single(A.ravel(), known)
        elif A.ndim == 2:
            out = _indicator(A, known, "dense")
        elif A.ndim == 1:
            out = _single(A, known)
        else:
            raise ValueError(f"Y has {A.ndim} dimensions, expected classes, lists of labels or an indicator matrix")
    if len(out.start) != n_rows + 1:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n_rows, len(out.start) - 1]}")
    if known is not None:
        _need_kind(out, known)
    return out


def _conversion() -> type:
    import sys

    seen = sys.modules.get("sklearn.exceptions")
    return seen.DataConversionWarning if seen else UserWarning
