"""Which failures are the data's, and which the system's."""

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate

DATA = """
    22003 22P02 23502 23503 23505 23514 23P01 44000 54000 P0001 P0002 ZX001 21000
"""
SYSTEM = """
    08006 0A000 25006 25P02 40001 40P01 42501 42703 42P01 53100 55P03 55006 57014
    57P01 58030 XX000
"""


def raised(state: str, text: str = "", *, invalidated: bool = False) -> DBAPIError:
    cause = psycopg.Error(text)
    cause.sqlstate = state or None
    return DBAPIError("UPDATE", {}, cause, connection_invalidated=invalidated)


@pytest.mark.parametrize("state", DATA.split())
def test_data_is_parked(state: str) -> None:
    assert sqlstate.caused_by_data(raised(state))


@pytest.mark.parametrize("state", ["", *SYSTEM.split()])
def test_system_leaves_the_batch(state: str) -> None:
    assert not sqlstate.caused_by_data(raised(state))


def test_broken_connection_is_the_systems_whatever_it_said() -> None:
    assert not sqlstate.caused_by_data(raised("23505", invalidated=True))


def test_error_without_a_state_is_of_the_connection() -> None:
    assert sqlstate.of(raised("")) == "08000"


def test_message_is_the_databases_own() -> None:
    assert sqlstate.message(raised("22000", " what it said \n")) == "what it said"
    plain = DBAPIError("", {}, errors.UniqueViolation("taken"))
    assert sqlstate.message(plain) == "taken"
