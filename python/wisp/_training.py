"""One training run: the library's call, with progress and Ctrl-C on the way."""
from __future__ import annotations

import ctypes as c
import json
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any, Callable, Optional, Tuple

from . import _library as library
from ._rows import Data


def _show(p: SimpleNamespace) -> None:
    if p.epoch_ended:
        valid = f", valid P@1 {p.valid:.2f}{' *' if p.best else ''}" if p.valid >= 0 else ""
        print(f"epoch {p.epoch}/{p.epochs}: loss {p.loss:.4f}{valid}, {p.rows_per_s:.0f} rows/s", file=sys.stderr)


class _Watch:
    """Called by the library between batches, in the thread that trains.  Whatever happens here must not get lost in
    ctypes: it is kept, the run is asked to stop, and who called 'train' raises it."""

    def __init__(self, progress: Any) -> None:
        self.tell: Optional[Callable] = _show if progress is True else progress or None
        self.interrupted = False
        self.raised: Optional[BaseException] = None
        self.callback = library.OnProgress(self._on_progress)

    def _on_progress(self, _: Any, at: Any) -> int:
        try:
            if self.tell and not self.interrupted:
                p = SimpleNamespace(**{name: getattr(at.contents, name) for name, _ in library.Progress._fields_})
                p.json = json.loads(p.json) if p.json else None
                if self.tell(p):
                    return 1
            return int(self.interrupted)
        except BaseException as e:  # noqa: B902
            self.raised = e
            return 1

    def __enter__(self) -> "_Watch":
        """Ctrl-C only sets a mark while the library works: raised in the callback it could be lost.  Whoever handles it
        in another way than Python does is left alone."""
        self._hooked = (threading.current_thread() is threading.main_thread() and
                        signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        if self._hooked:
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def _on_signal(self, *_: Any) -> None:
        self.interrupted = True

    def __exit__(self, *_: Any) -> None:
        if self._hooked:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def train(ctx: library.Handle, cfg: library.Handle, rows: Data, valid: Optional[Data], path: str, progress: Any,
          how: str = "wisp_train") -> Tuple[dict, Optional[BaseException]]:
    """how: wisp_train or wisp_prune, which take the same.  Leaves the model at 'path'.  Returns the report, {} for a run that was stopped, and what stopped it if that is
    to be raised again once the model is in place."""
    out = library.Pointer()
    with _Watch(progress) as watch:
        try:
            library.call(how, out, ctx, cfg, rows, valid, path.encode(),
                         watch.callback, None)
        except InterruptedError:
            pass
    stopped = watch.raised or (KeyboardInterrupt() if watch.interrupted else None)
    return (library.report(out) if out else {}), stopped
