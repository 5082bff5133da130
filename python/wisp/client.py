"""wisp.Client: asks 'wisp serve' for predictions, with nothing but the standard library."""
from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterable, NamedTuple


class Label(NamedTuple):
    """One answer: the label's name, its id, and its score; 'why' is there where it was asked for."""
    label: str
    id: int
    score: float
    why: Any = None


class ClientError(Exception):
    """The server refused: 'status' is that of HTTP (0: it was not reached), the text says why."""

    def __init__(self, status: int, message: str):
        super().__init__(message if not status else f"{status}: {message}")
        self.status = status
        self.message = message


class Client:
    """A server that 'wisp serve' runs.

    url      where it listens
    model    the model to ask, where a call does not say; None: the server's first
    token    for servers that want one (--token-file)
    retries  how often a request is sent again after 503, when the server says it is busy
    context  an ssl.SSLContext, for certificates that this machine does not trust by itself
    """

    def __init__(self, url: str = "http://127.0.0.1:8080", *, model: str | None = None, token: str | None = None,
                 timeout: float = 60, retries: int = 3, context: ssl.SSLContext | None = None):
        self.url = url.rstrip("/")
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self._context = context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def predict(self, rows: Any, *, k: int | None = None, threshold: float | str | None = None, inference: str | None = None,
                scores: str | None = None, explain: bool | int | None = None, model: str | None = None) -> list[list[Label]]:
        """The best labels of each row, best first.

        rows: a text or a list of texts; a dict of features ({name or id: value}) or a list of them; a scipy matrix, or an
        array, with one row per sample.  For images see predict_pictures.  threshold: a number, or "model" for those that
        the model has for its labels.  What is not said is as the server was told."""
        body = {"k": k, "threshold": threshold, "inference": inference, "scores": scores, "explain": explain}
        return self._predict({**body, **_rows(rows)}, model)

    def predict_pictures(self, files: Iterable[Any], *, k: int | None = None, model: str | None = None) -> list[list[Label]]:
        """The same for pictures: paths of PNG or JPEG files, or their bytes."""
        import base64
        rows = []
        for file in files:
            if not isinstance(file, (bytes, bytearray)):
                with open(file, "rb") as f:
                    file = f.read()
            rows.append({"image": base64.b64encode(file).decode()})
        return self._predict({"rows": rows, "k": k}, model)

    def models(self) -> list[dict[str, Any]]:
        """What the server has: name, version, what it reads, numbers of features and labels."""
        return self._ask("/models")["models"]

    def ready(self) -> bool:
        """Does it answer, with all its models?"""
        try:
            return bool(self._ask("/v2/health/ready")["ready"])
        except ClientError:
            return False

    def metrics(self) -> str:
        """Its counters, as Prometheus reads them."""
        return self._send("/metrics", None).decode()

    def _predict(self, body: dict[str, Any], model: str | None) -> list[list[Label]]:
        body["model"] = model or self.model
        answer = self._ask("/predict", {key: value for key, value in body.items() if value is not None})
        return [[Label(b["label"], b["id"], b["score"], b.get("why")) for b in row["labels"]] for row in answer["rows"]]

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return json.loads(self._send(path, None if body is None else json.dumps(body).encode()))

    def _send(self, path: str, body: bytes | None) -> bytes:
        request = urllib.request.Request(self.url + path, body, {**self._headers, "Content-Type": "application/json"})
        for turn in range(self.retries + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout, context=self._context) as answer:
                    return answer.read()
            except urllib.error.HTTPError as e:
                with e:
                    error = ClientError(e.code, _message(e.read()) or e.reason)
                    wait = float(e.headers.get("Retry-After") or 0)
                if e.code != 503 or not wait or turn == self.retries:
                    raise error from None
                time.sleep(wait)
            except OSError as e:
                raise ClientError(0, f"{self.url}: {getattr(e, 'reason', e)}") from e
        raise AssertionError("not reached")


def _message(body: bytes) -> str:
    """What the server says of an error."""
    try:
        error = json.loads(body)["error"]
        return error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace").strip()


def _rows(rows: Any) -> dict[str, Any]:
    if isinstance(rows, str):
        return {"text": rows}
    if isinstance(rows, dict):
        return {"features": {str(key): float(value) for key, value in rows.items()}}
    if hasattr(rows, "tocsr"):  # scipy
        m = rows.tocsr()
        return {"indptr": m.indptr.tolist(), "indices": m.indices.tolist(), "data": m.data.tolist()}
    if hasattr(rows, "tolist"):  # numpy
        rows = rows.tolist()
        if rows and not isinstance(rows[0], (list, str)):
            raise TypeError("expected an array of two dimensions, one row per sample")
    if hasattr(rows, "to_numpy"):  # a DataFrame, whose items are the names of its columns
        return _rows(rows.to_numpy())
    rows = list(rows)
    if all(isinstance(row, str) for row in rows):
        return {"text": rows} if rows else {"rows": []}
    return {"rows": [_row(row) for row in rows]}


def _row(row: Any) -> dict[str, Any]:
    if isinstance(row, str):
        return {"text": row}
    if isinstance(row, dict):
        return _rows(row)
    ids = [i for i, value in enumerate(row) if value]
    return {"ids": ids, "values": [float(row[i]) for i in ids]}
