"""Reads `snaptide.toml`, puts in environment variables, and reports its mistakes.

A variable can also stand for a setting: `SNAPTIDE_BROKER__URL` is `url` in `[broker]`.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from sites.mistakes import mistakes
from snaptide.errors import BadSettings, UnsetVariable

#: How variables begin that stand for settings, and what stands between two names.
_PREFIX, _BELOW = "SNAPTIDE_", "__"

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


def with_environment(values: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The values of a settings file, with those of the environment in their place.

    A table or a list is written as JSON. Names are read without their case.

    Raises:
        BadSettings: a variable for a table or a list is not JSON.
    """
    if not any(_names_one(variable, model) for variable in os.environ):
        return values
    # Imported here: that takes longer than most commands, which find no variable.
    from pydantic_settings import EnvSettingsSource, SettingsError

    read = EnvSettingsSource(
        cast(Any, model), env_prefix=_PREFIX, env_nested_delimiter=_BELOW
    )
    try:
        return _merged(values, read())
    except SettingsError as error:
        raise BadSettings(
            f"A variable {_PREFIX}... of the environment is not JSON: {error}."
        ) from None


def _names_one(variable: str, model: type[BaseModel]) -> bool:
    name = variable.upper().removeprefix(_PREFIX)
    return name != variable.upper() and (
        name.lower().split(_BELOW)[0] in model.model_fields
    )


def _merged(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Values with others in their place; tables keep what the others do not name."""
    return values | {
        name: _merged(known, value)
        if isinstance(known := values.get(name), dict) and isinstance(value, dict)
        else value
        for name, value in others.items()
    }
