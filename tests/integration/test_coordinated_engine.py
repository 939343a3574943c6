"""Which engines an application may have coordinated, and within which limits."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

import synchronous
from sites import Directory
from sites.errors import SiteChanged
from synchronous.errors import NotCoordinated, NoTransaction
from tests.linked_table import link, rows


def test_an_engine_to_another_site_is_refused(sites: Directory) -> None:
    """Its decisions would stand where nobody asks for them."""
    engine = create_engine(sites["hq"].url.set(drivername="postgresql+psycopg"))
    with pytest.raises(SiteChanged, match="hq"):
        synchronous.coordinate(engine, sites["jfk"])
    engine.dispose()


def test_an_engine_of_another_driver_is_refused(sites: Directory) -> None:
    with pytest.raises(NotCoordinated, match="sqlite"):
        synchronous.coordinate(create_engine("sqlite://"), sites["jfk"])


@pytest.fixture
def engine(sites: Directory) -> Iterator[Engine]:
    """An application's own, to the site."""
    link(sites, "orders", "id int PRIMARY KEY, qty int")
    made = create_engine(sites["jfk"].url.set(drivername="postgresql+psycopg"))
    synchronous.coordinate(made, sites["jfk"])
    yield made
    made.dispose()


INSERT = text("INSERT INTO orders VALUES (1, 1)")


def in_autocommit_mode(engine: Engine) -> None:
    with engine.execution_options(isolation_level="AUTOCOMMIT").begin() as connection:
        connection.execute(INSERT)


def in_two_phases(engine: Engine) -> None:
    with Session(engine, twophase=True) as session:
        session.execute(INSERT)


@pytest.mark.parametrize("work", [in_autocommit_mode, in_two_phases])
def test_what_is_no_transaction_of_ours_changes_nothing(
    sites: Directory, engine: Engine, work: Any
) -> None:
    with pytest.raises(NoTransaction):
        work(engine)
    assert rows(sites["jfk"]) == rows(sites["hq"]) == []
    with engine.begin() as connection:
        connection.execute(INSERT)
    assert rows(sites["jfk"]) == rows(sites["hq"]) == [(1, 1)]


@pytest.mark.parametrize("limit", ["timeout", "lock_timeout", "idle_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, 0.0001, float("inf"), float("nan")])
def test_no_limit_is_for_ever(sites: Directory, limit: str, seconds: float) -> None:
    """A deadlock between sites would never end, nor a wait for a lost master."""
    limits: dict[str, Any] = {limit: seconds}
    with pytest.raises(ValueError, match=limit):
        synchronous.begin(sites["jfk"], **limits).__enter__()
    with pytest.raises(ValueError, match=limit):
        synchronous.coordinate(create_engine("sqlite://"), sites["jfk"], **limits)
