"""Applying transactions of an origin at the master: detect, resolve, write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Connection, Row, func, select

from masters.apply import alone, at_once, reached, unchecked
from masters.apply.detect import ConflictContext, SourceTransaction
from masters.apply.followers import Followers
from masters.apply.settlement import Settlement
from masters.errors import InvalidNetChange, TableAltered
from masters.resolution.order import moment
from masters.resolution.scope import Scope
from masters.rules import table_rules
from masters.rules.table_rules import TableRules
from sites import QualifiedName, faults
from sites.errors import RowCountMismatch
from sites.progress import RowsDone
from sites.sessions import settings
from sites.sessions.prepared import Prepared
from sites.tables import instead
from sites.words import counted, does
from sites.writing import triggered, write
from sites.writing.row_by_row import write_rows
from sites.writing.staged import (
    MOVE,
    UPDATES,
    Staged,
    described_columns,
    moved_columns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyUnit:
    """Deferred transactions that are applied as one; their net changes are staged."""

    #: selects its rows in the work tables
    number: int
    staged: Sequence[Staged]
    #: for each of `staged`, how many rows there are of each kind
    counts: Sequence[Mapping[str, int]]
    origin: str
    master: str
    #: gives the transaction of an order number, as it was at its origin
    transaction_of: Callable[[int], SourceTransaction]
    #: the unit may have several transactions: a conflict stays unresolved if settling
    #: them one by one might give another answer
    several: bool = False
    #: row changes of the same transaction follow in a later unit
    goes_on: bool = False
    #: called before rules drop rows or give them other keys or unique values: with the
    #: staged table, a selection of its rows, and the columns that change, None if the
    #: rows are dropped
    on_lost: Callable[[Staged, Mapping[str, Any], Set[str] | None], None] | None = None
    #: called with rows that other masters may get otherwise, because a rule settled
    #: them or a foreign key will act on them; some are named more than once
    on_alone: alone.Tell | None = None
    #: facts of the transaction for the master's queues, if it goes on to other masters
    facts: Mapping[str, object] = field(default_factory=dict)
    #: called from time to time with the number of rows written
    on_progress: RowsDone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a unit."""

    #: conflicts that a rule settled
    resolved: int = 0
    #: rules dropped rows, or gave them other keys or unique values
    takes_away: bool = False
    #: why the unit was not applied: call number -> reason; empty if it was applied
    unresolved: Mapping[int, str] = field(default_factory=dict)
    #: order numbers of the transactions whose rows those are
    refused: frozenset[int] = frozenset()


#: Whether any table has a deferrable constraint, since users' triggers may write to any
#: table. Constraints of our own schema are left out: the commit checks them.
_ANY_DEFERRABLE = sa.literal_column(
    "EXISTS (SELECT FROM pg_constraint"
    " WHERE condeferrable AND connamespace <> 'snaptide'::regnamespace)",
    Boolean,
).label("deferrable")


@lru_cache(maxsize=256)
def _begin(tables: tuple[QualifiedName, ...]) -> Prepared:
    """The statement that sets a transaction up, and locks these tables against DDL."""
    named = (sa.table(one.name, schema=one.schema) for one in tables)
    locks = (
        sa.exists(select(sa.literal_column("1")).select_from(one).where(sa.false()))
        for one in named
    )
    return Prepared(
        select(
            *triggered.BROUGHT,
            settings.raise_work_mem(),
            settings.lookups(),
            unchecked.oids(),
            table_rules.LAST_VERSION,
            _ANY_DEFERRABLE,
            reached.TABLES,
            moved_columns().label("moved"),
            instead.found().label("instead"),
            *(lock.label(f"locked{n}") for n, lock in enumerate(locks)),
        )
    )


