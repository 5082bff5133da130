"""libwisp by ctypes: where it lies, its functions and structs, and its errors as Python's."""
from __future__ import annotations

import ctypes as c
import os
import pathlib
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

Status = "a status"
Size = c.c_size_t
Pointer = c.c_void_p


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 500), ("line", Size), ("row", Size),
                ("file_bytes", c.c_ushort), ("place_bytes", c.c_ushort)]


class Option(c.Structure):
    _fields_ = [(name, c.c_char_p) for name in ("key", "type", "fallback", "range", "commands", "help", "group",
                                             "essential")]


class DataStats(c.Structure):
    _fields_ = [(name, Size) for name in ("n_rows", "n_features", "n_labels", "n_values", "n_label_values",
                                          "n_unlabelled", "source_bytes", "bytes", "n_unknown_values",
                                          "n_unknown_labels")]


class Progress(c.Structure):
    _fields_ = [("epoch", c.c_int), ("epochs", c.c_int), ("rows_done", Size), ("n_rows", Size), ("loss", c.c_double),
                ("rows_per_s", c.c_double), ("eta_s", c.c_double), ("rows_trained", Size), ("train_s", c.c_double),
                ("active", c.c_double), ("scored", c.c_double), ("recall", c.c_double), ("epoch_ended", c.c_int),
                ("valid", c.c_double), ("best", c.c_int), ("json", c.c_char_p), ("sampled", c.c_int),
                ("run", c.c_char_p)]


OnProgress = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Progress))
OnNotice = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)

EINVAL, ENOMEM, EIO, EFORMAT, ENOTSUP, EMODEL, ENUMERIC, EPEER, ESTOPPED = range(-1, -10, -1)
PTR64, IDS64, VALUES64 = 1, 2, 4

_KINDS = {EINVAL: ValueError, ENOMEM: MemoryError, EIO: OSError, EFORMAT: ValueError, ENOTSUP: NotImplementedError,
          EMODEL: ValueError, ENUMERIC: FloatingPointError, EPEER: ConnectionError, ESTOPPED: InterruptedError}

_OUT = c.POINTER(Pointer)
_TEXT = c.c_char_p
# name: (result, arguments but for the error, which those that return a status take last)
FUNCTIONS = {
    "wisp_version": (_TEXT, []),
    "wisp_context_create": (Status, [_OUT, c.c_int]),
    "wisp_context_free": (None, [Pointer]),
    "wisp_context_on_notice": (None, [Pointer, OnNotice, Pointer]),
    "wisp_table_row": (c.c_int, [_TEXT, Size, c.POINTER(_TEXT), c.POINTER(_TEXT)]),
    "wisp_option_row": (c.POINTER(Option), [Size]),
    "wisp_config_create": (Status, [_OUT]),
    "wisp_config_free": (None, [Pointer]),
    "wisp_config_set": (Status, [Pointer, _TEXT, _TEXT]),
    "wisp_data_open": (Status, [_OUT, Pointer, _TEXT, Pointer, Pointer]),
    "wisp_data_open_like": (Status, [_OUT, Pointer, _TEXT, Pointer, Pointer]),
    "wisp_data_from_text": (Status, [_OUT, Pointer, Size, _TEXT, Pointer, Size, Pointer, Pointer, Pointer, Pointer]),
    "wisp_data_from_text_like": (Status, [_OUT, Pointer, Size, _TEXT, Pointer, Size, Pointer, Pointer, Pointer, Pointer]),
    "wisp_data_view_csr": (Status, [_OUT, Size, Size, Size, Pointer, Pointer, Pointer, c.c_uint, Pointer, Pointer]),
    "wisp_data_from_images": (Status, [_OUT, Size, Size, Size, Size, Pointer, c.c_int, Size, Pointer, Pointer]),
    "wisp_data_set_weights": (Status, [Pointer, Pointer]),
    "wisp_data_stats_get": (None, [Pointer, c.POINTER(DataStats)]),
    "wisp_data_write": (Status, [Pointer, Pointer, _TEXT, _TEXT]),
    "wisp_data_labels_by_name": (None, [Pointer]),
    "wisp_data_free": (None, [Pointer]),
    "wisp_train": (Status, [_OUT, Pointer, Pointer, Pointer, Pointer, _TEXT, OnProgress, Pointer]),
    "wisp_prune": (Status, [_OUT, Pointer, Pointer, Pointer, Pointer, _TEXT, OnProgress, Pointer]),
    "wisp_model_load": (Status, [_OUT, _TEXT]),
    "wisp_model_free": (None, [Pointer]),
    "wisp_model_n_labels": (Size, [Pointer]),
    "wisp_model_label_name": (Pointer, [Pointer, c.c_int32, c.POINTER(Size)]),
    "wisp_model_feature_name": (Pointer, [Pointer, c.c_int32, c.POINTER(Size)]),
    "wisp_model_describe": (_TEXT, [Pointer]),
    "wisp_model_threshold": (c.c_float, [Pointer, c.c_int32]),
    "wisp_threshold": (Status, [_OUT, Pointer, Pointer, Pointer, Pointer, _TEXT]),
    "wisp_model_plan": (Status, [_OUT, Pointer, Pointer, Pointer]),
    "wisp_predictor_create": (Status, [_OUT, Pointer, Pointer, Pointer, Size]),
    "wisp_predictor_calibrated": (c.c_int, [Pointer]),
    "wisp_predictor_run": (Status, [Pointer, Pointer, Pointer, Pointer, Size, Size]),
    "wisp_predictor_run_csr": (Status, [Pointer, Pointer, Pointer, Size, Size, Pointer, Pointer, Pointer, c.c_uint]),
    "wisp_predictor_free": (None, [Pointer]),
    "wisp_explain": (Status, [Pointer, Pointer, Pointer, Size, c.c_int32]),
    "wisp_report_json": (_TEXT, [Pointer]),
    "wisp_report_free": (None, [Pointer]),
    "wisp_sparse_create": (Status, [_OUT, c.c_double]),
    "wisp_sparse_free": (None, [Pointer]),
    "wisp_sparse_add": (Status, [Pointer, c.c_uint32, c.c_uint32, Pointer, Pointer, Pointer, Pointer, c.c_int]),
    "wisp_sparse_run": (Status, [Pointer, Pointer, _OUT, Pointer, Pointer, Size, Pointer, Pointer, Pointer, Pointer]),
}


