"""Tables of the schema `snaptide` in which a master keeps contracts."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Integer,
    Interval,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.catalog import metadata
from sites.transfer.types import PgSnapshot, Xid8


class ContractState(StrEnum):
    """The state of a contract. Only a look of a worker changes it."""

    KEPT = "kept"
    LATE = "late"
    BROKEN = "broken"
    RELEASED = "released"


#: A contract about how old what a refresh group of a site shows may be
#: (`masters.contracts`).
contract = Table(
    "contract",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("site_id", Uuid, nullable=False),
    Column("site_name", Text, nullable=False),
    Column("refresh_group", Text, nullable=False),
    # The snapshots of the group, as they are registered.
    Column("snapshots", ARRAY(Text), nullable=False),
    # The terms; NULL is no limit.
    Column("visible_within", Interval),
    Column("answered_within", Interval),
    Column("may_be_away", Interval),
    Column("log_share", BigInteger),
    Column("on_breach", Text, nullable=False),
    # What the last look found, and since when it is so.
    Column("state", Text, nullable=False, server_default=text("'kept'")),
    Column("reason", Text),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("looked_at", DateTime(timezone=True)),
    # Seconds since the oldest change was made that the site does not show.
    Column("age", Double),
    # The logs that are kept for this site, if none is kept longer for another one.
    Column("log_bytes", BigInteger),
    # By snapshot, the registered position that was looked at, and when the oldest
    # change was made that it does not show, in seconds of `position_time.passed`.
    Column("seen", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    UniqueConstraint("site_id", "refresh_group"),
    CheckConstraint("state IN ('kept', 'late', 'broken', 'released')", name="state"),
    CheckConstraint("on_breach IN ('tell', 'repair', 'release')", name="on_breach"),
)

#: The states that a contract has had.
contract_change = Table(
    "contract_change",
    metadata,
    Column(
        "contract_id",
        Integer,
        ForeignKey(contract.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("state", Text, nullable=False),
    Column("reason", Text),
)

#: Refreshes that came later than a contract promises, for the next look: a trigger of
#: `registered_snapshot` notes them, whoever refreshes (`masters.contracts.late`).
late_refresh = Table(
    "late_refresh",
    metadata,
    Column(
        "contract_id",
        Integer,
        ForeignKey(contract.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("id", BigInteger, Identity(), primary_key=True),
    # The snapshot, and the position that it showed until then.
    Column("snapshot", Text, nullable=False),
    Column("position", PgSnapshot, nullable=False),
    # The transaction in which the master heard of it, and when, by its clock.
    Column("xid", Xid8, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    # The oldest change that the snapshot did not show until then.
    Column("change_xid", Xid8, nullable=False),
    Column("change_at", DateTime(timezone=True)),
)

#: Positions of this master, one a minute, with the time that has passed between them
#: (`masters.contracts.even_time`).
position_time = Table(
    "position_time",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("position", PgSnapshot, nullable=False),
    # What the master's clock said.
    Column("at", DateTime(timezone=True), nullable=False),
    # The machine that noted it, and the seconds since this machine started.
    Column("clock", Text, nullable=False),
    Column("reading", Double, nullable=False),
    # Seconds since the first of them.
    Column("passed", Double, nullable=False),
)
