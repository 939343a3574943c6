"""Watches everything that the suite prints and logs for the passwords that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

#: Files that hold passwords because they must.
_KEEPERS = (".toml", ".pem", "password")

#: So many characters of a password are not to be seen either, where a text is cut.
_CUT = 8


class Secrets:
    """Passwords, and where they were seen."""

    def __init__(self) -> None:
        #: How each is seen, by what all of these begin with.
        self._known: dict[bytes, set[bytes]] = {}
        self.seen: list[str] = []

    def remember(self, password: str) -> None:
        """Watch for a password, as it is and as URLs have it, also where it is cut."""
        for text in (password, quote(password, safe="")):
            # As the product cuts what is too long; less than that is no secret.
            cut = {f"{text[:end]}..." for end in range(_CUT, len(text))}
            forms = self._known.setdefault(text[:_CUT].encode(), set())
            forms |= {form.encode() for form in (text, *cut)}

    def look_at(self, content: str | bytes | bytearray, where: str) -> None:
        """Note where something that was written shows a password."""
        if isinstance(content, str):
            content = content.encode(errors="replace")
        # Logs of a whole run are looked through for the passwords of all its servers:
        # hardly any has as much as the beginning of one.
        begun = [forms for begin, forms in self._known.items() if begin in content]
        if any(secret in content for forms in begun for secret in forms):
            self.seen.append(where)

    def look_through(self, folder: Path) -> None:
        """Note which logs and other files below a folder show a password."""
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.endswith(_KEEPERS):
                # As bytes: what is no text takes long to be read as one.
                self.look_at(file.read_bytes(), str(file))


#: Of this run. The servers of the fixtures tell it their passwords.
watched = Secrets()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Look at what a test printed and logged, and at what is told of its failure."""
    parts = [content for _, content in report.sections]
    watched.look_at("\n".join([*parts, report.longreprtext]), report.nodeid)


@pytest.fixture(scope="session", autouse=True)
def no_password_is_shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the run when a report, a log or the output of a command shows a password."""
    invoke = CliRunner.invoke

    def watched_invoke(self: CliRunner, *args: Any, **kwargs: Any) -> Result:
        result = invoke(self, *args, **kwargs)
        watched.look_at(result.output, f"output of {args[1:]}")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CliRunner, "invoke", watched_invoke)
        # All commands are put together once, not for each that is run.
        patch.setattr(typer.testing, "_get_command", cache(get_command))
        yield
    watched.look_through(tmp_path_factory.getbasetemp())
    assert watched.seen == [], f"passwords are shown in {watched.seen}"
