"""What a push can be told has one name, wherever it is said."""

from dataclasses import fields
from typing import Any

import pytest
import typer.main

from deferred.options import Options
from snaptide.cli import app
from snaptide.sections import PushSettings

NAMES = {one.name for one in fields(Options)}


def test_settings_are_options_with_the_same_defaults() -> None:
    settings = PushSettings().model_dump()
    assert settings.keys() <= NAMES
    chosen: Any = Options()
    assert settings == {name: getattr(chosen, name) for name in settings}


def test_the_command_line_has_every_option() -> None:
    push = typer.main.get_command(app).loaded()["push"]  # type: ignore[attr-defined]
    assert {one.name for one in push.params} >= NAMES


def test_a_name_is_no_list_of_names() -> None:
    """Taken letter by letter it would name no table at all."""
    with pytest.raises(
        ValueError, match="one_by_one must be a list of names, not 'orders'"
    ):
        Options(one_by_one="orders")  # type: ignore[arg-type]
