"""Holds what the steps share: the folder, the servers, the sites, the processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
from typer.main import get_command

from sites import Directory, Site
from snaptide.cli import app
from snaptide.demo.errors import require
from snaptide.demo.processes import Processes
from snaptide.demo.screen import Screen
from snaptide.demo.servers import AIRPORTS, MASTER, Servers
from snaptide.settings import Settings

Session = psycopg.Connection[tuple[Any, ...]]


class World:
    """Everything that the demo started, and may have to stop."""

    def __init__(self, folder: Path, screen: Screen) -> None:
        self.folder = folder
        self.screen = screen
        self.servers = Servers(folder)
        self.processes = Processes(folder, self.servers.config, AIRPORTS)

    @cached_property
    def sites(self) -> Directory:
        """The sites of the settings, once the servers have started."""
        return Settings.load(self.servers.config).install()

    @property
    def hq(self) -> Site:
        """The master site."""
        return self.sites[MASTER]

    @property
    def airports(self) -> list[Site]:
        """The snapshot sites."""
        return [self.sites[name] for name in AIRPORTS]

    @contextmanager
    def application(self, site: str) -> Iterator[Session]:
        """Connect to a site as an application does that knows nothing of Snaptide.

        Commits at the end of the block.
        """
        url = self.sites[site].url.set(drivername="postgresql")
        with psycopg.connect(url.render_as_string(hide_password=False)) as session:
            yield session

    def command(self, *arguments: str, ends_with: int = 0) -> None:
        """Run a command of the program as a user would, and show its output.

        Raises:
            DemoFailed: the command ends with another status.
        """
        self.screen.say(f"[bold]$ snaptide {' '.join(arguments)}[/]")
        program = get_command(app)
        status = program.main(
            ["--config", str(self.servers.config), *arguments],
            prog_name="snaptide",
            standalone_mode=False,
        )
        require(
            (status or 0) == ends_with,
            f"snaptide {' '.join(arguments)} ended with {status}.",
        )

    def stop(self) -> None:
        """Stop everything, also what an earlier demo left running."""
        _stop_spark()
        self.processes.stop()
        if "sites" in self.__dict__:
            self.sites.close()
        self.servers.stop()


def _stop_spark() -> None:
    """Stop the Spark session, if there is one; call it before the databases stop."""
    if "pyspark" in sys.modules:
        from snapshots.spark.session import stop

        stop()
