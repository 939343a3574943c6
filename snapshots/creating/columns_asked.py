"""Which columns a snapshot is to have, and whether its master table has them so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from masters.numbers import columns as numbered_columns
from sites.conditions import where
from sites.conditions.where import BadCondition
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables.table import Column, Table
from snapshots.definitions.definition import Definition
from snapshots.definitions.errors import ColumnsRefused
from snapshots.definitions.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How the columns of a snapshot are to change."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    #: the new names of columns, by those that they have
    rename: Mapping[str, str]
    #: columns that get the wider types of the master, by their new names
    widen: tuple[str, ...] = ()

    @property
    def former(self) -> frozenset[str]:
        """The names that no longer mean what they meant."""
        return frozenset({*self.drop, *self.rename})

    @property
    def on_the_way(self) -> dict[str, str]:
        """How columns are called before some are dropped, by their former names.

        Another column may get the name of one that is dropped.
        """
        taken = {*self.drop} & {*self.rename.values()}
        aside = {name: f"snaptide$dropped${n}" for n, name in enumerate(sorted(taken))}
        return {**self.rename, **aside}

    def of(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that a snapshot has afterwards; new ones come last."""
        kept = (name for name in columns if name not in self.drop)
        return (*(self.rename.get(name, name) for name in kept), *self.add)


def asked(
    one: Snapshot,
    *,
    add: Sequence[str],
    drop: Sequence[str],
    rename: Mapping[str, str],
    widen: Sequence[str],
    columns: Sequence[str] | None,
) -> Asked:
    """What is to change, by what an operator gives.

    Parameters:
        columns: all that the snapshot is to have, instead of `add` and `drop`; they may
            be those that it has.

    Raises:
        ColumnsRefused: the names do not fit together, or nothing is to change.
    """
    if columns is not None:
        if add or drop or rename or widen:
            raise refused(one, "give either all columns, or what is to change")
        add = [name for name in columns if name not in one.columns]
        drop = [name for name in one.columns if name not in columns]
    made = Asked(add=(*add,), drop=(*drop,), rename=dict(rename), widen=(*widen,))
    _refuse_unknown(one, made)
    now = made.of(one.columns)
    if repeated := [name for name in now if now.count(name) > 1]:
        raise refused(one, f"it would have two columns {repeated[0]}")
    if now == one.columns and columns is None and not (widen or add):
        raise refused(one, "it has these columns already")
    return made


def _refuse_unknown(one: Snapshot, wanted: Asked) -> None:
    """Refuse to take or change columns that it does not have, or is identified by."""
    kept = [name for name in wanted.of(one.columns) if name not in wanted.add]
    named = [(name, one.columns) for name in (*wanted.drop, *wanted.rename)]
    for name, known in [*named, *((name, kept) for name in wanted.widen)]:
        if name not in known:
            raise refused(one, f"it has no column {name}")
        if name in one.identity_columns:
            raise refused(one, f"column {name} identifies its rows")
    if both := {*wanted.drop} & {*wanted.rename}:
        raise refused(one, f"column {min(both)} is to be dropped and renamed")


def refuse_former_names(
    master: Site, one: Snapshot, members: Sequence[Snapshot], wanted: Asked
) -> None:
    """Refuse to keep a condition that uses a column under its former name.

    The name may be that of another column by now, or of none.

    Raises:
        ColumnsRefused: the message says whose condition it is.
    """
    for member in members:
        theirs = member.asked.get(one.master, frozenset()) & wanted.former
        if theirs and member.key != one.key:
            raise refused(
                one,
                f"the condition of {member.key} uses {', '.join(sorted(theirs))}: give "
                "that one another condition first, and this one back afterwards",
            )
    if one.condition is None:
        return
    with master.session() as connection:
        identity.confirm(connection, master.name, partner=True)
        try:
            found = where.canonical(connection, one.master, one.condition)
        except BadCondition as error:
            raise _condition(one, error.message) from None
        finally:
            connection.rollback()
    used = {*found.columns.get(one.master, ())} & wanted.former
    if used:
        raise _condition(one, f"it uses {', '.join(sorted(used))}.")


