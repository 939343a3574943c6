"""What a master has for other sites: what it publishes to whom, and its images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import func, select

from masters.catalog import (
    image,
    publication,
    publication_grant,
    publication_table,
    registered_snapshot,
)
from sites import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantStatus:
    """A site that may read a publication."""

    site: str
    login: str
    parameters: Mapping[str, str]
    granted_at: datetime
    #: its pushes may change the rows that it reads
    updatable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationStatus:
    """A publication of the site, as a master (`masters.publications`)."""

    name: str
    tables: tuple[str, ...]
    grants: tuple[GrantStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStatus:
    """An image that the site keeps its snapshot logs for, as a master."""

    name: str
    tables: tuple[str, ...]
    #: when its last slice was written; None if it is being made, or that was broken off
    made_at: datetime | None
    #: the next purge after that forgets it, and keeps no logs for it
    expires_at: datetime
    #: the logs keep what has changed since
    logs_since: datetime | None


def of_publications() -> sa.Select[Any]:
    """The publications of a site, and their tables as pairs of names."""
    at, has = publication.c, publication_table.c
    pair = func.json_build_array(has.table_schema, has.table_name)
    tables = select(func.json_agg(pair)).where(has.publication_id == at.id)
    return select(at.name, tables.scalar_subquery().label("tables")).order_by(at.name)


def of_grants() -> sa.Select[Any]:
    """The grants of all publications of a site."""
    at = publication_grant.c
    return (
        select(
            publication.c.name.label("publication"),
            *(at.site_name, at.login, at.parameters, at.granted_at, at.updatable),
        )
        .join(publication, publication.c.id == at.publication_id)
        .order_by(at.site_name)
    )


def of_images() -> sa.Select[Any]:
    """The images that a site keeps its logs for."""
    at, known = image.c, registered_snapshot.c
    kept = select(func.json_agg(known.snapshot)).where(known.site_id == at.id)
    since = select(func.min(known.refreshed_at)).where(known.site_id == at.id)
    return select(
        *(at.name, at.made_at, at.expires_at),
        kept.scalar_subquery().label("tables"),
        since.scalar_subquery().label("logs_since"),
    ).order_by(at.name)


def publications(
    found: Sequence[Any], granted: Sequence[Any]
) -> Iterator[PublicationStatus]:
    """Publications and their grants, from rows of `of_publications`, `of_grants`."""
    for row in found:
        yield PublicationStatus(
            name=row.name,
            tables=tuple(sorted(str(QualifiedName(*one)) for one in row.tables or ())),
            grants=tuple(
                GrantStatus(
                    site=one.site_name,
                    login=one.login,
                    parameters=dict(sorted(one.parameters.items())),
                    granted_at=one.granted_at,
                    updatable=one.updatable,
                )
                for one in granted
                if one.publication == row.name
            ),
        )


def images(found: Sequence[Any]) -> Iterator[ImageStatus]:
    """Images, from rows of `of_images`."""
    for row in found:
        yield ImageStatus(
            name=row.name,
            tables=tuple(sorted(row.tables or ())),
            made_at=row.made_at,
            expires_at=row.expires_at,
            logs_since=row.logs_since,
        )
