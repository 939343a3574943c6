"""Loads the snapshots of a group from an image, without their master.

Each slice is one transaction at the site, with the note that it is in: whatever breaks
a load off, the next call goes on with the slices that are missing. Constraints,
triggers and the user views come last, in the transaction that moves the group to the
image's moment, as at a first load by refresh.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from psycopg import sql
from sqlalchemy import Connection, TableClause, insert, select

from deferred.batches.marker import Marker
from deferred.queues.queue import list_queues
from masters.log import registration
from sites import faults
from sites.conditions import where
from sites.errors import SiteUnreachable
from sites.names import identifier
from sites.progress import Progress
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.sessions.site import Site, autocommit
from sites.tables.users_triggers import silenced
from sites.transfer import transport
from snapshots.creating import base_table
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.refresh_notes import LOAD as LOADING
from snapshots.definitions.refresh_notes import MERGE, Done, Steps
from snapshots.differences.window import LOAD, Member, Window
from snapshots.images import fitting, manifest, slices
from snapshots.images.errors import ImageDamaged, ImageExpired, SliceMissing
from snapshots.images.manifest import ImageTable, Manifest, Slice
from snapshots.images.report import LoadReport
from snapshots.merging import merge, settling
from snapshots.refreshing import first_load
from snapshots.refreshing.refresh import group_of
from snapshots.spark import claims

#: Where the rows of a slice are that is filtered, as long as its transaction lasts.
_SLICE = "snaptide_slice"

_Fitted: TypeAlias = Sequence[tuple[Member, ImageTable]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What is to be loaded, and where from."""

    site: Site
    group: RefreshGroup
    image: Manifest
    folder: Path
    fitted: _Fitted
    progress: Progress | None

    def of(self, member: Member) -> claims.Load:
        """The load of a snapshot's base table."""
        return claims.load_of(member.snapshot.base, str(self.image.id))


def load_image(
    site: Site,
    what: str,
    folder: str | Path,
    *,
    progress: Progress | None = None,
) -> LoadReport:
    """Fill the snapshots of a refresh group from an image of their master.

    They were created, and never refreshed. The master may be away. Rows that do not
    fulfil the condition of a snapshot are left out, so one image serves many sites. The
    group then shows the moment of the image, and users can work; its first refresh
    brings what has changed since.

    If it is broken off, call it again: slices that are in stay in. They may come in any
    order: those that the folder has are loaded before the others are missed.

    Parameters:
        what: a refresh group, or a snapshot of it; all snapshots of the group are
            filled.
        folder: where `make_image` has written the image, or a copy of it.
        progress: is told how many rows of the image have been read.

    Raises:
        UnknownSnapshot: there is no such group or snapshot.
        RefreshRunning: the group is being refreshed, or loaded.
        NotAnImage: the folder has no image that is complete.
        AlreadyLoaded: a snapshot of the group was refreshed or loaded before.
        ImageOfAnotherMaster, ImageExpired: the image cannot be used any more. If the
            master answers, it is asked.
        ImageLacksRows, ImageColumnsDiffer, ImageConditionRefused, DifferentTypes: the
            image does not fit a snapshot.
        ImageDamaged, SliceMissing: files are not what was written, or not there.
        ImageRowsRefused: the site cannot hold a row, as its encoding lacks a character.
        FirstLoadByAnother: the site's user does not own a snapshot's table.
        PositionMoved: another process fills a snapshot, though this one was the only
            one.
        SiteUnreachable, SiteChanged: of the site itself.
    """
    with site.session() as connection, autocommit(connection):
        name = group_of(connection, site.name, what)[0].name
    path = Path(folder)
    image = manifest.read(path)
    steps = Steps()
    with refresh_group.exclusively(site, name) as connection:
        who = identity.confirm(connection, site.name)
        group, _ = group_of(connection, site.name, name)
        members = snapshot.members(connection, name)
        fitted = fitting.fit(connection, group, members, image)
        kept = _ask_master(site, who.site_id, group, fitted, image)
        load = _Load(
            site=site,
            group=group,
            image=image,
            folder=path,
            fitted=fitted,
            progress=progress,
        )
        steps.begin(LOADING)
        done = _slices(load)
        steps.begin(MERGE)
        rows = _finish(load, steps)
    return LoadReport(
        site=site.name,
        group=name,
        image=image.name,
        rows=rows,
        slices=done,
        position=image.position,
        taken_at=image.taken_at,
        kept=kept,
    )


