"""Holds the options before the command, and the settings and sites they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import typer

from sites import Directory, Site
from snaptide.settings import Settings


@dataclass(kw_only=True)
class Program:
    """One run of the command line; reads the settings when a command needs them."""

    config: Path | None = None
    debug: bool = False
    #: set by the command's option `--json`
    json: bool = False
    #: of the command that runs
    context: typer.Context | None = None

    @staticmethod
    def of(context: typer.Context) -> Program:
        """The run that a command belongs to."""
        found = context.find_root().obj
        program = found if isinstance(found, Program) else Program()
        program.context = context
        return program

    def is_given(self, name: str) -> bool:
        """Whether a parameter of the command stands on the command line."""
        source = self.context.get_parameter_source(name) if self.context else None
        return source is not None and source.name != "DEFAULT"

    @cached_property
    def settings(self) -> Settings:
        """The settings, which are read once."""
        return Settings.load(self.config)

    @cached_property
    def directory(self) -> Directory:
        """The sites; the first use installs the settings in this process."""
        return self.settings.install()

    def close(self) -> None:
        """Close all connections."""
        for site in vars(self).get("directory", {}).values():
            site.close()

    def site(self, name: str) -> Site:
        """A site by name.

        Raises:
            UnknownSite: no site of that name is configured.
        """
        return self.directory[name]

    def chosen(self, names: list[str] | None) -> list[Site]:
        """The sites of these names; all sites if no name is given."""
        return [self.site(name) for name in names or self.directory]
