"""The URI of a site for drivers outside the pool leads where the pool goes."""

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine, make_url

from sites import Directory
from sites.sessions.settings import libpq_options

URLS = [
    "postgresql://app:p%40%2F%3A%25@db.example.com/hq",
    "postgresql://app@db.example.com:5433/hq?sslmode=verify-full&sslrootcert=/a%20b",
    "postgresql://app:x@[::1]:5433/hq",
    "postgresql:///hq",
    "postgresql://app@/hq?host=/var/run/postgresql&port=5433",
    "postgresql://app:x@/hq?host=one:5433&host=two:5434&target_session_attrs=read-write",
    "postgresql://us%40er@h/Ünicode%20db",
    "postgresql://?service=hq",
]


@pytest.mark.parametrize("url", URLS)
def test_drivers_outside_the_pool_go_where_it_goes(url: str) -> None:
    site = Directory({"hq": url})["hq"]
    found = conninfo_to_dict(site.libpq_uri())
    assert found == {**_as_a_pool_has_it(site.url), "options": libpq_options()}
    # A task on a machine of the cluster makes an engine of it again.
    again = make_url(site.libpq_uri()).set(drivername="postgresql+psycopg")
    assert _as_a_pool_has_it(again) == found


def _as_a_pool_has_it(url: URL) -> dict[str, str]:
    _, found = create_engine(url).dialect.create_connect_args(url)
    found.pop("context")  # the driver's own
    return {name: str(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://db.example.com/hq", "db.example.com:5432/hq"),
        ("postgresql://[::1]:5433/hq", "[::1]:5433/hq"),
        ("postgresql:///hq", "localhost:5432/hq"),
        ("postgresql:///hq?host=/run/pg", "/run/pg:5432/hq"),
    ],
)
def test_messages_say_where_that_is(url: str, address: str) -> None:
    assert Directory({"hq": url})["hq"].address == address
