"""Commands for tests, run in this process as people write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sites import Directory
from snaptide.cli import app
from tests.fix_worker import WriteSettings


class Snaptide:
    """Runs commands with the settings of some sites."""

    def __init__(self, config: Path) -> None:
        self._config = str(config)

    def __call__(self, *arguments: str) -> Result:
        """Run a command, however it ends."""
        return CliRunner().invoke(app, ["--config", self._config, *arguments])

    def said(self, *arguments: str, code: int = 0) -> str:
        """What a command says, which has to end with a code."""
        result = self(*arguments)
        assert result.exit_code == code, result.output
        return result.output

    def report(self, *arguments: str, code: int = 0) -> Any:
        """What a command reports as JSON, which has to end with a code."""
        result = self(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout or "null")


@pytest.fixture
def snaptide(sites: Directory, write_settings: WriteSettings) -> Snaptide:
    """Commands with the settings of the test's sites."""
    return Snaptide(write_settings(sites))
