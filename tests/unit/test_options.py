"""Options are declared once, and refused in the same words wherever they are given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import deferred
import snapshots
from deferred import schedules
from deferred.errors import BadOption
from deferred.options import (
    OF_WORK,
    Options,
    PushArguments,
    PushOptions,
    PushSettings,
    RefreshArguments,
    RefreshOptions,
)
from docs.generator.settings import setting_names
from sites import Directory
from sites.configured import configured
from sites.errors import SnaptideError
from snaptide.cli import app
from snaptide.cli.options import meanings
from snaptide.errors import BadSettings
from snaptide.settings import Settings
from snaptide_imports import PACKAGES

ROOT = Path(__file__).parent.parent.parent

#: Nothing listens there: what is wrong is said before anything is asked.
SITE = '[sites.jfk]\nurl = "postgresql://127.0.0.1:1/d"\n'

#: Options of a push, wrong values as JSON, and what is said of them.
WRONG = [
    ("parallelism", "17", "parallelism must be less than or equal to 16."),
    ("parallelism", "true", "parallelism must be a number, not true or false."),
    ("error_limit", "-1", "error_limit must be greater than or equal to 0."),
    ("bulk_threshold", '"many"', "bulk_threshold must be a valid integer"),
    ("error_action", '"pray"', "error_action must be 'queue', 'stop', 'skip_row', "),
    ("one_by_one", '"orders"', "one_by_one must be a valid list."),
    ("one_by_one", "[1]", "one_by_one.0 must be a valid string."),
    ("bulk_treshold", "1", "bulk_treshold. Did you mean bulk_threshold?"),
]


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SNAPTIDE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("snaptide.toml").write_text(SITE)


def test_each_setting_and_option_has_a_reader() -> None:
    names = {name.rpartition(".")[2] for name in setting_names()}
    names |= {name for model in OF_WORK.values() for name in model.model_fields}
    sources = [
        file.read_text("utf-8")
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
    ]
    # As an attribute; those of listening go through Celery's settings, by name.
    read = {
        name for text in sources for name in re.findall(r'(?:\.|\["|get\(")(\w+)', text)
    }
    assert names <= read


@pytest.mark.parametrize(
    ("model", "arguments"),
    [(PushOptions, PushArguments), (RefreshOptions, RefreshArguments)],
)
def test_type_checkers_know_every_option(model: type[Options], arguments: type) -> None:
    assert arguments.__annotations__.keys() == model.model_fields.keys()


@pytest.mark.parametrize(
    ("verb", "model"), [("push", PushOptions), ("refresh", RefreshOptions)]
)
def test_the_command_line_has_every_option(verb: str, model: type[Options]) -> None:
    command = typer.main.get_command(app).loaded()[verb]  # type: ignore[attr-defined]
    found = {one.name: one for one in command.params}
    for name, meaning in meanings(model).items():
        assert meaning.startswith(found[name].help)
        from_file = model is PushOptions and name in PushSettings.model_fields
        default = model.model_fields[name].default
        assert found[name].default == (None if from_file else default), name


@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_a_mistake_is_said_in_the_same_words(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Directory({"jfk": "postgresql://127.0.0.1:1/d"})["jfk"]
    given: dict[str, Any] = {name: json.loads(value)}
    for verb in (deferred.push, deferred.push_all, _scheduled):
        assert said in _refused(BadOption, partial(verb, site, **given))
    Path("snaptide.toml").write_text(f"{SITE}[push]\n{name} = {value}\n")
    assert said in _refused(BadSettings, Settings.load).replace("push.", "")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("parallelism", "17", "parallelism must be less than or equal to 16."),
        ("bulk_threshold", "many", "bulk_threshold must be a valid integer"),
        ("error_action", "pray", "error_action must be 'queue', 'stop', 'skip_row', "),
        ("one_by_one", "{}", "one_by_one must be a valid list."),
        ("bulk_treshold", "1", "bulk_treshold. Did you mean bulk_threshold?"),
    ],
)
def test_the_environment_is_refused_in_these_words(
    name: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SNAPTIDE_PUSH__{name.upper()}", text)
    assert said in _refused(BadSettings, Settings.load).replace("push.", "")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("push jfk --parallelism 17", "parallelism must be less than or equal to 16."),
        ("push jfk --enqueue --error-limit -1", "error_limit must be greater than or"),
        ("refresh jfk g --mass-delete-share 2", "mass_delete_share must be less than"),
        # Found by Typer, which knows types.
        (
            "push jfk --bulk-threshold many",
            "'--bulk-threshold': Input should be a valid",
        ),
        ("push jfk --error-action pray", "'queue', 'stop', 'skip_row'"),
        ("push jfk --bulk-treshold 1", "No such option: --bulk-treshold"),
        ("schedule set jfk push --every 1h -o error_limit=-1", "error_limit must be"),
        ("schedule set jfk check --every 1h -o since=soon", "since must be a duration"),
        ("schedule set jfk check --every 1h -o since=0s", "since must be a duration"),
        ("schedule set jfk check --every 1h -o since=7200", "since must be a valid"),
    ],
)
def test_the_command_line_refuses(command: str, said: str) -> None:
    done = CliRunner().invoke(app, command.split(), env={"COLUMNS": "200"})
    assert said in done.stderr
    assert done.exit_code == 2


def test_settings_are_the_defaults_of_options_that_are_not_given() -> None:
    Path("snaptide.toml").write_text(f"{SITE}[push]\nparallelism = 2\n")
    Settings.load().install()
    assert configured().push == {"parallelism": 2}


def test_options_of_tasks_are_checked() -> None:
    site = Directory({"jfk": "postgresql://127.0.0.1:1/d"})["jfk"]
    wrong: dict[str, Any] = {"push_deferred_rpc": "later"}
    said = _refused(BadOption, lambda: snapshots.refresh(site, "g", **wrong))
    assert said == "push_deferred_rpc must be true or false."


def _scheduled(_: object, **options: Any) -> Mapping[str, Any]:
    return schedules.check("push", "*", "1h", options)


def _refused(error: type[SnaptideError], verb: Callable[[], object]) -> str:
    with pytest.raises(error) as refused:
        verb()
    return refused.value.message
