"""Refreshes that came later than a contract promises, and ended the breach of it.

A look finds a breach that lasts. One that begins and ends between two looks is noted by
the refresh that ends it, at the master, and told by the next look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast

from masters.contract_catalog import late_refresh
from masters.contracts import even_time

_at = late_refresh.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A refresh that came late."""

    #: when the master heard of it, by its clock
    at: datetime
    #: how old the oldest change was that the snapshot had not shown, in seconds
    age: float
    #: whether the last look has seen the position that the snapshot showed until then
    seen: bool


def take(connection: Connection, contract: Row[Any], now: float) -> Sequence[Late]:
    """Take the notes of refreshes that came late for a contract, the last one first.

    Writes `late_refresh`.

    Parameters:
        contract: its row of the catalog, as the last look left it.
        now: what `even_time.note` has returned.
    """
    noted = connection.execute(
        sa.delete(late_refresh)
        .where(_at.contract_id == contract.id)
        .returning(
            _at.snapshot,
            _at.at,
            _at.change_at,
            cast(_at.position, Text).label("position"),
            cast(_at.xid, Text).label("xid"),
            cast(_at.change_xid, Text).label("change_xid"),
        )
    ).all()
    found = [
        Late(at=one.at, age=_age(connection, one, now), seen=_was_seen(contract, one))
        for one in noted
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)


def _was_seen(contract: Row[Any], one: Row[Any]) -> bool:
    position, _ = contract.seen.get(one.snapshot, (None, None))
    return bool(position == one.position)


def _age(connection: Connection, one: Row[Any], now: float) -> float:
    ended = even_time.of_refresh(connection, one.xid, one.at, now)
    made = even_time.of_change(connection, one.change_xid, one.change_at, now)
    return ended - made
