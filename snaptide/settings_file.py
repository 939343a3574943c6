"""Reads `snaptide.toml`, puts in environment variables, and reports its mistakes."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sites.mistakes import mistakes
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
    problems = mistakes(model, error, "setting")
    return BadSettings(f"{file}: {' '.join(problems)}", problems=problems)
