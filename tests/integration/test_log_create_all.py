"""Snapshot logs of all tables of a schema, in one step."""

import pytest

import masters
from sites import Directory, Site
from sites.errors import UnknownTable
from tests.fix_worlds import prepared_once
from tests.linked_table import run


@prepared_once("hq")
def sites(sites: Directory) -> None:
    """One master without tables."""


def test_every_table_that_can_has_a_log(hq: Site) -> None:
    run(
        hq,
        "CREATE TABLE public.plain (id int PRIMARY KEY)",
        "CREATE TABLE public.logged (id int PRIMARY KEY)",
        "CREATE TABLE public.keyless (a int)",
        "CREATE UNLOGGED TABLE public.fleeting (id int PRIMARY KEY)",
        "CREATE TABLE public.parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE public.part PARTITION OF public.parts DEFAULT",
        'CREATE TABLE public."An.Odd ""Name" (id int PRIMARY KEY)',
        "CREATE VIEW public.seen AS SELECT * FROM public.plain",
        "CREATE SCHEMA other",
        "CREATE TABLE other.table_of_it (id int PRIMARY KEY)",
    )
    masters.create_snapshot_log(hq, "logged")
    made = {one.table: one for one in masters.create_snapshot_logs(hq)}
    created = {name for name, one in made.items() if one.created}
    assert created == {"plain", "parts", '"An.Odd ""Name"'}
    refused = {name: str(one.refused)[:7] for name, one in made.items() if one.refused}
    assert refused == {"fleeting": "SNP-105", "keyless": "SNP-104"}
    assert "logged" in made
    assert "part" not in made
    with pytest.raises(UnknownTable, match="no schema 'others'"):
        masters.create_snapshot_logs(hq, "others")
    run(hq, "CREATE SCHEMA others")
    assert masters.create_snapshot_logs(hq, "others") == []
    again = masters.create_snapshot_logs(hq)
    assert not any(one.created for one in again)
    assert {log.table for log in masters.list_snapshot_logs(hq)} == {
        *created,
        "logged",
    }
