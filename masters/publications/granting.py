"""Grants: which site may read which publication, for which values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection, func, select, text
from sqlalchemy.dialects.postgresql import insert

from masters.catalog import publication_grant
from masters.publications import bound, policies, publication, publishable, sql
from masters.publications.errors import (
    CannotPublish,
    LoginUnfit,
    UnknownGrant,
    WrongParameters,
)
from masters.publications.publication import Grant, Publication
from sites import QualifiedName, Site, names
from sites.sessions import identity
from sites.tables import locks

_at = publication_grant.c


def grant(
    master: Site,
    publication_name: str,
    site: str,
    *,
    login: str | None = None,
    parameters: Mapping[str, str] | None = None,
    updatable: bool = False,
) -> Grant:
    """Let a site read a publication, for some values (Virtuoso: REPL_GRANT).

    The master binds the values to the login: whatever it asks, it sees rows with these
    values and no others, and changes no others. Its snapshots need no conditions.
    A grant that is given again takes the place of the one before, and the site's next
    refresh compares all rows.

    Parameters:
        master: as the user who owns the tables.
        publication_name: of the publication.
        site: the name of the site.
        login: the role as which the site connects to the master, by default of the
            site's name. It exists, and has no rights.
        parameters: a value, as text, for each parameter of the publication.
        updatable: the site may push changes of these rows. A row has to be one of them
            before the change and after it, or the transaction is parked. The login may
            create temporary tables then.

    Raises:
        UnknownPublication: the master has none of that name.
        LoginUnfit: the login may do more than what is granted, or is another site's.
        CannotPublish: no site can have that name; or it is to push, and changes of a
            table would reach other rows, too.
        WrongParameters: a value is missing, is too many, or does not fit.
    """
    given = dict(parameters or {})
    role = login or site
    if not re.fullmatch(names.SITE, site):
        raise CannotPublish(
            f"{site!r} cannot be the name of a site: that has letters, digits, _ and - "
            "only, and does not begin with -."
        )
    for attempt in locks.patiently():
        with attempt, identity.confirmed(master) as connection:
            locks.briefly(connection)
            publication.alone(connection)
            row = publication.find(connection, master, publication_name)
            pushes = updatable or _pushes(connection, role, but=row.id)
            _refuse_unfit(connection, role, site, updatable=bool(pushes))
            shown = publication.described(connection, row)
            _refuse_other(shown, given)
            former = _close(connection, shown, row.id, site)
            _store(connection, row.id, site, role, given, updatable=updatable)
            [made] = [
                g for g in publication.grants_of(connection, row.id) if g.site == site
            ]
            bound.bind_ours(connection)
            _open_ours(connection, role)
            publication.let_read(connection, row.id, made)
            if former is not None and former != role:
                _open_ours(connection, former)
    return made


def revoke(master: Site, publication_name: str, site: str) -> None:
    """Let a site read a publication no more (Virtuoso: REPL_REVOKE).

    Its next refresh is refused, with `NotGranted`, and has the rows of its snapshots
    leave, as their policies say. The rights on tables are gone first, in a transaction
    of their own: the login could keep tables of ours locked, from which its
    registration is removed, too.

    Raises:
        UnknownPublication: the master has none of that name.
        UnknownGrant: it is not granted to the site.
    """
    login, tables = None, list[QualifiedName]()
    for attempt in locks.patiently():
        with attempt, identity.confirmed(master) as connection:
            locks.briefly(connection)
            publication.alone(connection)
            row = publication.find(connection, master, publication_name)
            shown = publication.described(connection, row)
            login = _close(connection, shown, row.id, site)
            if login is None:
                raise UnknownGrant(
                    f"{publication_name} is not granted to {site}.",
                    publication=publication_name,
                )
            tables = [names.parse(one.table) for one in shown.tables]
    for attempt in locks.patiently():
        with attempt, identity.confirmed(master) as connection:
            locks.briefly(connection)
            publication.alone(connection)
            for table in tables:
                publication.compare_all(connection, site, table)
            _open_ours(connection, str(login))


def _store(
    connection: Connection,
    publication_id: int,
    site: str,
    login: str,
    parameters: Mapping[str, str],
    *,
    updatable: bool,
) -> None:
    connection.execute(
        insert(publication_grant).values(
            publication_id=publication_id,
            site_name=site,
            login=login,
            parameters=dict(parameters),
            updatable=updatable,
        )
    )


def _close(
    connection: Connection, shown: Publication, publication_id: int, site: str
) -> str | None:
    """Take away what a grant gave of tables and logs; its login, if there was one."""
    gone = (
        sa.delete(publication_grant)
        .where(_at.publication_id == publication_id, _at.site_name == site)
        .returning(_at.login)
    )
    login = connection.scalar(gone)
    if login is None:
        return None
    for one in shown.tables:
        there = publishable.existing(connection, names.parse(one.table))
        bound.run(connection, policies.closing(there, login))
    return str(login)


def _open_ours(connection: Connection, login: str) -> None:
    """Let a login do with tables of ours what its grants need, and nothing else."""
    bound.run(connection, policies.closing_ours(login))
    pushes = _pushes(connection, login)
    if pushes is not None:
        opened = policies.opening_ours(login, updatable=pushes)
        bound.run(connection, opened)


def _pushes(connection: Connection, login: str, but: int = 0) -> bool | None:
    """Whether a grant lets a login push; None if nothing is granted to it.

    Parameters:
        but: the id of a publication whose grants do not count.
    """
    its = select(func.bool_or(_at.updatable))
    found: bool | None = connection.scalar(
        its.where(_at.login == login, _at.publication_id != but)
    )
    return found


def _refuse_other(shown: Publication, given: Mapping[str, str]) -> None:
    wanted = {*shown.parameters}
    if missing := wanted - given.keys():
        raise WrongParameters(
            f"{shown.name} needs values for {', '.join(sorted(missing))}.",
            missing=sorted(missing),
        )
    if surplus := given.keys() - wanted:
        raise WrongParameters(
            f"{shown.name} has no parameter {', '.join(sorted(surplus))}.",
            surplus=sorted(surplus),
        )


def _refuse_unfit(
    connection: Connection, login: str, site: str, *, updatable: bool
) -> None:
    """Refuse a login that could do more than a site may.

    What is granted to PUBLIC counts, because the login has it too.

    Parameters:
        updatable: a grant lets it push, for which it needs temporary tables.

    Raises:
        LoginUnfit: the login is not there, may do more, or is another site's.
    """
    others = select(_at.site_name).where(_at.login == login, _at.site_name != site)
    other = connection.scalar(others.limit(1))
    if other is not None:
        raise LoginUnfit(f"{login} is the login of {other}.", login=login)
    asked = {"login": login, "updatable": updatable}
    found = connection.scalars(text(sql.load("rights")), asked).all()
    if found:
        raise LoginUnfit(f"{login}: {'; '.join(found)}.", login=login)
