"""Settings from the environment: `SNAPTIDE_BROKER__URL` is `url` in `[broker]`."""

from __future__ import annotations

import os
from typing import Any, cast

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
