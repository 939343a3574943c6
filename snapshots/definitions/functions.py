"""Functions of the master's users that conditions call, and whether one was replaced.

CREATE OR REPLACE FUNCTION can change which rows fulfil a condition, and no log knows of
it. Each refresh notes what the functions were; if the next one finds others, it
compares all rows. Functions that these call in turn are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Text, column, text

from sites.conditions.printed import Printed
from sites.names import plain
from sites.sessions.prepared import as_json
from snapshots.definitions.snapshot import Snapshot
from snapshots.sql import load

#: By name, as conditions have it, a hash of how all functions of that name are defined.
Definitions = Mapping[str, str]

#: Where they stand among the facts about the tables that a condition asks: no table
#: is printed so.
FACT = "()"

#: Those that are `asked` for, for statements that read more.
DEFINITIONS = as_json(
    text(load("functions")).columns(column("name", Text), column("definition", Text)),
    "functions",
)


def asked(snapshots: Iterable[Snapshot]) -> dict[str, list[str]]:
    """The parameters of a statement with `DEFINITIONS`."""
    called = sorted({name for one in snapshots for name in _called(one.condition)})
    return {
        "function_schemas": [plain(schema) for schema, _ in called],
        "function_names": [plain(name) for _, name in called],
    }


def of(snapshot: Snapshot, found: Sequence[Mapping[str, Any]] | None) -> Definitions:
    """What a snapshot's condition calls, from the column `DEFINITIONS` of a row."""
    called = {".".join(name) for name in _called(snapshot.condition)}
    return {
        one["name"]: one["definition"] for one in found or () if one["name"] in called
    }


def are_replaced(snapshot: Snapshot, now: Definitions) -> bool:
    """Whether a function is another one than at the last refresh."""
    before: Definitions = (snapshot.parents or {}).get(FACT, {})
    return before != now


@lru_cache(maxsize=1024)
def _called(condition: str | None) -> frozenset[tuple[str, str]]:
    """The functions, by schema and name; PostgreSQL prints its own without a schema."""
    words = Printed(condition or "").tokens
    return frozenset(
        (words[n], words[n + 2])
        for n in range(len(words) - 3)
        if (words[n + 1], words[n + 3]) == (".", "(")
    )
