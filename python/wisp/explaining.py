"""Which features made a label's score, as wisp_explain takes it apart."""
from __future__ import annotations

import ctypes as c
from typing import Any, List, NamedTuple, Optional

import numpy as np

from . import _library as library

_REASON = np.dtype([("feature", np.int32), ("value", np.float32), ("part", np.float64)])


class _Raw(c.Structure):
    _fields_ = [("label", c.c_int32), ("score", c.c_float), ("logit", c.c_double), ("bias", c.c_double),
                ("remainder", c.c_double), ("n", c.c_size_t), ("reasons", c.c_void_p), ("channels", c.c_size_t),
                ("height", c.c_size_t), ("width", c.c_size_t)]


class Reason(NamedTuple):
    """What one feature adds to a logit."""

    feature: Any  # its word or column name, else its number
    value: float  # as the model sees it: weighted, scaled, standardised
    part: float


class Explanation(NamedTuple):
    """What a label's score is made of: logit = sum of all parts + bias + remainder."""

    label: Any
    score: float  # as predict_proba gives it
    logit: float  # what the loss makes the raw score of
    bias: float  # what all biases of the net add
    remainder: float  # what the gradient cannot tell: rounding in nets of ReLUs
    reasons: List[Reason]  # the features with the largest parts, the largest first
    more: int  # features that are not among them
    more_part: float  # and what they add together
    pixels: Optional[np.ndarray]  # of images instead: the parts of all pixels (channels, height, width)


def _name(model: library.Handle, feature: int, columns: Optional[np.ndarray]) -> Any:
    if columns is not None:
        return columns[feature]
    size = c.c_size_t()
    at = library.lib.wisp_model_feature_name(model, feature, size)
    return feature if at is None else c.string_at(at, size.value).decode(errors="replace")


def explain(predictor: Any, model: library.Handle, data: library.Handle, row: int, label: int, features: Optional[int],
            classes: np.ndarray, columns: Optional[np.ndarray]) -> Explanation:
    out = c.POINTER(_Raw)()
    library.call("wisp_explain", c.byref(out), predictor, data, row, label)
    e = out.contents
    parts = np.frombuffer((c.c_char * (e.n * _REASON.itemsize)).from_address(e.reasons), _REASON) if e.n else np.empty(0, _REASON)
    pixels = None
    if e.height:
        pixels = np.zeros(e.n)
        pixels[parts["feature"]] = parts["part"]
        pixels = pixels.reshape(e.channels, e.height, e.width)
    shown = 0 if e.height else len(parts) if features is None else min(features, len(parts))
    reasons = [Reason(_name(model, int(f), columns), float(v), float(p)) for f, v, p in parts[:shown].tolist()]
    return Explanation(classes[e.label], e.score, e.logit, e.bias, e.remainder, reasons, len(parts) - shown,
                       float(parts["part"][shown:].sum()), pixels)
