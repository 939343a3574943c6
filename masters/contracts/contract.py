"""Contracts: set, listed and dropped at the master, which keeps its logs by them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from masters.contract_catalog import ContractState, contract, contract_change
from masters.contracts import even_time
from masters.contracts.errors import (
    ContractWithoutTerms,
    TermsContradict,
    UnknownContract,
)
from sites import Site
from sites.catalog import SCHEMA
from sites.sessions import identity

_at = contract.c


class OnBreach(StrEnum):
    """What becomes of a site that breaks its contract."""

    TELL = "tell"
    REPAIR = "repair"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a contract promises; None is no limit."""

    #: how old a change of the master may be that the site does not show; more is late
    visible_within: timedelta | None = None
    #: how old a change of the site may be that the master has not answered; the site
    #: looks at it, because the master cannot see what has not come
    answered_within: timedelta | None = None
    #: as `visible_within`; more breaks the contract
    may_be_away: timedelta | None = None
    #: bytes of the snapshot logs that may be kept because of the site
    log_share: int | None = None
    #: tell of the breach; also repair the site, or release it
    on_breach: OnBreach = OnBreach.TELL


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A contract, and what the last look at it found."""

    site: str
    group: str
    snapshots: tuple[str, ...]
    visible_within: timedelta | None
    answered_within: timedelta | None
    may_be_away: timedelta | None
    log_share: int | None
    on_breach: OnBreach
    state: ContractState
    #: why it is not kept
    reason: str | None
    #: when it came into this state
    since: datetime
    #: when it was last looked at; None before the first time
    looked_at: datetime | None
    #: seconds since the oldest change was made that the site does not show; 0 if it
    #: shows all, None if nothing is kept for it
    age: float | None
    #: bytes of the logs that are kept because of it; None without a limit
    log_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """What a contract promises the site; None is no limit."""

    visible_within: timedelta | None = None
    answered_within: timedelta | None = None
    #: its refreshes take the way that costs least
    repair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractChange:
    """A state that a contract has come into."""

    at: datetime
    state: ContractState
    reason: str | None


#: A contract, as `of_row` reads it.
LISTED = select(
    _at.site_name.label("site"),
    _at.refresh_group.label("group"),
    *(_at[name] for name in Contract.__slots__ if name not in ("site", "group")),
).order_by(_at.site_name, _at.refresh_group)


def put(
    connection: Connection,
    site_id: uuid.UUID,
    site_name: str,
    group: str,
    snapshots: Sequence[str],
    terms: Terms,
) -> Contract:
    """Set the contract of a refresh group, or its terms; its state stays.

    Writes `contract` and `position_time`.

    Raises:
        ContractWithoutTerms, TermsContradict: no such contract can be kept.
    """
    refuse_unfit(terms)
    values = {"site_name": site_name, "snapshots": [*snapshots], **asdict(terms)}
    statement = insert(contract).values(site_id=site_id, refresh_group=group, **values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[_at.site_id, _at.refresh_group], set_=values
        )
    )
    even_time.note(connection)
    [made] = _listed(connection, _at.site_id == site_id, _at.refresh_group == group)
    return made


def agreed(one: Contract) -> Terms:
    """The terms of a contract."""
    return Terms(**{its.name: getattr(one, its.name) for its in fields(Terms)})


def refuse_unfit(terms: Terms) -> None:
    """Refuse terms that no contract can have.

    Raises:
        ContractWithoutTerms, TermsContradict.
    """
    limits = *_ages(terms), terms.log_share
    if all(limit is None for limit in limits):
        raise ContractWithoutTerms
    if timedelta(0) in limits or 0 in limits or _is_negative(terms):
        raise TermsContradict("A limit of a contract is more than nothing.")
    if (
        terms.visible_within is not None
        and terms.may_be_away is not None
        and terms.may_be_away < terms.visible_within
    ):
        raise TermsContradict(
            f"The site may be away for {terms.may_be_away}, which is shorter than the "
            f"{terms.visible_within} within which changes are to be visible."
        )
    may_break = terms.may_be_away is not None or terms.log_share is not None
    if terms.on_breach is not OnBreach.TELL and not may_break:
        raise TermsContradict(
            f"The site is to be {_DONE[terms.on_breach]}, but neither how long it may "
            "be away nor its share of the logs is limited."
        )


_DONE = {OnBreach.REPAIR: "repaired", OnBreach.RELEASE: "released"}


def _is_negative(terms: Terms) -> bool:
    return (terms.log_share or 0) < 0 or any(
        age is not None and age < timedelta(0) for age in _ages(terms)
    )


def _ages(terms: Terms) -> tuple[timedelta | None, ...]:
    return terms.visible_within, terms.answered_within, terms.may_be_away


def promises_can_be_read(connection: Connection) -> bool:
    """Whether a master has promises for its sites, and our login may read them.

    A master of an older version has none, or has not granted this to the login of a
    site to which it grants rows.
    """
    at = sa.table("pg_attribute", *map(sa.column, ("attrelid", "attnum", "attname")))
    there = func.to_regclass(f"{SCHEMA}.{contract.name}")
    may = func.has_column_privilege(there, at.c.attnum, "SELECT")
    named = at.c.attrelid == there, at.c.attname == _at.answered_within.name
    return bool(connection.scalar(select(sa.exists().where(*named, may))))


def promised(connection: Connection, site_id: uuid.UUID, group: str) -> Promised:
    """What a master promises a group; nothing without a contract."""
    repair = (_at.on_breach == OnBreach.REPAIR).label("repair")
    wanted = select(_at.visible_within, _at.answered_within, repair)
    its = _at.site_id == site_id, _at.refresh_group == group
    found = connection.execute(wanted.where(*its)).one_or_none()
    return Promised() if found is None else Promised(**found._mapping)


def list_contracts(master: Site) -> list[Contract]:
    """The contracts that a master keeps, with what the last look at them found.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    with identity.initialised(master) as connection:
        return _listed(connection)


def contract_changes(master: Site, site: str, group: str) -> list[ContractChange]:
    """The states that a contract has come into, the last one first.

    Raises:
        UnknownContract: the master keeps none of that site and group.
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    change = contract_change.c
    with identity.initialised(master) as connection:
        found = connection.scalar(select(_at.id).where(*_named(site, group)))
        if found is None:
            raise _unknown(master, site, group)
        rows = connection.execute(
            select(change.at, change.state, change.reason)
            .where(change.contract_id == found)
            .order_by(change.id.desc())
        )
        return [
            ContractChange(at=row.at, state=ContractState(row.state), reason=row.reason)
            for row in rows
        ]


def drop_contract(master: Site, site: str, group: str) -> None:
    """End a contract; a site that was released stays so until its next refresh.

    Raises:
        UnknownContract: the master keeps none of that site and group.
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    with identity.initialised(master) as connection:
        gone = connection.execute(sa.delete(contract).where(*_named(site, group)))
        if not gone.rowcount:
            raise _unknown(master, site, group)


def _listed(connection: Connection, *which: sa.ColumnElement[bool]) -> list[Contract]:
    return [
        Contract(
            **{
                **row._mapping,
                "snapshots": tuple(row.snapshots),
                "on_breach": OnBreach(row.on_breach),
                "state": ContractState(row.state),
            }
        )
        for row in connection.execute(LISTED.where(*which))
    ]


def _named(site: str, group: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _at.site_name == site, _at.refresh_group == group


def _unknown(master: Site, site: str, group: str) -> UnknownContract:
    return UnknownContract(
        f"{master.name} keeps no contract of group {group} of site {site}.",
        site=site,
        group=group,
    )