def _ask_master(
    site: Site,
    site_id: uuid.UUID,
    group: RefreshGroup,
    fitted: _Fitted,
    image: Manifest,
) -> bool:
    """Have the master keep its logs for the snapshots, if it answers.

    Returns:
        Whether it does.

    Raises:
        ImageOfAnotherMaster, ImageExpired: it knows that the image cannot be used.
    """
    tables = {member.snapshot.key: member.snapshot.master for member, _ in fitted}
    try:
        with site.peer(group.master).transaction() as connection:
            them = identity.confirm(connection, group.master, partner=True)
            if them.incarnation != image.master.incarnation:
                fitting.refuse_repaired(group, image)
            kept = registration.take_over(
                connection, site_id, tables, image.id, image.position
            )
            begun = [m.snapshot.key for m, _ in fitted if m.snapshot.image == image.id]
            # It keeps them for the snapshots since they were taken over.
            kept |= registration.registered(connection, site_id, begun).keys()
            if kept != tables.keys():
                raise ImageExpired(
                    f"{group.master} no longer keeps its logs for image {image.name}.",
                    image=image.name,
                )
    except SiteUnreachable:
        return False
    return True


def _slices(load: _Load) -> int:
    """Load the slices that are not in yet; return how many there were.

    Raises:
        ImageDamaged, SliceMissing.
    """
    done = _begin(load)
    every = [
        (member, found, one)
        for member, found in load.fitted
        for one in found.slices
        if one.number not in done[member.snapshot.key]
    ]
    total = sum(found.rows for _, found in load.fitted)
    read = total - sum(one.rows for _, _, one in every)
    missing = manifest.missing(load.folder, [one for _, _, one in every])
    here = [one for one in every if one[2].file not in missing]
    loaded = 0
    with ThreadPoolExecutor(slices.AT_ONCE, thread_name_prefix="slice") as pool:
        for (_, _, one), was_new in zip(
            here, pool.map(lambda one: _load_slice(load, *one), here), strict=True
        ):
            loaded += was_new
            read += one.rows
            if load.progress is not None:
                load.progress(read, total, "rows")
    if missing:
        raise SliceMissing(
            f"{load.folder} lacks {', '.join(missing[:5])}"
            f"{' and others' if len(missing) > 5 else ''}.",
            files=missing,
        )
    return loaded


def _begin(load: _Load) -> dict[str, Mapping[int, int]]:
    """Empty base tables that another load has begun to fill.

    Returns:
        By snapshot, the slices that an earlier load of this image has written.
    """
    done: dict[str, Mapping[int, int]] = {}
    with load.site.transaction() as connection:
        for member, _ in load.fitted:
            mine = load.of(member)
            if member.snapshot.image != load.image.id:
                first_load.begin(connection, member.snapshot, mine, load.image.id)
            done[member.snapshot.key] = claims.done(connection, mine)
    return done