def apply(
    connection: Connection,
    unit: ApplyUnit,
    *,
    resolving: bool = True,
    last: bool = True,
    row_by_row: bool = False,
) -> Outcome:
    """Apply a unit whole, or say which conflicts stand in its way.

    Call it in a savepoint and roll that back when the outcome is unresolved:
    nothing is undone here. Constraints are checked before it returns.

    Parameters:
        resolving: False leaves every conflict unresolved, whatever the rules.
        last: False leaves deferrable constraints unchecked: the transaction goes on.
        row_by_row: write the rows one by one, after the database refused them as sets.

    Raises:
        sqlalchemy.exc.DBAPIError: the database refused a change.
        RowCountMismatch, InvalidNetChange, NoFreeValue.
        TableAltered: a table was altered after it was described.
        RulesMoved: rules name other columns than they were made for.
    """
    known_as = _begun(connection, unit)
    _refuse_invalid(unit)
    counts = [dict(count) for count in unit.counts]
    touched = _touched(unit, counts)
    known = [
        _rules(connection, one, known_as.version, resolving=resolving)
        for one, _ in touched
    ]
    some = at_once.is_worth_it(sum(sum(count.values()) for count in counts))
    if some and len(touched) == 1 and not row_by_row and _alone(*touched[0], known_as):
        (staged, count), (its_rules,) = touched[0], known
        if at_once.written(
            connection,
            staged,
            unit.number,
            count,
            its_rules,
            last=last and known_as.deferrable,
            on_progress=unit.on_progress,
        ):
            return Outcome()
    settlements, followers = _settled(connection, unit, touched, known, known_as)
    unresolved = {no: why for one in settlements for no, why in one.unresolved.items()}
    faults.point("push.after_settle")
    if not unresolved:
        with triggered.users_search_path(connection):
            _write(connection, unit, counts, row_by_row=row_by_row)
            if last and known_as.deferrable:
                connection.execute(sa.text("SET CONSTRAINTS ALL IMMEDIATE"))
        for settlement in settlements:
            if settlement.deletes is not None and settlement.count.get("D"):
                settlement.deletes.date(connection, unit.number, unit.transaction_of)
    return Outcome(
        resolved=followers.written + sum(one.records.written for one in settlements),
        takes_away=followers.take_away,
        unresolved=unresolved,
        refused=frozenset(no for one in settlements for no in one.refused),
    )


def _write(
    connection: Connection,
    unit: ApplyUnit,
    counts: Sequence[Mapping[str, int]],
    *,
    row_by_row: bool,
) -> None:
    rows = {"unit": unit.number}
    if row_by_row:
        write_rows(connection, unit.staged, rows)
    else:
        write.write(connection, unit.staged, counts, rows, unit.on_progress)


def _begun(connection: Connection, unit: ApplyUnit) -> Row[Any]:
    """Set the transaction up: name the origin, set the planner, read the catalog."""
    whose = triggered.as_brought(unit.origin, unit.facts)
    changed = [
        one for one, count in zip(unit.staged, unit.counts, strict=True) if count
    ]
    begin = _begin(tuple(dict.fromkeys(one.table.qualified for one in changed)))
    values = {**triggered.values(whose), **described_columns(changed)}
    known_as = begin.run(connection, **values).one()
    if known_as.moved:
        raise TableAltered(
            f"Table was altered meanwhile: {', '.join(known_as.moved)}.",
            columns=known_as.moved,
        )
    if known_as.instead is not None:
        oid, rule = known_as.instead
        name = next(one.table.qualified for one in changed if one.table.oid == oid)
        raise RowCountMismatch(f"{instead.message(name, rule)}.", rule=rule)
    if known_as.deferrable:
        connection.execute(sa.text("SET CONSTRAINTS ALL DEFERRED"))
    return known_as


def _rules(
    connection: Connection, staged: Staged, version: int, *, resolving: bool
) -> TableRules:
    known = table_rules.known(connection, staged, version)
    return known if resolving else replace(known, rules=())


def _context(
    connection: Connection,
    unit: ApplyUnit,
    touched: Sequence[Staged],
    known: Sequence[TableRules],
) -> ConflictContext:
    """The two sides; with the newest timestamp if the unit is one transaction.

    If it has several, rows in conflict are settled later, transaction by transaction.
    """
    tables = [] if unit.several else list(zip(touched, known, strict=True))
    return ConflictContext(
        origin=unit.origin,
        master=unit.master,
        transaction_of=unit.transaction_of,
        newest=_newest(connection, unit.number, tables),
    )


def _touched(
    unit: ApplyUnit, counts: list[dict[str, int]]
) -> list[tuple[Staged, dict[str, int]]]:
    """The work tables that have rows of a unit, parents first."""
    tables = zip(unit.staged, counts, strict=True)
    touched = [(staged, count) for staged, count in tables if count]
    if len(touched) < 2:
        return touched
    order = write.parents_first([staged.table for staged, _ in touched])
    return sorted(touched, key=lambda one: order.index(one[0].table.qualified))


