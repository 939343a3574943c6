"""The steps for what a site publishes as a master, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import masters
from masters import Publication, PublishedTable
from masters.publications import template
from sites import Directory
from snaptide.plan.step import Step, column_named, command_line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Publish(Step):
    """What creating and altering a publication have in common."""

    name: str
    tables: tuple[PublishedTable, ...]
    #: whether its sites follow DDL
    ddl: bool

    def _words(self, verb: str) -> str:
        words = ["publication", verb, self.site, self.name]
        words += [one.table for one in self._given]
        for one in self._given:
            if one.where is not None:
                words += ["--where", f"{one.table}={one.where}"]
            if one.columns is not None:
                columns = ",".join(map(column_named, one.columns))
                words += ["--columns", f"{one.table}={columns}"]
        if self.ddl is not self._before:
            words.append("--ddl" if self.ddl else "--no-ddl")
        return command_line(*words)

    @property
    def _before(self) -> bool:
        """Whether its sites follow DDL if the command does not say so."""
        return True

    @property
    def _given(self) -> tuple[PublishedTable, ...]:
        """The tables that the command names."""
        return self.tables

    @property
    def _arguments(self) -> dict[str, Any]:
        """What `masters.create_publication` and `alter_publication` get."""
        some = self._given
        return {
            "name": self.name,
            "tables": [one.table for one in some],
            "where": {one.table: one.where for one in some if one.where is not None},
            "columns": {
                one.table: one.columns for one in some if one.columns is not None
            },
            "ddl": self.ddl,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePublication(_Publish):
    """Name a set of tables that sites may be given."""

    @property
    def command(self) -> str:
        return self._words("create")

    def run(self, directory: Directory) -> None:
        masters.create_publication(directory[self.site], **self._arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPublication(_Publish):
    """Give a publication other tables, rows or columns."""

    before: Publication

    @property
    def _before(self) -> bool:
        return self.before.ddl

    @property
    def _given(self) -> tuple[PublishedTable, ...]:
        # Were the same tables named again, the sites would compare all rows.
        same = facts(self.tables) == facts(self.before.tables)
        return () if same else self.tables

    @property
    def command(self) -> str:
        return self._words("alter")

    @property
    def details(self) -> tuple[str, ...]:
        now = facts(self.tables)
        then = facts(self.before.tables)
        return (
            *(
                f"- {_line(one)}"
                for one in self.before.tables
                if now.get(one.table) != then[one.table]
            ),
            *(
                f"+ {_line(one)}"
                for one in self.tables
                if now[one.table] != then.get(one.table)
            ),
            *([f"sites follow DDL: {self.ddl}"] if self.ddl != self._before else []),
        )

    def run(self, directory: Directory) -> None:
        masters.alter_publication(directory[self.site], **self._arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPublication(Step):
    """Forget a publication."""

    name: str

    @property
    def command(self) -> str:
        return command_line("publication", "drop", self.site, self.name)

    def run(self, directory: Directory) -> None:
        with suppress(masters.UnknownPublication):
            masters.drop_publication(directory[self.site], self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPublication(Step):
    """Let a site read a publication, for some values."""

    publication: str
    #: the site that reads it
    to: str
    login: str
    parameters: Mapping[str, str]
    #: whether it may push changes of these rows
    updatable: bool

    @property
    def command(self) -> str:
        words = ["grant", self.site, self.publication, self.to]
        for name, value in self.parameters.items():
            words += ["--param", f"{name}={value}"]
        words += ["--login", self.login] if self.login != self.to else []
        words += ["--updatable"] if self.updatable else []
        return command_line(*words)

    def run(self, directory: Directory) -> None:
        masters.grant(
            directory[self.site],
            self.publication,
            self.to,
            login=self.login,
            parameters=self.parameters,
            updatable=self.updatable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokePublication(Step):
    """Let a site read a publication no more."""

    publication: str
    #: the site that has read it
    of: str

    @property
    def command(self) -> str:
        return command_line("revoke", self.site, self.publication, self.of)

    def run(self, directory: Directory) -> None:
        with suppress(masters.UnknownGrant, masters.UnknownPublication):
            masters.revoke(directory[self.site], self.publication, self.of)


def facts(tables: tuple[PublishedTable, ...]) -> dict[str, object]:
    """By table, its rows and columns, equal for all ways to write the same."""
    found: dict[str, object] = {}
    for one in tables:
        rows = template.read(one.where)
        columns = None if one.columns is None else {*one.columns}
        found[one.table] = (rows.columns, {*rows.follows}, columns)
    return found


def _line(one: PublishedTable) -> str:
    columns = "all" if one.columns is None else ", ".join(one.columns)
    return f"{one.table}: {one.where or 'all rows'}; columns: {columns}"
