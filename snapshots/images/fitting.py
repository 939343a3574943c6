"""Whether the snapshots of a group can be loaded from an image; if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from deferred.batches import reconcile
from sites.conditions import constants, subqueries
from sites.conditions.implied import implies
from sites.conditions.ranges import Leaf
from sites.sessions import peers
from sites.tables import definitions
from sites.tables.table import describe
from sites.transfer.values import unsized
from snapshots.creating.create import refuse_other_types
from snapshots.definitions import rewrites
from snapshots.definitions.definition import Definition
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences.window import LOAD, Member
from snapshots.images.errors import (
    AlreadyLoaded,
    ImageColumnsDiffer,
    ImageConditionRefused,
    ImageExpired,
    ImageLacksRows,
    ImageOfAnotherMaster,
)
from snapshots.images.manifest import ImageTable, Manifest


def fit(
    connection: Connection,
    group: RefreshGroup,
    snapshots: Sequence[Snapshot],
    image: Manifest,
) -> list[tuple[Member, ImageTable]]:
    """Each snapshot as its load treats it, with its table of the image.

    Parameters:
        connection: to the site.

    Raises:
        ImageExpired, ImageOfAnotherMaster: the image cannot be used.
        AlreadyLoaded: a snapshot shows a moment already.
        ImageLacksRows, ImageColumnsDiffer, ImageConditionRefused: it does not fit one.
        DifferentTypes: the site has other types of these names.
    """
    if image.expires_at < datetime.now(UTC):
        raise ImageExpired(
            f"Image {image.name} has expired: {image.expires_at:%Y-%m-%d %H:%M} UTC.",
            image=image.name,
        )
    _refuse_other_master(connection, group, image)
    loaded = [one.key for one in snapshots if one.loaded]
    if loaded:
        raise AlreadyLoaded(
            f"{', '.join(loaded)} of group {group.name} is loaded already.",
            group=group.name,
            snapshots=loaded,
        )
    return [_fitted(connection, one, image) for one in snapshots]


def _refuse_other_master(
    connection: Connection, group: RefreshGroup, image: Manifest
) -> None:
    them = image.master
    if them.site_id != group.master_id:
        raise ImageOfAnotherMaster(
            f"Image {image.name} is of another master than group {group.name}.",
            image=image.name,
        )
    before = peers.recall(connection, them.site_id, "master").former
    agrees = reconcile.agrees_with(group.master, them.incarnation)
    if them.incarnation in before or not connection.scalar(select(agrees)):
        refuse_repaired(group, image)


def refuse_repaired(group: RefreshGroup, image: Manifest) -> None:
    """Refuse an image of the time before the master was repaired.

    Raises:
        ImageOfAnotherMaster.
    """
    raise ImageOfAnotherMaster(
        f"Image {image.name} belongs to another incarnation of {group.master} than the "
        "one that the site knows.",
        image=image.name,
    )


def definition(one: ImageTable, snapshot: Snapshot, image: Manifest) -> Definition:
    """What a snapshot's base table is to have, as the image says it."""
    chosen = set(snapshot.columns)
    return Definition(
        master_id=image.master.site_id,
        with_rowid=one.with_rowid,
        table=one.table,
        columns=snapshot.columns,
        identity=one.identity,
        condition=None,
        indexes=tuple(i for i in one.indexes if set(i.columns) <= chosen),
        needs={},
        types={kind.name: kind for kind in one.types},
        numbers={},
        ddl=(),
        left_out=(),
    )


def _fitted(
    connection: Connection, snapshot: Snapshot, image: Manifest
) -> tuple[Member, ImageTable]:
    found = image.of(snapshot.master)
    if found is None:
        raise ImageLacksRows(
            f"Image {image.name} has no table {snapshot.master}.",
            snapshot=snapshot.key,
        )
    _refuse_fewer_rows(snapshot, found)
    base = describe(connection, snapshot.base)
    member = Member(
        snapshot=snapshot,
        base=base,
        master=found.table,
        log_table=None,
        parents={},
        # Not known: if the condition calls functions, the first refresh compares all.
        functions={},
        method=LOAD,
        since=None,
        parts={one.oid: Leaf(name=one.name, file=one.file) for one in found.parts},
        schema_version=found.schema_version,
    )
    rewrites.refuse_displaced(snapshot, base)
    _refuse_other_columns(member, found)
    refuse_other_types(connection, snapshot, definition(found, snapshot, image))
    if _may_choose_others(connection, member, found, image):
        # The first refresh compares all rows, as if the table had been rewritten.
        parts = {oid: replace(leaf, file=0) for oid, leaf in member.parts.items()}
        member = replace(member, parts=parts)
    return member, found


def _may_choose_others(
    connection: Connection, member: Member, found: ImageTable, image: Manifest
) -> bool:
    """Whether a condition that sorts texts may be true of other rows here.

    A refresh has the master choose; a load chooses among the rows of the image itself.
    """
    snapshot = member.snapshot
    columns = (member.base.column(name) for name in snapshot.columns)
    numbers = [c.name for c in columns if unsized(c.recorded) in constants.NUMBERS]
    if snapshot.condition == found.condition or constants.is_same_everywhere(
        snapshot.parts.shape, numbers
    ):
        return False
    there = {kind.name: kind for kind in found.types}
    here = definitions.type_definitions(connection, member.base, snapshot.columns)
    other = next(definitions.other_versions(there, here), None)
    return other is not None or definitions.locale(connection) != image.locale


def _refuse_fewer_rows(snapshot: Snapshot, found: ImageTable) -> None:
    if snapshot.parts.subqueries:
        raise ImageConditionRefused(
            f"The condition of {snapshot.key} asks other tables: the site cannot tell "
            "which rows of an image belong to it.",
            snapshot=snapshot.key,
        )
    given = subqueries.parts(found.condition, found.table.qualified)
    if not implies(snapshot.parts.shape, given.shape):
        raise ImageLacksRows(
            f"The image has the rows of {snapshot.master} with {found.condition}; "
            f"{snapshot.key} needs others, too: {snapshot.condition or 'all'}.",
            snapshot=snapshot.key,
        )


def _refuse_other_columns(member: Member, found: ImageTable) -> None:
    """Make sure that the image has the snapshot's own columns, by number and type."""
    snapshot = member.snapshot
    before = rewrites.columns_before(snapshot)
    states = {c.name: c.state for c in found.table.columns if c.name in found.columns}
    lacking = [name for name in snapshot.columns if name not in states]
    if lacking:
        raise ImageColumnsDiffer(
            f"The image lacks {', '.join(lacking)} of {snapshot.master}.",
            snapshot=snapshot.key,
            columns=lacking,
        )
    others = [
        name
        for name in snapshot.columns
        if (before is not None and before[name] != states[name])
        or found.table.column(name).type != member.base.column(name).type
    ]
    if others or snapshot.identity_columns != found.identity:
        raise ImageColumnsDiffer(
            f"{', '.join(others) or 'The key'} of {snapshot.master} is another column, "
            f"or of another type, in the image than in {snapshot.key}.",
            snapshot=snapshot.key,
            columns=others,
        )
