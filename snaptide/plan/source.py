"""Where in a file a value stands, for messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sites.errors import SnaptideError
from sites.names import quoted
from snaptide.plan.errors import BadSiteFile

#: The names of the tables and the key that lead to a value; numbers in lists.
Path = tuple[str | int, ...]

_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*'|\s*\.\s*)+)\s*=(?!=)""")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file, and the lines at which its tables and keys begin."""

    file: str
    lines: Mapping[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, file: str, text: str) -> Source:
        """Find the lines of a file that is valid TOML."""
        return cls(file=file, lines=_lines(text))

    def place(self, path: Path) -> str:
        """A place in the file, as `site.toml, line 7, snapshots.rental.where`."""
        return f"{self.line(path)}, {shown(path)}"

    def line(self, path: Path) -> str:
        """The line of a place in the file, or of what it is in."""
        near = path
        while near and near not in self.lines:
            near = near[:-1]
        return f"{self.file}, line {self.lines[near]}" if near else self.file

    def error(self, path: Path, reason: str) -> BadSiteFile:
        """An error that names the place and the reason."""
        return BadSiteFile(
            f"{self.place(path)}: {reason}{'' if reason[-1:] in '.?' else '.'}",
            file=self.file,
            path=shown(path),
            line=self.lines.get(path),
        )

    @contextmanager
    def naming(self, path: Path) -> Iterator[None]:
        """Name a place of the file with an error of the block."""
        try:
            yield
        except BadSiteFile:
            raise
        except SnaptideError as error:
            raise self.error(path, error.message) from None


def shown(path: Path) -> str:
    """A path as TOML has it; the entries of a list are counted from 1."""
    made = ""
    for part in path:
        if isinstance(part, int):
            made += f"[{part + 1}]"
        else:
            name = part if _BARE.fullmatch(part) else quoted(part)
            made += f".{name}" if made else name
    return made


def _lines(text: str) -> dict[Path, int]:
    found: dict[Path, int] = {}
    above: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _read(line) if line.lstrip().startswith("[") else None
        if header is not None:
            above = _path(header)
            if line.lstrip().startswith("[["):
                counts[above] = counts.get(above, -1) + 1
                above = (*above, counts[above])
            for end in range(1, len(above) + 1):
                found.setdefault(above[:end], number)
        elif key := _KEY.match(line):
            one = _read(f"{key[1]} = 0")
            if one is not None:
                found.setdefault((*above, *_path(one)), number)
    return found


def _read(line: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(line)
    except ValueError:
        return None


def _path(nested: Any) -> Path:
    """The names of tables within each other."""
    names: list[str] = []
    while isinstance(nested, dict | Sequence) and nested:
        if isinstance(nested, dict):
            name, nested = next(iter(nested.items()))
            names.append(name)
        else:
            nested = nested[0]
    return tuple(names)