def _find() -> str:
    """The library: WISP_LIBRARY, in the installed package, or in the tree that this file belongs to."""
    named = os.environ.get("WISP_LIBRARY")
    here = pathlib.Path(__file__).resolve().parent
    places = [pathlib.Path(named)] if named else [here / "lib" / "libwisp.so", here.parents[1] / "build" / "libwisp.so"]
    for place in places:
        if place.is_file():
            return str(place)
    raise ImportError("libwisp.so is not in " + " or ".join(str(p.parent) for p in places) +
                      ": install the package (pip install .), run 'make', or set WISP_LIBRARY to its path")


def _load() -> c.CDLL:
    lib = c.CDLL(path)  # its calls let other Python threads run
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype = c.c_int if result is Status else result
        function.argtypes = arguments + ([c.POINTER(Error)] if result is Status else [])
    return lib


path = _find()
lib = _load()


def version() -> str:
    return lib.wisp_version().decode()


def call(name: str, *arguments: Any, file: Optional[str] = None, place: Optional[str] = None) -> None:
    """A function that returns a status: its error becomes an exception.  file: what the file that it speaks of is to be
    called; place: what stands for all that says where."""
    err = Error()
    status = getattr(lib, name)(*arguments, err)
    if status:
        raise failure(status, err, file, place)


def failure(status: int, err: Error, file: Optional[str] = None, place: Optional[str] = None) -> Exception:
    """The library's error as one of Python's: its text, and as attributes 'status' (the number), 'file' and 'line' (from 1) of
    the file that it speaks of and 'row' of the data (from 0); None where it speaks of none."""
    known, said, message = (x.decode(errors="replace") for x in (
        err.text[:err.file_bytes], err.text[err.file_bytes:err.place_bytes], err.text[err.place_bytes:]))
    if known and file:
        known = file
    error: Any = _KINDS.get(status, RuntimeError)((known + said if place is None else place) + message)
    error.status, error.file, error.line = status, known or None, err.line or None
    error.row = err.row - 1 if err.row else None
    return error


class Handle:
    """What the library made, freed when nobody holds it any more; 'keep' lives as long."""

    def __init__(self, create: str, free: str, *arguments: Any, keep: Any = None, file: Optional[str] = None) -> None:
        out = Pointer()
        call(create, out, *arguments, file=file)
        self._as_parameter_ = out  # ctypes takes the handle itself, which so lives through the call
        self.keep = keep
        self._end = weakref.finalize(self, _free, os.getpid(), getattr(lib, free), out)


def _free(maker: int, function: Any, out: Pointer) -> None:
    """A forked process has a copy of the memory but none of the threads: freeing there would wait for them."""
    if os.getpid() == maker:
        function(out)


# ---- several threads, several processes ----


class Shared:
    """What several threads may use at once: those that change it do so 'with self._lock'.  A child of fork() has the one
    thread that called it, so whatever others held or were about to do is dropped there: its lock is free, and '_forget'
    lets go of what needs threads that are not there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _shared.add(self)

    def _forget(self) -> None:
        self._lock = threading.RLock()


_shared: "weakref.WeakSet[Shared]" = weakref.WeakSet()


def _forked() -> None:
    for thing in list(_shared):
        thing._forget()


os.register_at_fork(after_in_child=_forked)


def whole_number(name: str, value: Any, least: int) -> int:
    """As Python, numpy or a text has it.  Nothing is rounded, and True is none."""
    if type(value) is int and value >= least:  # each prediction of one row asks twice
        return value
    try:
        number = int(value)
        good = (isinstance(value, str) or number == value) and type(value).__name__ not in ("bool", "bool_")
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good or number < least:
        raise ValueError(f"{name}: found {value!r}, expected a whole number, {least} or more")
    return number


def context(threads: Any = 0, say: Optional[Callable[[str], None]] = None) -> Handle:
    ctx = Handle("wisp_context_create", "wisp_context_free", whole_number("threads", threads, 0))
    if say:
        ctx.keep = OnNotice(lambda _, line: say(line.decode(errors="replace")))
        lib.wisp_context_on_notice(ctx, ctx.keep, None)
    return ctx


def report(out: Pointer) -> Dict[str, Any]:
    """A report as a dict; frees it."""
    import json

    try:
        return json.loads(lib.wisp_report_json(out))
    finally:
        lib.wisp_report_free(out)


def table(name: str) -> List[Tuple[str, str]]:
    """Rows (name, what) of a table of this build."""
    rows, key, what = [], c.c_char_p(), c.c_char_p()
    while lib.wisp_table_row(name.encode(), len(rows), key, what):
        rows.append((key.value.decode(), what.value.decode()))
    return rows


def info() -> Dict[str, Any]:
    """What this library is and knows: version, path, formats, layers, samplers, kernels, devices ..."""
    names = ("formats", "layers", "nets", "losses", "optimizers", "samplers", "hashes", "precisions", "kernels", "devices")
    return {"version": version(), "library": path, **{name: dict(table(name)) for name in names}}
