"""wisp: neural networks that are mostly zeros.

WispClassifier trains and predicts with sparse rows and very many labels, prune() trains one and makes it small, SparseNetwork runs very deep networks of fixed
connections, read() opens any data file that the command reads, Client asks 'wisp serve'.  docs/python.md has examples."""
from __future__ import annotations

from ._files import read
from ._library import info, version
from .classifier import WispClassifier
from .client import Client, ClientError
from .explaining import Explanation, Reason
from .pruning import prune
from .sparse import SparseNetwork

__version__ = version()
__all__ = ["Client", "ClientError", "Explanation", "Reason", "SparseNetwork", "WispClassifier", "__version__", "info", "prune", "read"]
