"""Whether a login is fit to be a site's: it has no right that a grant does not give."""

from __future__ import annotations

from sqlalchemy import Connection, select, text

from masters.catalog import publication_grant
from masters.publications import sql
from masters.publications.errors import LoginUnfit


def refuse_unfit(
    connection: Connection, login: str, site: str, *, updatable: bool
) -> None:
    """Refuse a login that could do more than a site may.

    What is granted to PUBLIC counts, because the login has it too.

    Parameters:
        updatable: a grant lets it push, for which it needs temporary tables.

    Raises:
        LoginUnfit: the login is not there, may do more, or is another site's.
    """
    at = publication_grant.c
    others = select(at.site_name).where(at.login == login, at.site_name != site)
    other = connection.scalar(others.limit(1))
    if other is not None:
        raise LoginUnfit(f"{login} is the login of {other}.", login=login)
    asked = {"login": login, "updatable": updatable}
    found = connection.scalars(text(sql.load("rights")), asked).all()
    if found:
        raise LoginUnfit(f"{login}: {'; '.join(found)}.", login=login)
