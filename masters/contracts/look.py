"""One look at the contracts of a master: measures, notes what changed, and releases.

Workers look once a minute. A look can be repeated at any time, and several may be
under way: each waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, func, select

from masters.contract_catalog import ContractState, contract, contract_change
from masters.contracts import even_time, late
from masters.contracts.contract import OnBreach
from masters.contracts.late import Late
from masters.contracts.measure import Measured, measure
from masters.log import registration
from sites import Site, faults
from sites.sessions import identity

#: So many states of each contract are kept.
KEPT = 100

#: From good to bad; what was released is no matter of ages.
_WORSE = (ContractState.KEPT, ContractState.LATE, ContractState.BROKEN)

_at = contract.c

#: Whether a master keeps a contract that a look would look at.
KEEPS_CONTRACTS = select(_at.id).exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a look makes of a contract."""

    state: ContractState
    reason: str | None
    age: float | None = None
    measured: Measured | None = None
    #: when it was so, by the master's clock; None is now
    at: datetime | None = None


def look_at_contracts(master: Site) -> bool:
    """Look at all contracts that a master keeps.

    Without a contract, nothing is written.

    Returns:
        Whether snapshots were released, so that a purge can empty more of the logs.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    with identity.initialised(master) as connection:
        rows = connection.execute(
            # A refresh may leave a note for one meanwhile.
            select(contract).order_by(_at.id).with_for_update(key_share=True)
        ).all()
        if not rows:
            return False
        now = even_time.note(connection)
        released = [_look(connection, row, now) for row in rows]
        faults.point("contract.before_commit")
    faults.point("contract.after_commit")
    return any(released)


def _look(connection: Connection, row: Row[Any], now: float) -> bool:
    """Look at one contract; returns whether snapshots of it were released."""
    seen = measure(connection, row, now)
    found = _judged(row, seen, now)
    # Some of its snapshots were released; the others are kept, and looked at as before.
    partly = (
        row.state == ContractState.RELEASED and seen is not None and bool(seen.released)
    )
    chosen = () if seen is None else _to_release(row, seen, now)
    if chosen:
        found = replace(found, reason=_release(connection, row, chosen, found))
    ended = late.take(connection, row, now)
    if chosen or partly:
        found = replace(found, state=ContractState.RELEASED, age=None)
    elif found.state in _WORSE and row.state in _WORSE:
        for one in ended:
            found = _worse(row, found, one)
    is_new = found.state != row.state or (partly and bool(chosen))
    _note(connection, row, found, is_new=is_new)
    if is_new:
        _note_change(connection, row.id, found)
    return bool(chosen)


def _release(
    connection: Connection, row: Row[Any], chosen: Sequence[str], found: _Found
) -> str:
    """Release snapshots that break a contract; returns why."""
    registration.release(connection, row.site_id, chosen)
    if {*chosen} == {*row.snapshots}:
        return str(found.reason)
    return f"{found.reason} Released: {', '.join(chosen)}."


def _to_release(row: Row[Any], seen: Measured, now: float) -> Sequence[str]:
    """The snapshots that a contract has released, because they break it.

    The others cost the master nothing beyond the contract, and a return that finds
    their logs is fast. A site that is to be repaired has its logs kept for that, up to
    its share of them.
    """
    over: set[str] = set()
    if row.on_breach == OnBreach.RELEASE:
        over |= {
            name
            for name, since in seen.waits.items()
            if _is_over(now - since, row.may_be_away)
        }
    if row.on_breach != OnBreach.TELL and _is_over_share(row, seen):
        over |= seen.kept_for
    return sorted(over)


def _worse(row: Row[Any], found: _Found, ended: Late) -> _Found:
    """What was found, or the breach that a refresh has ended, if it was not told.

    It stands until the next look, so that whoever asks once a minute hears of it.
    """
    state = _state_at(row, ended.age)
    told = _WORSE.index(row.state) if ended.seen else 0
    if _WORSE.index(state) <= max(told, _WORSE.index(found.state) - 1):
        return found
    limit = row.visible_within if state is ContractState.LATE else row.may_be_away
    reason = (
        "A refresh came late: the oldest change that it brought was made "
        f"{timedelta(seconds=round(ended.age))} before; the limit is {limit}."
    )
    return replace(found, state=state, reason=reason, at=ended.at)


def _state_at(row: Row[Any], age: float) -> ContractState:
    """The state of a contract because of an age alone."""
    if _is_over(age, row.may_be_away):
        return ContractState.BROKEN
    return (
        ContractState.LATE if _is_over(age, row.visible_within) else ContractState.KEPT
    )


def _is_over_share(row: Row[Any], seen: Measured) -> bool:
    return row.log_share is not None and seen.log_bytes > row.log_share


def _judged(row: Row[Any], measured: Measured | None, now: float) -> _Found:
    if measured is None:
        if row.state == ContractState.RELEASED:
            return _Found(state=ContractState.RELEASED, reason=row.reason)
        return _Found(
            state=ContractState.KEPT,
            reason="Nothing is kept for its snapshots: they were not refreshed yet, or "
            "are not registered any more.",
        )
    age = max(now - min(measured.waits.values(), default=now), 0.0)
    state, reason = _state_at(row, age), None
    if _is_over_share(row, measured):
        state = ContractState.BROKEN
        reason = (
            f"{measured.log_bytes:,} bytes of logs are kept because of it; its share "
            f"is {row.log_share:,}."
        )
    elif state is ContractState.BROKEN:
        reason = _too_old(age, row.may_be_away)
    elif state is ContractState.LATE:
        reason = _too_old(age, row.visible_within)
    return _Found(state=state, reason=reason, age=age, measured=measured)


def _is_over(age: float, limit: timedelta | None) -> bool:
    return limit is not None and age > limit.total_seconds()


def _too_old(age: float, limit: timedelta) -> str:
    return (
        "The oldest change that it does not show was made "
        f"{timedelta(seconds=round(age))} before; the limit is {limit}."
    )


def _note(
    connection: Connection, row: Row[Any], found: _Found, *, is_new: bool
) -> None:
    seen, is_released = found.measured, found.state is ContractState.RELEASED
    values: dict[str, Any] = {
        "state": found.state,
        # The reason with which it came into the state.
        "reason": found.reason if is_new else row.reason,
        "looked_at": func.now(),
        "age": found.age,
        "log_bytes": None
        if seen is None or is_released or row.log_share is None
        else seen.log_bytes,
    }
    # Of what was released, what was found before stays: its refresh may break off.
    if seen is not None:
        before = {name: row.seen[name] for name in seen.released & row.seen.keys()}
        values["seen"] = {**before, **seen.seen}
    elif not is_released:
        values["seen"] = {}
    if found.state != row.state:
        values["since"] = found.at or func.now()
    elif found.state is ContractState.KEPT:
        values["reason"] = found.reason
    connection.execute(sa.update(contract).where(_at.id == row.id).values(values))


def _note_change(connection: Connection, contract_id: int, found: _Found) -> None:
    connection.execute(
        sa.insert(contract_change).values(
            contract_id=contract_id,
            at=found.at or func.now(),
            state=found.state,
            reason=found.reason,
        )
    )
    change = contract_change.c
    oldest = (
        select(change.id)
        .where(change.contract_id == contract_id)
        .order_by(change.id.desc())
        .offset(KEPT)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(
        sa.delete(contract_change).where(
            change.contract_id == contract_id, change.id <= oldest
        )
    )
