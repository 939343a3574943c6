"""Writes a document as TOML, which Python's library can only read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(document: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Write a document of tables, lists of tables and values as TOML."""
    values, below = [], []
    for name, value in document.items():
        if _is_table(value) and not path[1:]:
            below.append(_table(value, (*path, name)))
        elif _is_tables(value):
            below += [
                f"[[{_dotted((*path, name))}]]\n" + written(entry, ("", "", ""))
                for entry in value
            ]
        elif value is not None:
            values.append(f"{_key(name)} = {_value(value)}\n")
    return "".join(values) + "".join(f"\n{part}" for part in below)


def _table(value: Mapping[str, Any], path: tuple[str, ...]) -> str:
    alone = len(path) < 2 and value and all(map(_is_table, value.values()))
    return ("" if alone else f"[{_dotted(path)}]\n") + written(value, path)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (
            f"{_key(name)} = {_value(item)}"
            for name, item in value.items()
            # TOML has no null: leave such items out.
            if item is not None
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """Quote as JSON does, and escape DEL, which JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(map(_key, path))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)