def _settled(
    connection: Connection,
    unit: ApplyUnit,
    touched: Sequence[tuple[Staged, dict[str, int]]],
    known: Sequence[TableRules],
    known_as: Row[Any],
) -> tuple[list[Settlement], Followers]:
    """Lock and compare the rows of each table, and settle their conflicts."""
    context = _context(connection, unit, [one for one, _ in touched], known)
    told = alone.Alone(unit=unit.number, tell=unit.on_alone)
    followers = Followers(
        connection=connection,
        unit=unit.number,
        origin=unit.origin,
        master=unit.master,
        # In a unit of several transactions no rule drops or renames rows.
        tables=[] if unit.several else touched,
        goes_on=unit.goes_on,
        alone=told,
        on_lost=unit.on_lost,
    )
    settlements = []
    for (staged, count), its_rules in zip(touched, known, strict=True):
        if staged.table.oid in known_as.unchecked:
            unchecked.take(connection, staged, unit.number, count)
            continue
        settlement = Settlement(
            connection=connection,
            staged=staged,
            unit=unit.number,
            rules=its_rules,
            context=context,
            followers=followers,
            alone=told,
            count=count,
            several=unit.several,
        )
        settlement.run()
        settlements.append(settlement)
        if settlement.too_many_unresolved:
            break
    if not any(one.unresolved for one in settlements):
        reaching = [
            one
            for one in settlements
            if _may_reach(one.staged, one.count, known_as.reaching)
        ]
        # The row of a dropped change stays, so another change may take it along.
        while any(one.settle_taken_along(touched) for one in reaching):
            pass
    return settlements, followers


def _may_reach(
    staged: Staged, count: Mapping[str, int], deletes: Collection[int]
) -> bool:
    """Whether changes of a table may reach rows that refer to theirs.

    Parameters:
        count: how many staged rows there are of each kind.
        deletes: oids of tables whose deletes reach other rows, see `reached.TABLES`.
    """
    if staged.table.oid in deletes and (count.get("D") or count.get("R")):
        return True
    followed = staged.followed
    kept = {c for c in staged.identity if staged.table.column(c).exact}
    return bool(followed and count.get(MOVE)) or bool(
        followed - kept and (count.get("U") or count.get("R"))
    )


def _alone(staged: Staged, count: Mapping[str, int], known_as: Row[Any]) -> bool:
    """Whether a comparison of the rows is enough to apply the changes of a table."""
    reaches = _may_reach(staged, count, known_as.reaching)
    return staged.table.oid not in known_as.unchecked and not reaches


def _refuse_invalid(unit: ApplyUnit) -> None:
    for staged, count in zip(unit.staged, unit.counts, strict=True):
        if count.get("X"):
            raise InvalidNetChange(
                f"{counted(count['X'], 'row')} of {staged.table.qualified} "
                f"{does(count['X'], 'have')} changes that do not follow from one "
                "another.",
                table=str(staged.table.qualified),
            )


def _newest(
    connection: Connection, unit: int, tables: Sequence[tuple[Staged, TableRules]]
) -> object:
    """The newest value that a transaction wrote to columns that some rules name.

    Informix's transaction scope compares it with each row in conflict, instead of the
    timestamp of the row alone.

    None if no rule asks. Timestamps with and without time zone cannot be compared: if
    tables differ in that, the first one counts.
    """
    found: object = None
    for staged, rules in tables:
        for column in _scoped(staged, rules):
            value = connection.scalar(
                select(func.max(staged.new(column))).where(
                    staged.source.c.unit == unit, staged.kind("I", *UPDATES, "R")
                )
            )
            found = _later(found, value)
    return found


def _scoped(staged: Staged, rules: TableRules) -> list[str]:
    named = {
        str(rule.parameters.get("column"))
        for rule in rules.rules
        if rule.parameters.get("scope") == Scope.TRANSACTION
    }
    return [name for name in staged.columns if name in named]


def _later(found: object, value: object) -> object:
    if found is None or value is None:
        return value if found is None else found
    try:
        return value if moment(value) > moment(found) else found
    except TypeError:
        return found
