"""A step of a plan, and how it is written down as a command."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass

from sites import Directory
from sites.names import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is to be said of a step that was done."""

    #: what is as it must be, and good to know
    notes: tuple[str, ...] = ()
    #: what somebody has to look at
    attention: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(ABC):
    """Something to do at one site."""

    #: the site whose database changes
    site: str

    @property
    @abstractmethod
    def command(self) -> str:
        """The command, or the SQL statement, that does the same."""

    @property
    def details(self) -> tuple[str, ...]:
        """What else is good to know before it is done, line by line."""
        return ()

    def printed(self) -> dict[str, object]:
        """What is printed of it as JSON."""
        return {
            "kind": type(self).__name__,
            "site": self.site,
            "command": self.command,
            "details": self.details,
        }

    @abstractmethod
    def run(self, directory: Directory) -> Outcome | None:
        """Do it, as the command does; returns what its report has to say."""


def command_line(*words: str) -> str:
    """A command of the program, as a shell reads it."""
    return " ".join(["snaptide", *map(_quoted, words)])


def _quoted(word: str) -> str:
    """A word as a shell reads it; SQL is easier to read in double quotes."""
    plain = "'" in word and not set(word) & set('"$`\\!')
    return f'"{word}"' if plain else shlex.quote(word)


def column_named(name: str) -> str:
    """The name of a column as commands take it."""
    return quoted(name) if set(name) & set('=,."') else name