def _load_slice(load: _Load, member: Member, found: ImageTable, one: Slice) -> bool:
    """Write a slice, unless it is in; False if it is.

    Raises:
        ImageDamaged: it is not what was written.
        ImageRowsRefused: the site cannot hold one of its rows.
        PositionMoved: another process fills the table.
    """
    faults.point("image_load.before_slice")
    mine = load.of(member)
    with load.site.transaction() as connection:
        if not claims.is_open(connection, mine):
            raise first_load.superseded(member.snapshot)
        if not claims.claims(connection, mine, one.number):
            return False
        with (
            slices.opened(load.folder, one) as pieces,
            silenced(connection, [member.base.qualified]),
        ):
            if _is_all(member, found):
                read = written = transport.copy_pieces(
                    connection, member.base.sql(), found.columns, pieces
                )
            else:
                within = _slice_table(connection, member, found)
                read = transport.copy_pieces(connection, within, found.columns, pieces)
                written = _take(connection, member, within)
        if read != one.rows:
            raise ImageDamaged(
                f"{one.file} has {read} rows, not {one.rows}.", file=one.file
            )
        claims.note(connection, mine, one.number, written)
        faults.point("image_load.before_commit")
    faults.point("image_load.after_slice")
    return True


def _is_all(member: Member, found: ImageTable) -> bool:
    """Whether the snapshot has all columns and all rows of the image."""
    same = member.snapshot.condition == found.condition
    return same and {*member.carried} == {*found.columns}


def _slice_table(
    connection: Connection, member: Member, found: ImageTable
) -> TableClause:
    """A temporary table for the rows of a slice, of which the snapshot takes some.

    Columns that the snapshot does not have may have types that the site lacks.
    """
    others = [name for name in found.columns if name not in member.base.names]
    columns = [sql.SQL(", {} text").format(sql.Identifier(name)) for name in others]
    raw(connection).execute(
        sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {}{}) ON COMMIT DROP").format(
            sql.Identifier(_SLICE),
            identifier(member.base.qualified),
            sql.Composed(columns),
        )
    )
    return replace(member.base, schema="pg_temp", name=_SLICE).sql()


def _take(connection: Connection, member: Member, within: TableClause) -> int:
    """Write those rows of a slice that belong to the snapshot; return how many."""
    rows = within.alias(member.snapshot.master_table)
    chosen = select(*(rows.c[name] for name in member.carried)).where(
        where.clause(member.snapshot.condition)
    )
    base = member.base.sql()
    added = insert(base).from_select([*member.carried], chosen)
    return connection.execute(added).rowcount


def _finish(load: _Load, steps: Steps) -> dict[str, int]:
    """Bring the group to the moment of the image; return the rows of each snapshot."""
    faults.point("image_load.before_finish")
    members = [member for member, _ in load.fitted]
    rows: dict[str, int] = {}
    with load.site.transaction() as connection:
        for member, found in load.fitted:
            rows[member.snapshot.key] = _end(load, connection, member, found)
        merge.prepare(connection, load.group)
        for member, found in load.fitted:
            definition = fitting.definition(found, member.snapshot, load.image)
            first_load.finish(connection, member, definition, load.group.master)
        settling.settle(
            connection,
            load.group,
            _window(load, members),
            dict.fromkeys(rows, LOAD),
            {},
            {one.snapshot: one for one in list_queues(connection)},
            Done(
                steps=steps.seconds,
                methods=[LOAD] * len(members),
                inserted=sum(rows.values()),
            ),
        )
        refresh_group.date(connection, load.group.name, load.image.taken_at)
        faults.point("image_load.before_finish_commit")
    base_table.link(load.site, members)
    return rows


def _end(load: _Load, connection: Connection, member: Member, found: ImageTable) -> int:
    """End the load of a snapshot, and lock its table; return how many rows it brought.

    Raises:
        PositionMoved: the table does not have all slices, because another process has
            emptied it.
    """
    mine = load.of(member)
    done = claims.done(connection, mine)
    first_load.claim(connection, member, mine)
    if len(done) < len(found.slices):
        raise first_load.superseded(member.snapshot)
    return sum(done.values())


def _window(load: _Load, members: Sequence[Member]) -> Window:
    """The moment of the image, of which no call of the site can be a part."""
    return Window(
        position=load.image.position,
        since=None,
        master=load.image.master,
        marker=Marker(),
        lost=False,
        members=tuple(members),
    )
