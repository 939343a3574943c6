"""Compares the reserved rows of both sides, without asking Snaptide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from snapshots import Kind
from tests.oracle.checks.plants import Key, Session
from tests.oracle.checks.tables import RESERVED, Target

#: Snapshot, kind, key, and the columns that differ.
Found = tuple[str, str, Key, frozenset[str]]
_Rows = dict[Key, list[str | None]]


def differences(
    targets: Sequence[Target], site: str, sessions: Mapping[str, Session]
) -> set[Found]:
    """What a check has to call unexplained at a site."""
    found: set[Found] = set()
    for target in targets:
        here = _rows(sessions[site], target, target.base, None)
        there = _rows(sessions["hq"], target, target.table, target.defined)
        for key in {*here, *there}:
            found |= _compared(target, key, here.get(key), there.get(key))
    return found


def keys(session: Session, target: Target, where: str) -> list[Key]:
    """The keys of the reserved rows that a site has, as texts."""
    return sorted(_rows(session, target, target.base, where))


def noted(session: Session, target: Target) -> set[Key]:
    """The keys in the own log of a snapshot: the next refresh looks at these rows."""
    query = sql.SQL("SELECT {} FROM snaptide.{}").format(
        _texts([f"k{n}" for n, _ in enumerate(target.key, 1)]),
        sql.Identifier(f"uslog$_{target.name}"),
    )
    return {tuple(key) for (key,) in session.execute(query).fetchall()}


def _compared(
    target: Target,
    key: Key,
    here: list[str | None] | None,
    there: list[str | None] | None,
) -> set[Found]:
    if here is None or there is None:
        kind = Kind.MISSING if here is None else Kind.EXTRA
        return {(target.name, kind.value, key, frozenset())}
    pairs = zip(target.columns, here, there, strict=True)
    columns = frozenset(name for name, mine, its in pairs if mine != its)
    return {(target.name, Kind.DIFFERS.value, key, columns)} if columns else set()


def _rows(session: Session, target: Target, name: str, condition: str | None) -> _Rows:
    query = sql.SQL("SELECT {}, {} FROM {} AS {} WHERE h = {} AND ({})").format(
        _texts(target.key),
        _texts(target.columns),
        sql.Identifier("public", name),
        sql.Identifier(target.table),
        RESERVED,
        sql.SQL(condition or "true"),
    )
    return {tuple(key): values for key, values in session.execute(query).fetchall()}


def _texts(columns: Sequence[str]) -> sql.Composed:
    texts = (sql.SQL("{}::text").format(sql.Identifier(name)) for name in columns)
    return sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(texts))
