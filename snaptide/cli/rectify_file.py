"""Reads and writes the files of rectify: a plan for review and editing, and rules."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deferred.errors import BadOption
from snapshots.rectify.errors import BadPlan, BadRule
from snapshots.rectify.report import PlannedRow, RectifyReport, Take
from snapshots.rectify.rules import RectifyRule
from snaptide import toml

_HEAD = """\
# Each row differs, and nothing explains it. `take` says whose row both sides get:
# "master", "site" or "nothing" (the row is left as it is). If the side that is taken
# lacks the row, the other side loses it. Only snapshot, key and take are read; the rows
# are compared once more before anything is written.

"""


def written(report: RectifyReport) -> str:
    """The plan of a dry run as TOML.

    NULL is left out of the values that are shown; keys hold none.
    """
    rows = [_row(row) for one in report.snapshots for row in one.rows]
    return _HEAD + toml.written({"site": report.site, "row": rows})


def _row(row: PlannedRow) -> dict[str, Any]:
    return {
        "snapshot": row.snapshot,
        "key": dict(row.key),
        "take": row.take.value,
        "kind": None if row.kind is None else row.kind.value,
        "master": None if row.master is None else dict(row.master),
        "here": None if row.here is None else dict(row.here),
    }


def read(file: Path, site: str) -> list[PlannedRow]:
    """The rows of a plan that was written for a site.

    Raises:
        BadPlan: the file is none, or for another site.
    """
    found = _document(file, BadPlan)
    if found.get("site") != site:
        raise BadPlan(
            f"{file} is a plan for site {found.get('site')}, not {site}.",
            file=str(file),
        )
    rows = found.get("row", [])
    if not isinstance(rows, list):
        raise BadPlan(f"{file} has no list of rows.", file=str(file))
    return list(_rows(file, rows))


def read_rules(file: Path) -> list[RectifyRule]:
    """The rules in a file.

    Raises:
        BadRule: the file has no list of rules, or one of them is wrong.
    """
    found = _document(file, BadRule)
    entries = found.pop("rule", None)
    if not isinstance(entries, list) or found:
        others = f", and no {', '.join(found)}" if found else ""
        raise BadRule(f"{file} needs [[rule]] entries{others}.", file=str(file))
    return [_rule(file, number, one) for number, one in enumerate(entries, 1)]


def _rule(file: Path, number: int, given: Any) -> RectifyRule:
    try:
        return RectifyRule.of(given)
    except BadOption as error:
        raise BadRule(
            f"Rule {number} of {file}: {error}", file=str(file), rule=number
        ) from None


def _document(file: Path, wrong: type[BadPlan | BadRule]) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise wrong(f"{file} cannot be read: {error}", file=str(file)) from None


def _rows(file: Path, given: list[Any]) -> Iterator[PlannedRow]:
    for number, row in enumerate(given, 1):
        match row:
            case {"snapshot": str(snapshot), "key": {**key}, "take": str(take)}:
                yield PlannedRow(snapshot=snapshot, key=_texts(key), take=_take(take))
            case _:
                raise BadPlan(
                    f"Row {number} of {file} needs a snapshot, a key and take.",
                    file=str(file),
                    row=number,
                )


def _texts(key: Mapping[Any, Any]) -> dict[str, str | None]:
    return {str(name): str(value) for name, value in key.items()}


def _take(given: str) -> Take:
    try:
        return Take(given)
    except ValueError:
        raise BadPlan(f"take is master, site or nothing, not {given!r}.") from None
