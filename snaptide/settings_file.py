"""Reads `snaptide.toml`, puts in environment variables, and reports its mistakes."""

from __future__ import annotations

import os
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from snaptide.errors import BadSettings, UnsetVariable

#: `${NAME}`, or `$${NAME}` where the text itself is meant.
_VARIABLE = re.compile(r"\$(\$?)\{([^}]*)\}")


def read(file: Path) -> dict[str, Any]:
    """The values of a settings file, with environment variables put in.

    Raises:
        BadSettings: the file cannot be read, or is not TOML.
        UnsetVariable: the file names a variable that is not set.
    """
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        # Not TOML, not text, a number of thousands of digits, or nested too deeply.
        raise BadSettings(f"{file} is not TOML: {error}.") from None
    return {name: _expanded(value, (name,)) for name, value in values.items()}


def _expanded(value: Any, place: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {k: _expanded(v, (*place, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_expanded(v, place) for v in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value_of(found, place), value)
    return value


def _value_of(found: re.Match[str], place: tuple[str, ...]) -> str:
    escaped, name = found.groups()
    if escaped:
        return found.group()[1:]
    if name not in os.environ:
        raise UnsetVariable(
            f"{'.'.join(place)} names the environment variable {name}, "
            "which is not set.",
            variable=name,
        )
    return os.environ[name]


def refusal(file: Path, model: type[BaseModel], error: ValidationError) -> BadSettings:
    """One error that lists all mistakes in the values, but shows no value."""
    problems = [
        _problem(model, found["loc"], found["type"], found["msg"])
        for found in error.errors(include_input=False, include_url=False)
    ]
    return BadSettings(f"{file}: {' '.join(problems)}", problems=problems)


def _problem(
    model: type[BaseModel], place: tuple[int | str, ...], kind: str, message: str
) -> str:
    shown = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"There is no setting {shown}.{_suggestion(model, place)}"
    if kind == "missing":
        return f"{shown} is missing."
    return f"{shown}: {message.removeprefix('Value error, ')}."


def _suggestion(model: type[BaseModel], place: tuple[int | str, ...]) -> str:
    known = _known(model, place[:-1])
    near = get_close_matches(str(place[-1]), known, n=1)
    if near:
        return f" Did you mean {near[0]}?"
    return f" The settings here are: {', '.join(known)}." if known else ""


def _known(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The settings that a place may have: those of the model that it leads to."""
    for part in place:
        field = model.model_fields.get(str(part))
        if field is None:
            continue  # the name of a site, between its table and its settings
        inner = _model_in(field.annotation)
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
