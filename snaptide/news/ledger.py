"""What people were told, and what hooks have still to take: a file of this machine.

It is written before anything is told, and after each hook that took something: a crash
makes a hook take one thing twice, and never leaves one out.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from snaptide.errors import BadLedger
from snaptide.news.seen import News


@dataclass(slots=True, kw_only=True)
class Untaken:
    """Something that a hook has not taken yet."""

    hook: str
    news: News
    #: when it was to be told first
    since: datetime


@dataclass(slots=True, kw_only=True)
class Ledger:
    """What the file holds."""

    path: Path
    #: by site, the keys of what was told and is still so
    told: dict[str, list[str]] = field(default_factory=dict)
    untaken: list[Untaken] = field(default_factory=list)

    def save(self) -> None:
        """Write the file, as a whole.

        Raises:
            BadLedger: it cannot be written.
        """
        content = {
            "told": self.told,
            "untaken": [
                {**asdict(one), "since": one.since.isoformat()} for one in self.untaken
            ],
        }
        try:
            handle, new = tempfile.mkstemp(dir=self.path.parent, prefix=".told-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(new, self.path)
        except OSError as error:
            raise _bad(self.path, error.strerror) from None


@contextmanager
def opened(path: Path) -> Iterator[Ledger]:
    """The ledger of a file, for one process at a time; empty if there is no file.

    Raises:
        BadLedger: the file cannot be read, or is not a ledger.
    """
    path = path.absolute()
    try:
        lock = path.with_name(f".{path.name}.lock").open("a")
    except OSError as error:
        raise _bad(path, error.strerror) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _read(path)


def _read(path: Path) -> Ledger:
    try:
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
        untaken = [
            Untaken(
                hook=one["hook"],
                news=News(**one["news"]),
                since=datetime.fromisoformat(one["since"]),
            )
            for one in content["untaken"]
        ]
        told = {site: [*map(str, keys)] for site, keys in content["told"].items()}
        return Ledger(path=path, told=told, untaken=untaken)
    except FileNotFoundError:
        return Ledger(path=path)
    except OSError as error:
        raise _bad(path, error.strerror) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _bad(path, "it is not one") from None


def _bad(path: Path, why: str | None) -> BadLedger:
    return BadLedger(f"{path} cannot be the record of what was told: {why}.")
