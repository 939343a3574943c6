"""The steps for what a site has around its snapshots: rights, budgets, schedules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import deferred
from deferred import schedules
from sites import Directory
from snaptide import limits
from snaptide.plan.step import Step, command_line


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatement(Step):
    """Run one SQL statement: a grant or a revoke."""

    statement: str

    @property
    def command(self) -> str:
        return f"{self.statement};"

    def run(self, directory: Directory) -> None:
        with directory[self.site].transaction() as connection:
            connection.exec_driver_sql(self.statement.replace("%", "%%"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudget(Step):
    """Set how much may wait for a destination."""

    destination: str
    age: str | None
    size: str | None

    @property
    def command(self) -> str:
        words = ["destination", "budget", self.site, self.destination]
        words += ["--age", self.age] if self.age else []
        return command_line(*words, *(["--size", self.size] if self.size else []))

    def run(self, directory: Directory) -> None:
        deferred.set_budget(
            directory[self.site],
            self.destination,
            age=None if self.age is None else limits.age_of(self.age),
            size=None if self.size is None else limits.bytes_of(self.size),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchedule(Step):
    """Set when a push, refresh or purge runs."""

    kind: str
    subject: str
    every: str
    options: Mapping[str, Any]

    @property
    def command(self) -> str:
        words = ["schedule", "set", self.site, self.kind, self.subject]
        words += ["--every", self.every]
        for name, value in self.options.items():
            words += ["--option", f"{name}={json.dumps(value)}"]
        return command_line(*words)

    def run(self, directory: Directory) -> None:
        schedules.schedule(
            directory[self.site],
            self.kind,
            self.subject,
            every=self.every,
            **self.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSchedule(Step):
    """Pause a schedule, or let it run again."""

    kind: str
    subject: str
    paused: bool

    @property
    def command(self) -> str:
        verb = "disable" if self.paused else "enable"
        return command_line("schedule", verb, self.site, self.kind, self.subject)

    def run(self, directory: Directory) -> None:
        schedules.enable_schedule(
            directory[self.site], self.kind, self.subject, enabled=not self.paused
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSchedule(Step):
    """Remove a schedule."""

    kind: str
    subject: str

    @property
    def command(self) -> str:
        return command_line("schedule", "remove", self.site, self.kind, self.subject)

    def run(self, directory: Directory) -> None:
        with suppress(schedules.NoSuchSchedule):
            schedules.unschedule(directory[self.site], self.kind, self.subject)
