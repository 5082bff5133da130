"""wisp as a backend of Annif (https://annif.org), the subject indexer of libraries.

Annif looks its backends up by name in a table; importing this module adds 'wisp' to it.  The command is then

    python -m wisp.annif train my-project corpus.tsv        # instead of: annif train my-project corpus.tsv

with a project such as

    [my-project]
    name=subjects by wisp
    language=en
    backend=wisp
    vocab=yso
    limit=100
    epochs=10            any option of 'wisp train' that WispClassifier takes
    inference=sparse     exact unless told

Texts are cut into words by wisp itself, so no analyzer is needed.  A server can be asked instead, by Annif's own 'http' backend
(docs/serve.md)."""
from __future__ import annotations

import os
from typing import Any

import annif.backend
from annif.backend import backend
from annif.exception import NotInitializedException, NotSupportedException
from annif.suggestion import SubjectSuggestion

from .classifier import WispClassifier

MODEL_FILE = "wisp-model"
OWN = {"limit", "language", "name", "backend", "vocab", "analyzer", "transform", "access", "algorithm"}


class WispBackend(backend.AnnifBackend):
    """Trains a WispClassifier on the texts of a corpus; its labels are Annif's numbers of subjects."""

    name = "wisp"
    _model = None

    def default_params(self) -> dict[str, Any]:
        return {**backend.AnnifBackend.DEFAULT_PARAMETERS, "inference": "exact"}

    def _path(self) -> str:
        return os.path.join(self.datadir, MODEL_FILE)

    def initialize(self, parallel: bool = False) -> None:
        if self._model is None:
            if not os.path.exists(self._path()):
                raise NotInitializedException(f"model {self._path()} not found", backend_id=self.backend_id)
            self._model = WispClassifier.load(self._path())

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        if corpus == "cached" or corpus.is_empty():
            raise NotSupportedException(f"training backend {self.backend_id} without documents")
        texts, labels = [], []
        for doc in corpus.documents:
            texts.append(doc.text)
            labels.append([str(subject) for subject in doc.subject_set])
        options = {key: value for key, value in params.items() if key not in OWN}
        if jobs:
            options["threads"] = jobs
        known = WispClassifier().get_params()
        model = WispClassifier(**{key: _value(value, known[key]) for key, value in options.items() if key in known})
        self.info(f"training wisp on {len(texts)} documents")
        self._model = model.fit(texts, labels)
        os.makedirs(self.datadir, exist_ok=True)
        self._model.save(self._path())

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> Any:
        from annif.suggestion import SuggestionBatch
        return SuggestionBatch.from_sequence(self._rows([d.text for d in documents], params), self.project.subjects,
                                             limit=int(params["limit"]))

    def _suggest(self, doc: Any, params: dict[str, Any]) -> list[SubjectSuggestion]:
        return self._rows([doc.text], params)[0]

    def _rows(self, texts: list[str], params: dict[str, Any]) -> list[list[SubjectSuggestion]]:
        self.initialize()
        self._model.set_params(inference=str(params.get("inference", "exact")))
        labels, scores = self._model.predict_top(texts, k=min(int(params["limit"]), len(self._model.classes_)))
        return [[SubjectSuggestion(subject_id=int(label), score=float(score)) for label, score in zip(*row) if label is not None and score > 0]
                for row in zip(labels, scores)]


def _value(text: Any, like: Any) -> Any:
    """A value of Annif's file of projects, which are texts, as the option wants it."""
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


annif.backend._backend_fns["wisp"] = lambda: WispBackend


def main() -> None:
    """The command of Annif, with 'wisp' among its backends."""
    from annif.cli import cli
    cli()


if __name__ == "__main__":
    # As a module of its own name, so that the table of backends has one class.
    from wisp.annif import main as run
    run()
