"""Images of a master's tables, registered so that the logs keep what came after them.

An image (`snapshots.images`) is a folder of files. While it is registered, the logs
keep all changes since its moment, as they do for a site that has not refreshed since: a
snapshot that is loaded from it has only these to catch up with.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from masters.catalog import image, registered_snapshot
from masters.errors import ImageNameTaken, UnknownImage
from masters.log import registration
from sites import QualifiedName, Site
from sites.capture import position
from sites.sessions import identity
from sites.transfer import encodings

_at = registered_snapshot.c


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredImage:
    """An image that a master keeps its logs for."""

    name: str
    id: uuid.UUID
    tables: tuple[str, ...]
    began_at: datetime
    #: when its last slice was written; None if it is being made, or that was broken off
    made_at: datetime | None
    expires_at: datetime


def register(
    connection: Connection,
    image_id: uuid.UUID,
    name: str,
    tables: Sequence[QualifiedName],
    expires: timedelta,
) -> datetime:
    """Have the logs of tables keep all that changes from now on.

    The caller commits it before it reads the first row. Writes `image` and
    `registered_snapshot`.

    Parameters:
        expires: how long, from now.

    Returns:
        When it expires.

    Raises:
        ImageNameTaken: there is another image of that name, or there can be none.
        NoSnapshotLog: the log of a table was dropped.
    """
    if not encodings.holds(name, encodings.codec(connection)):
        raise ImageNameTaken(
            f"No image can be called {name!r}: the encoding of the master's database "
            "lacks characters of it.",
            image=name,
        )
    made = (
        insert(image)
        .values(id=image_id, name=name, expires_at=func.now() + expires)
        .on_conflict_do_nothing(index_elements=[image.c.name])
        .returning(image.c.expires_at)
    )
    expires_at: datetime | None = connection.scalar(made)
    if expires_at is None:
        raise ImageNameTaken(f"There is an image called {name} already.", image=name)
    registration.keep_logs(connection, tables)
    for table in tables:
        registration.register(
            connection,
            site_id=image_id,
            site_name=f"image {name}",
            snapshot=str(table),
            table=table,
            parents=(),
            updatable=False,
        )
    here = position.current(connection)
    registration.advance(connection, image_id, [*map(str, tables)], here)
    return expires_at


def finish(connection: Connection, image_id: uuid.UUID, here: str) -> None:
    """Note that an image is complete, and the moment of its rows.

    Raises:
        UnknownImage: it was dropped, or has expired, while it was made.
    """
    done = sa.update(image).where(image.c.id == image_id).values(made_at=func.now())
    if not connection.execute(done).rowcount:
        raise UnknownImage("The image was dropped while it was made.")
    tables = connection.scalars(select(_at.snapshot).where(_at.site_id == image_id))
    registration.advance(connection, image_id, tables.all(), here)


def forget(connection: Connection, image_id: uuid.UUID) -> None:
    """Keep nothing for an image any more. Writes `image` and `registered_snapshot`."""
    _forget(connection, image.c.id == image_id)


def forget_expired(connection: Connection) -> None:
    """The same for all images that have expired."""
    _forget(connection, image.c.expires_at < func.now())


def forget_all(connection: Connection) -> None:
    """The same for all images: they belong to another state of the master."""
    _forget(connection, sa.true())


def _forget(connection: Connection, which: sa.ColumnElement[bool]) -> list[str]:
    gone = sa.delete(image).where(which).returning(image.c.id, image.c.name)
    found = connection.execute(gone).all()
    ids = [one.id for one in found]
    connection.execute(sa.delete(registered_snapshot).where(_at.site_id.in_(ids)))
    return [one.name for one in found]


def list_images(master: Site) -> list[RegisteredImage]:
    """The images that a master keeps its logs for.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    tables = func.array_agg(_at.snapshot.op("ORDER BY")(_at.snapshot))
    wanted = (
        select(image, tables.label("tables"))
        .join(registered_snapshot, _at.site_id == image.c.id)
        .group_by(image.c.id)
        .order_by(image.c.name)
    )
    with identity.initialised(master) as connection:
        rows = connection.execute(wanted).all()
    return [
        RegisteredImage(
            name=row.name,
            id=row.id,
            tables=tuple(row.tables),
            began_at=row.began_at,
            made_at=row.made_at,
            expires_at=row.expires_at,
        )
        for row in rows
    ]


def drop_image(master: Site, name: str) -> None:
    """Let the logs of a master go on without an image; its files stay where they are.

    A snapshot that was loaded from it and not refreshed since is compared in full by
    its next refresh.

    Raises:
        UnknownImage: the master keeps its logs for no image of that name.
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    with identity.initialised(master) as connection:
        if not _forget(connection, image.c.name == name):
            raise UnknownImage(
                f"{master.name} keeps its logs for no image called {name}.", image=name
            )
