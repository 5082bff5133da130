"""The library's option table as Python keywords: '-' becomes '_', defaults get Python types, help becomes a docstring."""
from __future__ import annotations

import inspect
import numbers
import os
import textwrap
from typing import Any, Dict, Iterable, NamedTuple, Optional, Sequence, Tuple

from . import _library as library

_TYPES = {"int": int, "port": int, "real": float, "flag": bool}
# Of each type of option: what to say that a value is, and what a type checker is to let pass.  None is the default, and a
# value as the command takes it will do everywhere.
_PATH = ("str | os.PathLike | None", "str | os.PathLike[str] | None")
_HINTS = {
    "int": ("int", "SupportsIndex | str | None"),
    "port": ("int", "SupportsIndex | str | None"),
    "real": ("float", "SupportsFloat | SupportsIndex | str | None"),
    "flag": ("bool", "bool | None"),
    "size": ("int | str", "SupportsIndex | str | None"),
    "choice": ("str", "str | bool | None"),
    "text": ("str | None", "SupportsIndex | str | None"),
    "list": ("int | str | list | None", "SupportsIndex | str | Sequence[SupportsIndex | str] | None"),
    "file": _PATH,
    "output": _PATH,
    "folder": _PATH,
}
# An attribute 'transform' would make an estimator a transformer in the eyes of scikit-learn.
_RENAMED = {"transform": "hash_transform"}


class Row(NamedTuple):
    key: str
    type: str
    default: Any
    range: str
    commands: Tuple[str, ...]
    help: str

    @property
    def keyword(self) -> str:
        return _RENAMED.get(self.key, self.key.replace("-", "_"))

    @property
    def hint(self) -> str:
        return _HINTS[self.type][0]

    @property
    def annotation(self) -> str:
        return _HINTS[self.type][1]


def _rows() -> Dict[str, Row]:
    rows: Dict[str, Row] = {}
    while True:
        at = library.lib.wisp_option_row(len(rows))
        if not at:
            return rows
        o = at.contents
        kind, text = o.type.decode(), o.fallback.decode()
        default: Any = text or None
        if kind == "flag":
            default = text == "1"
        elif kind in _TYPES:
            default = _TYPES[kind](text)
        elif kind == "size":
            default = int(text) if text.isdigit() else text  # "64M"
        rows[o.key.decode()] = Row(o.key.decode(), kind, default, o.range.decode(), tuple(o.commands.decode().split()),
                                   o.help.decode())


ROWS = _rows()
_KEYS = {row.keyword: row for row in ROWS.values()}


def of_commands(commands: Iterable[str], without: Iterable[str] = ()) -> Dict[str, Row]:
    """The options that one of the commands takes, by keyword."""
    wanted, without = set(commands), set(without)
    return {k: row for k, row in _KEYS.items() if wanted & set(row.commands) and k not in without}


def _is_bool(value: Any) -> bool:
    """numpy's, too, without numpy: 'tools/python-stub' has none."""
    return isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool_", "bool"))


def text(row: Row, value: Any) -> str:
    """A value as the library reads it: True is yes, (512, 256) is 512,256, a path is its text."""
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(text(row, v) for v in value)
    if row.type == "flag" and not isinstance(value, str):
        return "1" if value else "0"
    if _is_bool(value):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(int(value)) if row.type != "real" and float(value).is_integer() else repr(float(value))
    return os.fspath(value)


def config(values: Dict[str, Any]) -> library.Handle:
    """The options that differ from their defaults, as the library wants them; keys are keywords."""
    cfg = library.Handle("wisp_config_create", "wisp_config_free")
    for keyword, value in values.items():
        row = _KEYS.get(keyword)
        if row is None:
            raise TypeError(f"no option '{keyword}'")
        if not (_is_bool(value) or isinstance(value, (str, numbers.Number, os.PathLike, Sequence, type(None)))):
            raise TypeError(f"{keyword}: expected {row.hint}, got {type(value).__name__}")
        if value is not None and value != row.default:
            library.call("wisp_config_set", cfg, row.key.encode(), os.fsencode(text(row, value)), place=keyword + ": ")
    return cfg


def number(keyword: str, value: Any) -> float:
    """The value of an option that is a number, as the library would take it."""
    config({keyword: value})
    return float(text(_KEYS[keyword], value))


def signature(rows: Dict[str, Row], extra: Dict[str, Tuple[Any, str, str]], first: Optional[str] = "self") -> inspect.Signature:
    """Keyword-only parameters: the rows', then 'extra': name -> (default, type hint, help)."""
    P = inspect.Parameter
    parameters = [P(first, P.POSITIONAL_OR_KEYWORD)] if first else []
    for keyword, row in rows.items():
        if keyword not in extra:
            parameters.append(P(keyword, P.KEYWORD_ONLY, default=row.default, annotation=row.hint))
    for keyword, (default, hint, _) in extra.items():
        parameters.append(P(keyword, P.KEYWORD_ONLY, default=default, annotation=hint))
    return inspect.Signature(parameters)


def docstring(rows: Dict[str, Row], extra: Dict[str, Tuple[Any, str, str]]) -> str:
    """Parameters in numpy's style, from the table."""
    out = ["Parameters", "----------"]

    def add(name: str, hint: str, default: Any, help_text: str) -> None:
        out.append(f"{name} : {hint}, default={default!r}")
        out.extend(textwrap.wrap(help_text, 96, initial_indent="    ", subsequent_indent="    "))

    for keyword, row in rows.items():
        if keyword in extra:
            continue
        choices = row.range if row.type == "choice" else ""
        limits = f" ({row.range})" if row.range and not choices else ""
        add(keyword, "{" + choices.replace("|", ", ") + "}" if choices else row.hint, row.default,
            row.help + limits)
    for keyword, (default, hint, help_text) in extra.items():
        add(keyword, hint, default, help_text)
    return "\n".join(out)
