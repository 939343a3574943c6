"""Every command refuses a site whose schema another version of Snaptide made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from sites import Directory
from sites.sessions import revisions
from snaptide import migrate
from snaptide.cli import app
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.linked_table import run

#: Those that say it in another way, make the schema what it should be, ask no site, or
#: serve many of them.
OTHERS = {
    "site init",
    "site list",
    "site check",
    "site downgrade",
    "status",
    "health",
    "notify",
    "doctor",
    "history",
    "worker",
    "beat",
    "web",
    "metrics",
    "user set",
    "user list",
    "user delete",
    "user actions",
    "demo",
    "spark archive",
}

#: What the arguments of commands are, by what their help calls them.
BY_NAME = {
    "SITE": "jfk",
    "MASTER": "hq",
    "DESTINATION": "hq",
    "ID": "1",
    "RUN": "1",
    "GROUP|SNAPSHOT": "g",
    "PLACE": "1",
    "COLUMN": "t.id",
    "NEW=SQL": "n=t",
    "OLD=SQL": "t=n",
    "CONSTRAINT": "t_pkey",
    "ACTION": "stop",
    "token": "hq@4f0bd6a5-3c5e-4d4d-8f0e-9a3f0f6c2a11@1:1:",
    "push|refresh|purge|check": "push",
}

#: What a command needs besides its required arguments.
GIVEN = {
    "contract set": ["--may-be-away", "1d"],
    "publication alter": ["t"],
    "log create": ["t"],
    "snapshot create": ["t", "--master", "hq"],
    "snapshot alter": ["--all-rows"],
    "snapshot alter-all": ["--add-column", "more"],
    "snapshot remove-kept": ["--all", "--yes"],
    "refresh": ["jfk", "t"],
    "group execute-ddl": ["SELECT 1"],
    "schedule set": ["--every", "1h"],
    "errors retry": ["1"],
    "errors delete": ["1", "--yes"],
    "check delete": ["1", "--yes"],
}

#: A file for commands that read one; the others read rules, of which there may be none.
SITE_FILE = """
site = {name = "jfk"}
groups.g.master = "hq"
snapshots.t = {}
"""


def commands() -> Iterator[tuple[str, Any]]:
    """All commands, with the names of their groups."""
    root: Any = typer.main.get_command(app)
    for name, part in root.loaded().items():
        if hasattr(part, "commands"):
            for below, command in part.commands.items():
                yield f"{name} {below}", command
        else:
            yield name, part


def arguments(name: str, command: Any, file: Path) -> list[str]:
    """A command line that is right for a command."""
    found: list[str] = []
    for one in command.params:
        if not one.required:
            continue
        value = BY_NAME.get(one.metavar or one.name, "t")
        if one.metavar == "FILE":
            value = str(file)
        if one.param_type_name == "option":
            found.append(one.opts[0])
        found.append(value)
    return [*name.split(), *found, *GIVEN.get(name, [])]


@pytest.mark.parametrize("newer", [False, True])
def test_every_command_refuses_it_in_one_line(
    sites: Directory, write_settings: WriteSettings, tmp_path: Path, newer: bool
) -> None:
    jfk, file = sites["jfk"], tmp_path / "read.toml"
    # No broker answers there, and none is asked.
    snaptide = Snaptide(write_settings(sites, "redis://127.0.0.1:1"))
    if newer:
        code, found = "SNP-407", "9999"
        run(jfk, f"UPDATE snaptide.alembic_version SET version_num = '{found}'")
    else:
        code, found = "SNP-024", sorted(revisions.known())[-2]
        migrate.downgrade(jfk, found)
    wrong = {}
    for name, command in commands():
        if name in OTHERS:
            continue
        file.write_text(SITE_FILE if name in ("plan", "apply") else "")
        result = snaptide(*arguments(name, command, file))
        lines = result.output.splitlines()
        said = [line for line in lines if line.startswith(code)]
        if result.exit_code != 1 or len(said) != 1 or f"is at {found}" not in said[0]:
            wrong[name] = f"ends with {result.exit_code}: {result.output}"
    assert not wrong, "\n".join(f"{name} {how}" for name, how in wrong.items())
