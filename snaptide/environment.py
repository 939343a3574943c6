"""Settings from the environment: `SNAPTIDE_BROKER__URL` is `url` in `[broker]`."""

from __future__ import annotations

import json
import os
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from snaptide.errors import BadSettings

_PREFIX = "SNAPTIDE_"
_BELOW = "__"


def over(values: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The values of a settings file, with those of the environment in their place.

    A table or a list is written as JSON. Names are read without their case.

    Raises:
        BadSettings: a variable for a table or a list is not JSON.
    """
    # A variable for a whole table comes before those for its settings.
    for variable, text in sorted(os.environ.items()):
        if variable.upper().startswith(_PREFIX):
            place = variable[len(_PREFIX) :].lower().split(_BELOW)
            if place[0] in model.model_fields:
                values = _merged(values, place, _value(variable, text, model, place))
    return values


def _merged(values: Any, place: list[str], value: Any) -> Any:
    """Values with another one at its place; tables keep what it does not name."""
    if place:
        known = values if isinstance(values, dict) else {}
        first, *rest = place
        return {**known, first: _merged(known.get(first), rest, value)}
    if isinstance(values, dict) and isinstance(value, dict):
        for name, one in value.items():
            values = _merged(values, [name], one)
        return values
    return value


def _value(variable: str, text: str, model: type[BaseModel], place: list[str]) -> Any:
    kind: Any = model
    for name in place:
        kind = _below(kind, name)
    if not any(map(_has_parts, _alternatives(kind))):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise BadSettings(f"The variable {variable} is not JSON.") from None


def _below(kind: Any, name: str) -> Any:
    """The type of a setting in a table of some type; None if it has no such setting."""
    for one in _alternatives(kind):
        if get_origin(one) is dict:
            return get_args(one)[1]
        if _is_model(one) and name in one.model_fields:
            return one.model_fields[name].annotation
    return None


def _has_parts(kind: Any) -> bool:
    return _is_model(kind) or get_origin(kind) in (dict, list, tuple)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)
