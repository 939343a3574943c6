"""A row that row-level security refuses is told from a right that is missing."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import ProgrammingError

from deferred import sqlstate
from sites import Directory, Site
from tests.linked_table import run

NAME = '"row-level security"'


@pytest.mark.parametrize(
    ("statement", "of_a_row"),
    [
        ("INSERT INTO public.{} VALUES (2)", True),
        ("UPDATE public.{} SET id = 2", True),
        ("DELETE FROM public.{}", False),
    ],
)
def test_row_is_the_data_s_and_right_is_not(
    sites: Directory, statement: str, of_a_row: bool
) -> None:
    """By nothing that depends on the language of the server, or on names."""
    hq = sites["hq"]
    run(
        hq,
        f"CREATE TABLE public.{NAME} (id int PRIMARY KEY)",
        f"INSERT INTO public.{NAME} VALUES (1)",
        f"ALTER TABLE public.{NAME} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY one ON public.{NAME} USING (id = 1)",
        f"GRANT SELECT, INSERT, UPDATE ON public.{NAME} TO snaptide_apply",
        "GRANT USAGE ON SCHEMA public TO snaptide_apply",
    )
    with hq.session() as connection:
        connection.exec_driver_sql("SET ROLE snaptide_apply")
        with pytest.raises(ProgrammingError) as refused:
            connection.exec_driver_sql(statement.format(NAME))
    assert sqlstate.of(refused.value) == "42501"
    assert sqlstate.caused_by_data(refused.value) is of_a_row


@pytest.mark.parametrize(
    ("call", "of_a_row"), [("public.refuse()", True), ("snaptide.granted(1)", False)]
)
def test_a_trigger_of_users_refuses_a_row_and_ours_a_login(
    hq: Site, call: str, of_a_row: bool
) -> None:
    run(
        hq,
        "CREATE FUNCTION public.refuse() RETURNS void LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE insufficient_privilege; END $$",
    )
    with hq.session() as connection, pytest.raises(ProgrammingError) as refused:
        connection.exec_driver_sql(f"SELECT {call}")
    assert sqlstate.of(refused.value) == "42501"
    assert sqlstate.caused_by_data(refused.value) is of_a_row
