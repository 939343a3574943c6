"""Which types have all values of another, printed alike, and further ones."""

import pytest

from sites.tables import lossy

WIDER = [
    ("smallint", "integer"),
    ("smallint", "bigint"),
    ("integer", "bigint"),
    ("character varying(5)", "character varying(6)"),
    ("character varying(5)", "character varying"),
    ("character varying(5)", "text"),
    ("character varying(5)[]", "character varying(6)[]"),
    ("numeric(8,2)", "numeric(9,2)"),
    ("numeric(8,2)", "numeric"),
    ("bit varying(3)", "bit varying(4)"),
    ("timestamp(3) without time zone", "timestamp(6) without time zone"),
    ("time(3) with time zone", "time with time zone"),
]
#: Neither is wider: a value could be lost, or would be printed otherwise.
OTHER = [
    ("integer", "integer"),
    ("integer", "numeric"),
    ("real", "double precision"),
    ("numeric(8,2)", "numeric(8,3)"),
    ("numeric(8,2)", "numeric(9,3)"),
    ("numeric(8,2)", "numeric(10,1)"),
    ("character(5)", "character(6)"),
    ("bit(3)", "bit(4)"),
    ("text", "bytea"),
    ("character varying(5)", "character varying(6)[]"),
    ("date", "timestamp without time zone"),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_wider(narrow: str, wide: str) -> None:
    assert lossy.widens(wide, narrow)
    assert not lossy.widens(narrow, wide)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_no_wider(one: str, other: str) -> None:
    assert not lossy.widens(one, other)
    assert not lossy.widens(other, one)
