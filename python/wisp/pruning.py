"""Networks that become small, in one call."""
from __future__ import annotations

from typing import Any

from .classifier import _OF_PRUNE, WispClassifier


def prune(X: Any, Y: Any = None, X_valid: Any = None, Y_valid: Any = None, *, sample_weight: Any = None, **keywords: Any
          ) -> WispClassifier:
    """Trains a WispClassifier and makes it small: WispClassifier(...).prune(X, Y, ...), whose keywords may be mixed with those
    of WispClassifier itself.

    small = wisp.prune(X, y, net="dense 1024, relu, dense 1024, relu", target_accuracy_drop=0.3)
    small.report_["weights_ratio"], small.describe()["net"]"""
    ours = {name: keywords.pop(name) for name in list(keywords) if name in _OF_PRUNE}
    return WispClassifier(**keywords).prune(X, Y, X_valid, Y_valid, sample_weight, **ours)
