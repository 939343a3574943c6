"""Where a database is: a connection URL as drivers, messages and libpq have it."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from sqlalchemy import URL, make_url

from sites.errors import UnsupportedDatabase
from sites.sessions.settings import libpq_options


def driver_url(url: str | URL) -> URL:
    """The URL with the driver that Snaptide uses.

    Raises:
        UnsupportedDatabase: it is not one of PostgreSQL.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise UnsupportedDatabase(
            f"Snaptide does not support {parsed.get_backend_name()}."
        )
    return parsed.set(drivername="postgresql+psycopg")


def shown(url: URL) -> str:
    """Host, port and database, for messages."""
    where = _parameters(url)
    host = where.get("host", "localhost")
    named = f"[{host}]" if _is_ipv6(host) else host
    return f"{named}:{where.get('port', 5432)}/{url.database}"


def libpq_uri(url: URL) -> str:
    """A URI with password and our settings, for drivers outside the pool."""
    where = _parameters(url)
    user = quote(where.pop("user", ""), safe="")
    secret = ":" + quote(where.pop("password"), safe="") if url.password else ""
    login = f"{user}{secret}@" if user or secret else ""
    # As a parameter, an IPv6 address, a socket directory, several hosts or no host
    # mean the same as they do for the pool.
    query = {**where, "options": libpq_options()}
    return f"postgresql://{login}/?{urlencode(query, quote_via=quote)}"


def without_password(url: URL, error: BaseException | None) -> str:
    """What an error says, in one line and without the password of the URL."""
    text = " ".join(str(error).split())
    return text.replace(url.password, "***") if url.password else text


def _parameters(url: URL) -> dict[str, str]:
    """The libpq parameters that the URL stands for."""
    _, found = url.get_dialect()().create_connect_args(url)
    # SQLAlchemy adds objects for the driver, which libpq does not know.
    return {k: str(v) for k, v in found.items() if isinstance(v, str | int)}


def _is_ipv6(host: str) -> bool:
    return ":" in host and "," not in host
