"""Setting which old values sites send, and which are compared to find conflicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from masters.errors import RuleError
from masters.rules import rulebook
from masters.rules.catalog import write_comparison
from masters.rules.checks import checked_comparison, require_columns
from masters.rules.table_rules import Comparison, TableRules, load
from sites import Site, names
from sites.tables.table import describe

#: Fields of `Comparison`, by operation.
_COMPARED = {"update": "not_at_update", "delete": "not_at_delete"}
_SENT = {"update": "not_sent_at_update", "delete": "not_sent_at_delete"}


def compare_old_values(
    site: Site,
    table: str,
    columns: Sequence[str],
    *,
    operation: str = "*",
    compare: bool = True,
) -> TableRules:
    """Set whether old values of columns are compared (Oracle: COMPARE_OLD_VALUES).

    A column that is not compared is in no conflict: the site's value is written.
    The error queue and the record still show old values; see `send_old_values`.

    Parameters:
        operation: update, delete or * for both.

    Raises:
        UnknownTable, UnknownColumn.
        RuleError: there is no such operation.
    """
    return _leave_out(site, table, columns, operation, _COMPARED, wanted=compare)


def send_old_values(
    site: Site,
    table: str,
    columns: Sequence[str],
    *,
    operation: str = "*",
    send: bool = True,
) -> TableRules:
    """Set whether sites send old values of columns (Oracle: SEND_OLD_VALUES).

    An old value that is not sent is not compared. It is NULL in the error queue, in the
    record and for methods: additive decides nothing then. Not sending saves the
    transport of large values. But a transaction that shares a row with a parked one
    then always waits for it, because the values that it started from are not known.

    Parameters:
        operation: update, delete or * for both.

    Raises:
        UnknownTable, UnknownColumn.
        RuleError: there is no such operation, or the column is the key's or the row
            version, which are always sent.
    """
    return _leave_out(site, table, columns, operation, _SENT, wanted=send)


def set_row_version(site: Site, table: str, column: str | None) -> TableRules:
    """Compare one column instead of all old values (Virtuoso: ROWGUID).

    At every site, a trigger of yours or the application must give the column a new
    value with each change of the row. If its value changed, the row counts as changed
    in all column groups. None compares old values again.

    Raises:
        UnknownTable, UnknownColumn.
    """

    def changed(before: Comparison) -> Comparison:
        return replace(before, row_version=column)

    return _compare(site, table, [column] if column is not None else [], changed)


def _leave_out(
    site: Site,
    table: str,
    columns: Sequence[str],
    operation: str,
    fields: Mapping[str, str],
    *,
    wanted: bool,
) -> TableRules:
    if operation not in (*fields, "*"):
        raise RuleError(
            f"The operation must be update, delete or *, not {operation!r}."
        )

    def changed(before: Comparison) -> Comparison:
        now: dict[str, Any] = {}
        for name, field in fields.items():
            if operation in (name, "*"):
                known = set(getattr(before, field))
                kept = known - set(columns) if wanted else {*known, *columns}
                now[field] = tuple(sorted(kept))
        return replace(before, **now)

    return _compare(site, table, columns, changed)


def _compare(
    site: Site,
    table: str,
    columns: Sequence[str],
    changed: Callable[[Comparison], Comparison],
) -> TableRules:
    where = names.parse(table)
    with rulebook.changing(site) as connection:
        described = describe(connection, where)
        require_columns(described, columns)
        now = changed(load(connection, where).comparison)
        checked_comparison(described, now)
        write_comparison(connection, where, now)
        what = f"change what is compared in {where}"
        rulebook.note(connection, what, {where: columns})
        return load(connection, where)