def refuse_others(
    one: Snapshot, table: Table, wanted: Asked, numbers: Mapping[str, int] | None
) -> None:
    """Make sure that a column gets the name that it has at the master.

    Parameters:
        table: the master table.
        numbers: of the columns there, as the site knows them.

    Raises:
        ColumnsRefused: that name belongs to another column there.
    """
    for old, new in wanted.rename.items():
        if numbers is None or old not in numbers:
            raise refused(
                one, f"no refresh has noted which column of {one.master} {old} was"
            )
        if table.column(new).number != numbers[old]:
            called = {column.number: column.name for column in table.columns}
            now = called.get(numbers[old])
            raise refused(
                one,
                f"{new} of {one.master} is not the column that was called {old}, which "
                f"is {'gone' if now is None else f'called {now}'}",
            )


def gone(
    table: Table, wanted: Asked, numbers: Mapping[str, int] | None
) -> frozenset[str]:
    """The columns to drop that the master does not have any more.

    Parameters:
        table, numbers: as for `refuse_others`.
    """
    there = {column.number for column in table.columns}
    return frozenset(
        name
        for name in wanted.drop
        if name not in table.names
        or (numbers and name in numbers and numbers[name] not in there)
    )


def refuse_unfit(one: Snapshot, definition: Definition, wanted: Asked) -> None:
    """Refuse new columns that cannot be added without rewriting the base table.

    Raises:
        ColumnsRefused: the message says why.
    """
    for name in wanted.add:
        if name not in definition.columns:
            why = [x for x in definition.left_out if x.startswith(f"column {name}: ")]
            raise refused(one, " ".join(why) or f"column {name} cannot be taken over")
        column = definition.table.column(name)
        if definition.is_generated(column):
            raise refused(one, f"the site would have to compute column {name}")
        if column.refuses_by_domain:
            raise refused(one, f"the domain of column {name} checks its values")


def refuse_numbered(
    one: Snapshot, found: Sequence[numbered_columns.NumberedColumn], wanted: Asked
) -> None:
    """Refuse to rename or widen a column that draws numbers.

    Raises:
        ColumnsRefused: the message names it.
    """
    names: Collection[str] = {column.column_name for column in found}
    for name in (*wanted.rename, *wanted.widen):
        if name in names:
            raise refused(
                one, f"column {name} draws numbers (--numbers {name}=none ends that)"
            )


def lacking(definition: Definition, added: Mapping[str, Column]) -> Iterator[str]:
    """What the site does not have of new columns, each with the reason.

    Parameters:
        added: the columns as they are at the site.
    """
    for name, here in added.items():
        there = definition.table.column(name)
        lost = f"default of {name}: "
        yield from (x for x in definition.left_out if x.startswith(lost))
        if here.holds_null and not there.holds_null:
            yield (
                f"NOT NULL of {name}: rows here have no value of it before the next "
                "refresh; to have it here, alter the base table afterwards"
            )
        for index in definition.indexes:
            if name in index.columns:
                yield f"index {index.name}: create it on the base table"
        for unique in definition.uniques():
            if name in unique.columns:
                yield (
                    f"unique key {unique.name}: create it on the base table; until "
                    "then the master finds duplicate values when a change is pushed"
                )


def _condition(one: Snapshot, why: str) -> ColumnsRefused:
    return refused(
        one,
        f"its condition cannot stay: {why.rstrip('.')}; give the new one, too "
        "(--where, --follow or --all-rows)",
    )


def refused(one: Snapshot, why: str) -> ColumnsRefused:
    """The error that says why the columns of a snapshot stay as they are."""
    return ColumnsRefused(
        f"The columns of {one.key} cannot be altered: {why}.", snapshot=one.key
    )
