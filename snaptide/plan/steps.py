"""The steps that make a site what a file says.

Each is what a command of the program does, and calls the function that the command
calls; those that are no command are SQL statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import masters
import snapshots
from masters.errors import SnapshotLogExists
from masters.rules import rulebook
from sites import Directory, QualifiedName
from sites.tables import type_statements
from sites.words import counted
from snapshots import Condition, Leaving
from snaptide.plan.parameters import setting
from snaptide.plan.step import Outcome, Step, column_named, command_line
from snaptide.plan.wanted import Wanted
from snaptide_imports import lazily

if TYPE_CHECKING:
    from snaptide import migrate
else:
    migrate = lazily("snaptide.migrate")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitSite(Step):
    """Create the schema snaptide."""

    @property
    def command(self) -> str:
        return command_line("site", "init", self.site)

    def run(self, directory: Directory) -> None:
        migrate.upgrade(directory[self.site])


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateType(Step):
    """Create a type, domain or schema that the master has."""

    #: as PostgreSQL prints it
    name: str
    statement: str
    #: what creates it is a schema, not a type
    is_schema: bool = False

    @property
    def command(self) -> str:
        return f"{self.statement};"

    def run(self, directory: Directory) -> None:
        with directory[self.site].transaction() as connection:
            # It may have come with another type, as those of one extension do.
            if self.is_schema or not type_statements.of_names(connection, [self.name]):
                connection.exec_driver_sql(self.statement.replace("%", "%%"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLog(Step):
    """Create a snapshot log at a master."""

    table: QualifiedName
    with_rowid: bool = False
    partition_columns: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        words = ["log", "create", self.site, str(self.table)]
        words += ["--with-rowid"] if self.with_rowid else []
        words += partitioned(self.partition_columns) if self.partition_columns else []
        return command_line(*words)

    def run(self, directory: Directory) -> None:
        with suppress(SnapshotLogExists):
            masters.create_snapshot_log(
                directory[self.site],
                str(self.table),
                with_rowid=self.with_rowid,
                partition_columns=self.partition_columns,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterLog(Step):
    """Have a snapshot log record the values of other columns."""

    table: QualifiedName
    partition_columns: tuple[str, ...]

    @property
    def command(self) -> str:
        words = ("log", "alter", self.site, str(self.table))
        return command_line(*words, *partitioned(self.partition_columns))

    def run(self, directory: Directory) -> None:
        masters.alter_snapshot_log(
            directory[self.site],
            str(self.table),
            partition_columns=self.partition_columns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRules(Step):
    """Make the rules of some of a master's tables those of the file."""

    file: str
    #: the values of the parameters that the rules name
    values: Mapping[str, str]
    book: Mapping[str, Any]
    changes: tuple[str, ...]

    @property
    def command(self) -> str:
        words = ("rules", "apply", self.site, self.file, "--keep-others")
        return command_line(*words, *setting(self.values))

    @property
    def details(self) -> tuple[str, ...]:
        return self.changes

    def run(self, directory: Directory) -> None:
        what = f"apply {self.file}"
        rulebook.apply(directory[self.site], self.book, what, keep_others=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSnapshot(Step):
    """Create a snapshot, which its group's refresh fills."""

    wanted: Wanted

    @property
    def command(self) -> str:
        one, said = self.wanted, self.wanted.section
        words = ["snapshot", "create", self.site, str(one.name)]
        words += ["--master", one.home, "--group", one.group]
        if one.master != one.name:
            words += ["--table", str(one.master)]
        words += _rows(said.where, said.follow)
        if said.columns is not None:
            words += ["--columns", ",".join(map(column_named, said.columns))]
        if said.leaving is not Leaving.DRAIN:
            words += ["--leaving", said.leaving]
        words += _numbers(said.numbers)
        return command_line(*words, *(["--updatable"] if said.updatable else []))

    def run(self, directory: Directory) -> Outcome:
        one, said = self.wanted, self.wanted.section
        made = snapshots.create(
            directory[self.site],
            str(one.name),
            master=one.home,
            table=str(one.master),
            group=one.group,
            where=said.where,
            follow=said.follow,
            columns=said.columns,
            updatable=said.updatable,
            leaving=said.leaving,
            numbers=said.numbers,
        )
        return Outcome(notes=tuple(f"{one.name}: {each}" for each in made.left_out))


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A snapshot that is to have other rows."""

    name: QualifiedName
    where: str | None
    follow: tuple[str, ...]
    before: str | None
    now: str | None

    @property
    def lines(self) -> tuple[str, str]:
        """The condition that goes, and the one that comes."""
        return f"- {self.before or 'all rows'}", f"+ {self.now or 'all rows'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConditions(Step):
    """Change which rows snapshots of a group have, together."""

    #: the words of the command that makes the site all that the file says
    whole: tuple[str, ...]
    #: parents before those that follow them
    snapshots: tuple[Altered, ...]

    @property
    def command(self) -> str:
        if len(self.snapshots) > 1:
            return command_line(*self.whole)
        [one] = self.snapshots
        rows = _rows(one.where, one.follow) or ["--all-rows"]
        return command_line("snapshot", "alter", self.site, str(one.name), *rows)

    @property
    def details(self) -> tuple[str, ...]:
        if len(self.snapshots) == 1:
            return self.snapshots[0].lines
        return tuple(
            line
            for one in self.snapshots
            for line in (f"snapshot {one.name}", *one.lines)
        )

    def run(self, directory: Directory) -> None:
        wanted = {
            str(one.name): Condition(where=one.where, follow=one.follow)
            for one in self.snapshots
        }
        snapshots.alter_conditions(directory[self.site], wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterLeaving(Step):
    """Change what becomes of rows that leave a snapshot's condition."""

    name: QualifiedName
    leaving: Leaving

    @property
    def command(self) -> str:
        words = ("snapshot", "alter", self.site, str(self.name))
        return command_line(*words, "--leaving", self.leaving)

    def run(self, directory: Directory) -> None:
        snapshots.alter_leaving(directory[self.site], str(self.name), self.leaving)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterNumbers(Step):
    """Change how columns of a snapshot get numbers."""

    name: QualifiedName
    numbers: Mapping[str, str]

    @property
    def command(self) -> str:
        words = ("snapshot", "alter", self.site, str(self.name))
        return command_line(*words, *_numbers(self.numbers))

    def run(self, directory: Directory) -> None:
        snapshots.alter_numbers(directory[self.site], str(self.name), self.numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnNumbers(Step):
    """Give back what is left of the numbers that a column has leased."""

    #: with its snapshot
    column: str

    @property
    def command(self) -> str:
        return command_line("numbers", "return", self.site, self.column)

    def run(self, directory: Directory) -> None:
        snapshots.return_numbers(directory[self.site], self.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPropagation(Step):
    """Have the changes of a group go to the master at once, or by push."""

    group: str
    synchronous: bool

    @property
    def command(self) -> str:
        how = "synchronous" if self.synchronous else "asynchronous"
        words = ("snapshot", "alter", self.site, self.group)
        return command_line(*words, "--propagation", how)

    def run(self, directory: Directory) -> None:
        snapshots.alter_propagation(
            directory[self.site], self.group, synchronous=self.synchronous
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGroup(Step):
    """Fill the new snapshots of a group, and have the others take part."""

    group: str
    allow_mass_delete: bool = False

    @property
    def command(self) -> str:
        allow = ["--allow-mass-delete"] if self.allow_mass_delete else []
        return command_line("refresh", self.site, self.group, *allow)

    def run(self, directory: Directory) -> Outcome:
        report = snapshots.refresh(
            directory[self.site], self.group, allow_mass_delete=self.allow_mass_delete
        )
        found = [
            f"{one.name}: the site refuses {counted(count, 'row')}: {why}"
            for one in report.snapshots
            for why, count in one.refused.items()
        ]
        if report.pushed is not None and report.pushed.errors:
            master = report.pushed.destination
            found.append(
                f"{counted(report.pushed.errors, 'transaction', 'were')} parked at "
                f"{master} (snaptide errors list {master})"
            )
        found += [
            f"{one.name} stays behind: {one.code} {one.why}" for one in report.behind
        ]
        moves = {one.name: one for one in report.snapshots if one.moves}
        found += [f"{n}: {one.moves}" for n, one in moves.items() if one.withdrawn]
        left = [f"{n}: {one.moves}" for n, one in moves.items() if not one.withdrawn]
        return Outcome(notes=tuple(left), attention=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSnapshot(Step):
    """Drop a snapshot."""

    name: QualifiedName
    force: bool = False

    @property
    def command(self) -> str:
        force = ["--force"] if self.force else []
        return command_line("snapshot", "drop", self.site, str(self.name), *force)

    def run(self, directory: Directory) -> None:
        with suppress(snapshots.UnknownSnapshot):
            snapshots.drop(directory[self.site], str(self.name), force=self.force)


def partitioned(columns: tuple[str, ...]) -> list[str]:
    """The words of a command that name partition columns."""
    return ["--partition-columns", ",".join(map(column_named, columns))]


def _rows(where: str | None, follow: tuple[str, ...]) -> list[str]:
    words = [word for name in follow for word in ("--follow", name)]
    return [*words, *(["--where", where] if where is not None else [])]


def _numbers(numbers: Mapping[str, str]) -> list[str]:
    return [
        w
        for c, how in numbers.items()
        for w in ("--numbers", f"{column_named(c)}={how}")
    ]
