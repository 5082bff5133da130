"""Data files as scipy matrices."""
from __future__ import annotations

import os
import tempfile
from typing import Any, Tuple

import scipy.sparse as sp

from . import _library as library
from . import _options as options
from ._rows import Data

_ROWS = options.of_commands(["convert"], without=["config", "quantize", "json", "quiet"])


def read(path: Any, **keywords: Any) -> Tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows of a file (XC or LibSVM text, "__label__x some words", .npz; packed or not) as CSR matrices: features and
    labels.  Keywords are the reading options of the command: format, index_base, no_header, pairs, min_count, cache ..."""
    unknown = set(keywords) - set(_ROWS)
    if unknown:
        raise TypeError(f"read() got an unexpected keyword argument '{min(unknown)}'")
    ctx = library.context(keywords.pop("threads", 0))
    data = Data.open(path, ctx, options.config(keywords))
    with tempfile.TemporaryDirectory(prefix="wisp-") as folder:
        out = os.path.join(folder, "rows.npz")
        library.call("wisp_data_write", data, ctx, os.fsencode(out), b"npz")
        return sp.load_npz(out), sp.load_npz(os.path.join(folder, "rows.y.npz"))
