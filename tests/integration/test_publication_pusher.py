"""A site that may push, and uses the login of its grant for statements of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import deferred
import masters
from sites import Directory, Site
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import (
    Session,
    execute,
    login,
    not_empty,
    not_refused,
    session_of,
    stores,
)
from tests.linked_table import run

#: The ids of the sites: that of store 3, that of another, and one that is nobody's.
MINE = "00000000-0000-0000-0000-000000000003"
THEIRS = "00000000-0000-0000-0000-000000000004"
NOBODYS = "00000000-0000-0000-0000-000000000009"

_PARKED = (
    "INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,"
    " origin_user, batch_no, order_no, reason, error_code, error_message{more})"
    " VALUES ('{id}', '{origin}', '1', 'u', 7, 7, '{reason}', 'x', 'x'{values})"
)


def _parked(
    id_: str = MINE,
    origin: str = "jfk",
    reason: str = "error",
    more: str = "",
    values: str = "",
) -> str:
    return _PARKED.format(
        id=id_, origin=origin, reason=reason, more=more, values=values
    )


def _typed(type_: str) -> str:
    """A parked transaction, and what it says is the type of a column."""
    return _parked(
        more=", target_columns",
        values=", jsonb_build_object('sale', jsonb_build_object('oid',"
        " CAST('public.sale'::regclass AS oid), 'numbers', '{{}}'::jsonb,"
        f" 'types', jsonb_build_object('id', '{type_}')))",
    )


_CALL = (
    "INSERT INTO snaptide.error_call (error_id, call_no, target_schema, target_table,"
    " kind, identity_columns, old_values, new_values) "
)
_RECORD = (
    "INSERT INTO snaptide.resolution_record (table_schema, table_name, row_key, origin,"
    " origin_transaction, kind, reference, sequence_no, method, decision)"
    " VALUES ('public', '{}', '{{{{}}}}', '{}', '1', 'update', 'g', 1, 'm', 'd')"
)
_BATCH = (
    "INSERT INTO snaptide.push_batch (origin_id, number, id, orders, started,"
    " transactions, origins) VALUES ('{}', 7, gen_random_uuid(), '{{{{1}}}}',"
    " '{{{{now}}}}', '{{{{9}}}}', {})"
)

#: Statements that are to be refused.
REFUSED = {
    "a row of another": "INSERT INTO public.sale (id, store_id) VALUES (50, 4)",
    "a row of nobody": "INSERT INTO public.sale (id, store_id) VALUES (50, 7)",
    "a row that leaves": "UPDATE public.sale SET store_id = 4 WHERE id = 2",
    "all rows that leave": "UPDATE public.sale SET store_id = store_id + 1",
    "a row that leaves by MERGE": (
        "MERGE INTO public.sale s USING (VALUES (2)) v (id) ON s.id = v.id"
        " WHEN MATCHED THEN UPDATE SET store_id = 4"
    ),
    "a row taken by its key": (
        "INSERT INTO public.sale (id, store_id) VALUES (3, 3)"
        " ON CONFLICT (id) DO UPDATE SET store_id = 3"
    ),
    "a column that is not granted": "UPDATE public.sale SET cost = 0 WHERE id = 2",
    "a new row with it": (
        "INSERT INTO public.sale (id, store_id, cost) VALUES (50, 3, 1)"
    ),
    "a condition on it": "DELETE FROM public.sale WHERE cost > 1",
    "a row by COPY": "COPY public.sale (id, store_id) FROM STDIN",
    "TRUNCATE": "TRUNCATE public.sale",
    "no security": "ALTER TABLE public.sale DISABLE ROW LEVEL SECURITY",
    "no security in the session": (
        "SET row_security = off; UPDATE public.sale SET what = 'mine'"
    ),
    "a table that is not published": "DELETE FROM public.salary",
    "a marker of another": (
        "INSERT INTO snaptide.push_marker (origin_id, origin)"
        f" VALUES ('{NOBODYS}', 'jfk')"
    ),
    "its marker as another": (
        f"INSERT INTO snaptide.push_marker (origin_id, origin) VALUES ('{MINE}', 'lga')"
    ),
    "a marker of another that it says it is": (
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        f" VALUES ('{THEIRS}', 'site', 'jfk', gen_random_uuid())"
        f" ON CONFLICT (site_id, role) DO UPDATE SET name = 'jfk'"
    ),
    "what it watches": "UPDATE snaptide.push_marker SET watched = 9",
    "who its marker is of": (
        f"UPDATE snaptide.push_marker SET origin_id = '{NOBODYS}'"
    ),
    "another id of its own": f"UPDATE snaptide.peer SET site_id = '{NOBODYS}'",
    "no marker": "DELETE FROM snaptide.push_marker",
    "a batch of another": _BATCH.format(THEIRS, "NULL"),
    "a batch that began elsewhere": _BATCH.format(MINE, "'{{lga}}'"),
    "a batch that is never purged": (
        "UPDATE snaptide.push_batch SET shipped_at = 'infinity'"
    ),
    "no ledger": "DELETE FROM snaptide.push_batch",
    "an error of another": _parked(id_=THEIRS),
    "an error in the name of another": _parked(origin="lga"),
    "one that goes into the queue of the master": _parked(reason="withdrawn"),
    "one that a master of a group has made": _parked(
        more=", sources", values=", '{{}}'"
    ),
    "one without its login": _parked(more=", login", values=", NULL"),
    "one with the number of another": _parked(more=", id", values=", 1"),
    "one with another statement for a type": _typed("int), (SELECT 1"),
    "one with a type that ends in a comment": _typed("int --"),
    "one with a type of its own": (
        "CREATE DOMAIN pg_temp.evil AS int; " + _typed("pg_temp.evil")
    ),
    "one with a type that it makes later": _typed("pg_temp_3.evil"),
    "one with such a type in quotes": _typed('"pg_temp_3".evil'),
    "one with a statement in the name of a type": _typed('public."a" --"b"'),
    "one with a type without its schema": _typed("evil"),
    "one of columns without numbers": _parked(
        more=", target_columns", values=", '{{\"sale\": {{}}}}'"
    ),
    "an error less": "DELETE FROM snaptide.error_transaction",
    "an error that was told": "UPDATE snaptide.error_transaction SET told_at = now()",
    "a call of another's error": (
        _CALL + "VALUES (1, 2, 'public', 'sale', 'D', '{{id}}', '{{}}', NULL)"
    ),
    "a call for another table": (
        _parked() + "; " + _CALL + "SELECT id, 1, 'public', 'salary', 'D', '{{id}}',"
        " '{{}}', NULL FROM snaptide.error_transaction"
    ),
    "a call without a row": (
        _parked() + "; " + _CALL + "SELECT id, 1, 'public', 'sale', 'D', '{{id}}',"
        " NULL, NULL FROM snaptide.error_transaction"
    ),
    "a call with a list for a row": (
        _parked() + "; " + _CALL + "SELECT id, 1, 'public', 'sale', 'D', '{{id}}',"
        " '[]', NULL FROM snaptide.error_transaction"
    ),
    "the rows of the master that parked calls met": (
        "SELECT current_values FROM snaptide.error_call"
    ),
    "a procedure": (
        "INSERT INTO snaptide.error_procedure (error_id, call_no, name, arguments,"
        " ran_here) VALUES (1, 1, 'p', '[]', false)"
    ),
    "a footprint of another": (
        "INSERT INTO snaptide.error_footprint (error_id, origin_id, how, entry)"
        f" VALUES (1, '{THEIRS}', 'made', 'x')"
    ),
    "a record of another": _RECORD.format("sale", "lga"),
    "a record of another table": _RECORD.format("salary", "jfk"),
    "a record of long ago": (
        "INSERT INTO snaptide.resolution_record (resolved_at) VALUES ('-infinity')"
    ),
    "what rules say": "SELECT rules FROM snaptide.rules_version",
    "a rule": "DELETE FROM snaptide.resolution_rule",
    "more of its grant": "UPDATE snaptide.publication_grant SET updatable = true",
    "a log's trigger on a table of its own": (
        "CREATE TEMP TABLE mine (id int); CREATE TRIGGER t AFTER INSERT ON mine"
        ' EXECUTE FUNCTION snaptide."mlog$_sale"()'
    ),
    "the order of transactions": (
        "CREATE TEMP TABLE mine (xid xid8, order_no int); CREATE TRIGGER t AFTER INSERT"
        " ON mine EXECUTE FUNCTION snaptide.take_order()"
    ),
    "a lock of all contacts": "LOCK TABLE snaptide.peer IN EXCLUSIVE MODE",
    "a lock of all markers": "LOCK TABLE snaptide.push_marker IN EXCLUSIVE MODE",
    "a view that shows it": (
        "CREATE TEMP VIEW mine AS SELECT cost FROM public.sale; TABLE mine"
    ),
    "another's user": "SET ROLE {other}",
}

#: Statements that it may run, and that change and return nothing.
EMPTY = {
    "rows of another to change": (
        "UPDATE public.sale SET what = 'mine' WHERE id % 2 = 1 RETURNING id"
    ),
    "rows of another to delete": (
        "DELETE FROM public.sale WHERE id % 2 = 1 RETURNING id"
    ),
    "rows of another to lock": "SELECT id FROM public.sale WHERE id % 2 = 1 FOR UPDATE",
    "rows of another by a function of its own": (
        "CREATE FUNCTION pg_temp.peep(int) RETURNS boolean LANGUAGE plpgsql"
        " COST 0.0001 AS $$ BEGIN RETURN 1 / ($1 % 2 - 1) > 0; END $$; "
        "SELECT id FROM public.sale WHERE pg_temp.peep(id)"
    ),
    "rows of another by MERGE": (
        "MERGE INTO public.sale s USING (VALUES (1)) v (id) ON s.id = v.id"
        " WHEN MATCHED THEN DELETE; SELECT 1 FROM public.sale WHERE id = 1"
    ),
    "markers of others": "SELECT 1 FROM snaptide.push_marker",
    "markers of others to move": (
        "UPDATE snaptide.push_marker SET order_no = 99 RETURNING 1"
    ),
    "the ledger of others": "SELECT 1 FROM snaptide.push_batch",
    "the ledger of others to change": (
        "UPDATE snaptide.push_batch SET orders = '{{}}' RETURNING 1"
    ),
    "errors of others": "SELECT 1 FROM snaptide.error_transaction",
    "calls of errors of others": "SELECT 1 FROM snaptide.error_call",
    "calls of errors of others to change": (
        "UPDATE snaptide.error_call SET new_values = '{{}}' RETURNING 1"
    ),
    "footprints of others": "DELETE FROM snaptide.error_footprint RETURNING 1",
    "records of others": "DELETE FROM snaptide.resolution_record RETURNING 1",
    "rules of other tables": (
        "SELECT 1 FROM snaptide.resolution_rule WHERE table_name <> 'sale'"
    ),
    "an id of another that it claims": (
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        f" VALUES ('{NOBODYS}', 'site', 'jfk', gen_random_uuid()); "
        f"UPDATE snaptide.push_marker SET order_no = 9 WHERE origin_id = '{NOBODYS}'"
        " RETURNING 1"
    ),
}

#: What PostgreSQL says of a right that is lacking, and of a text that is no type.
_RIGHTS = ("42501", "0A000", "42601")


@prepared_once("hq", "jfk")
def sales(sites: Directory) -> None:
    """Sales of two stores, and what another site has pushed and parked."""
    hq = sites["hq"]
    stores(hq)
    masters.create_publication(
        hq,
        "sales",
        ["sale"],
        where={"sale": "store_id = :store"},
        columns={"sale": ["id", "store_id", "what"]},
    )
    masters.set_column_group(hq, "salary", "pays", ["pays"])
    masters.add_update_resolution(hq, "salary", "pays", "overwrite")
    contact = (
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        " VALUES ('{}', 'site', '{}', gen_random_uuid())"
    )
    marker = "INSERT INTO snaptide.push_marker (origin_id, origin) VALUES ('{}', '{}')"
    run(
        hq,
        contact.format(MINE, "jfk"),
        contact.format(THEIRS, "lga"),
        marker.format(THEIRS, "lga"),
        marker.format(NOBODYS, "bos"),
        _BATCH.format(THEIRS, "NULL").replace("{{", "{").replace("}}", "}"),
        _parked(id_=THEIRS, origin="lga"),
        (_CALL + "VALUES (1, 1, 'public', 'sale', 'D', '{{id}}', '{{}}', NULL)")
        .replace("{{", "{")
        .replace("}}", "}"),
        "INSERT INTO snaptide.error_footprint (error_id, origin_id, how, entry)"
        f" VALUES (1, '{THEIRS}', 'made', 'x')",
        _RECORD.format("sale", "lga").replace("{{", "{").replace("}}", "}"),
    )


@pytest.fixture
def hostile(sales: Directory, server: PostgresServer) -> Iterator[tuple[Session, str]]:
    """A session with the login of store 3, which may push, and another login."""
    hq = sales["hq"]
    with login(server, hq) as name, login(server, hq) as other:
        run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}')
        masters.grant(
            hq, "sales", "jfk", login=name, parameters={"store": "3"}, updatable=True
        )
        masters.grant(hq, "sales", "lga", login=other, parameters={"store": "4"})
        with session_of(hq, name) as session:
            yield session, other


def test_a_hostile_site_changes_nothing_beyond_its_grant(
    sales: Directory, hostile: tuple[Session, str]
) -> None:
    session, other = hostile
    hq = sales["hq"]
    before = _all(hq)
    done = not_refused(session, REFUSED, _RIGHTS, other)
    done += not_empty(session, EMPTY, other, keep=True)
    assert done == [], "\n".join(done)
    assert _all(hq) == before


def test_types_of_parked_columns_may_be_gone(hostile: tuple[Session, str]) -> None:
    """Those of a column that the master has dropped often are."""
    session, _ = hostile
    for type_ in ("integer", "character varying(8)[]", 'public."Mood"', "old.mood[]"):
        execute(session, _typed(type_))
        session.rollback()


def _all(hq: Site) -> list[object]:
    """All that a hostile site may not change."""
    ours = (
        *("push_marker", "push_batch", "error_transaction", "error_call"),
        *("error_footprint", "resolution_record", "resolution_rule", "mlog$_sale"),
    )
    tables = ("public.sale", "public.salary", *(f'snaptide."{one}"' for one in ours))
    return [run(hq, f"SELECT s::text FROM {one} s ORDER BY 1") for one in tables]


#: Calls that a login may park, as it parks its own; that of another row, by the value
#: that its old image has, its new one has, or the row itself has.
FORGED = {
    "no column that it has": ("sale", "U", '{"nothing": "1"}', '{"nothing": "2"}'),
    "a value that is none": ("sale", "I", None, '{"id": {"a": 1}, "store_id": "3"}'),
    "a row of another": (
        "sale",
        "U",
        '{"id": "1", "store_id": "4", "what": "thing 1"}',
        '{"id": "1", "store_id": "4", "what": "mine"}',
    ),
    "a row of another that it says is its own": (
        "sale",
        "U",
        '{"id": "1", "store_id": "3", "what": "thing 1"}',
        '{"id": "1", "store_id": "3", "what": "mine"}',
    ),
    "a delete of it": (
        "sale",
        "D",
        '{"id": "1", "store_id": "3", "what": "thing 1"}',
        None,
    ),
    "a row without its store": (
        "sale",
        "U",
        '{"id": "1", "what": "thing 1"}',
        '{"id": "1", "what": "mine"}',
    ),
    "a new row of another": ("sale", "I", None, '{"id": "90", "store_id": "4"}'),
    "a new row of nobody": ("sale", "I", None, '{"id": "90", "what": "x"}'),
    "its own row to another": (
        "sale",
        "U",
        '{"id": "2", "store_id": "3"}',
        '{"id": "2", "store_id": "4"}',
    ),
    "a column that is not granted": (
        "sale",
        "U",
        '{"id": "2", "store_id": "3", "cost": "2"}',
        '{"id": "2", "store_id": "3", "cost": "0"}',
    ),
    "its own row by a kind that is none": (
        "sale",
        "Q",
        '{"id": "2", "store_id": "3"}',
        '{"id": "2", "store_id": "4"}',
    ),
}


def test_a_retry_makes_no_row_of_another_by_a_rule_and_a_default(
    sales: Directory, hostile: tuple[Session, str]
) -> None:
    """The call does not give the store, and the row that it updates is gone."""
    session, _ = hostile
    hq = sales["hq"]
    deferred.delete_errors(hq)
    run(hq, "ALTER TABLE public.sale ALTER store_id SET DEFAULT 4")
    masters.add_delete_resolution(hq, "sale", "informix_always")
    [(error_id,)] = session.execute((_parked() + " RETURNING id").encode()).fetchall()
    values = (
        "VALUES (%s, 1, 'public', 'sale', 'U', '{id}',"
        ' \'{"id": "90", "what": "x"}\', \'{"id": "90", "what": "y"}\')'
    )
    session.execute((_CALL + values).encode(), (error_id,))
    session.commit()
    [refused] = deferred.retry_errors(hq)
    assert "makes it one" in refused.reason
    run(hq, "ALTER TABLE public.sale ALTER store_id SET DEFAULT 3")
    [applied] = deferred.retry_errors(hq)
    assert applied.applied
    assert run(hq, "SELECT store_id, what FROM public.sale WHERE id = 90") == [(3, "y")]


def test_a_retry_keeps_to_what_is_granted_to_the_site_not_to_its_former_login(
    sales: Directory, hostile: tuple[Session, str]
) -> None:
    session, other = hostile
    hq = sales["hq"]
    deferred.delete_errors(hq)
    [(error_id,)] = session.execute((_parked() + " RETURNING id").encode()).fetchall()
    values = (
        "VALUES (%s, 1, 'public', 'sale', 'U', '{id}',"
        ' \'{"id": "2", "store_id": "3", "what": "thing 2"}\','
        ' \'{"id": "2", "store_id": "3", "what": "sold"}\')'
    )
    session.execute((_CALL + values).encode(), (error_id,))
    session.commit()
    former = session.info.user
    run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {other}')
    for site in ("jfk", "lga"):
        masters.revoke(hq, "sales", site)

    def grant(site: str, login: str) -> None:
        masters.grant(
            hq, "sales", site, login=login, parameters={"store": "3"}, updatable=True
        )

    grant("lga", former)
    [refused] = deferred.retry_errors(hq)
    assert "jfk is granted no changes of sale now" in refused.reason
    grant("jfk", other)
    [applied] = deferred.retry_errors(hq)
    assert applied.applied
    assert run(hq, "SELECT what FROM public.sale WHERE id = 2") == [("sold",)]


def test_no_retry_does_what_the_login_may_not(
    sales: Directory, hostile: tuple[Session, str]
) -> None:
    session, _ = hostile
    hq = sales["hq"]
    deferred.delete_errors(hq)
    before = [
        run(hq, f"SELECT s::text FROM public.{one} s ORDER BY 1") for one in _USERS
    ]
    for number, (table, kind, old, new) in enumerate(FORGED.values(), 1):
        made = _parked().replace("7, 7", f"{number}, 7") + " RETURNING id"
        [(error_id,)] = session.execute(made.encode()).fetchall()
        values = "VALUES (%s, 1, 'public', %s, %s, '{id}', %s::json, %s::json)"
        session.execute((_CALL + values).encode(), (error_id, table, kind, old, new))
        session.commit()
    reports = deferred.retry_errors(hq)
    assert len(reports) == len(FORGED)
    done = [
        f"{what}: {one.reason}"
        for what, one in zip(FORGED, reports, strict=True)
        if one.applied
    ]
    assert done == []
    assert [one.reason for one in reports[2:] if "granted" not in one.reason] == []
    assert before == [
        run(hq, f"SELECT s::text FROM public.{one} s ORDER BY 1") for one in _USERS
    ]
    # After a revoke they are no better.
    masters.revoke(hq, "sales", "jfk")
    assert not any(one.applied for one in deferred.retry_errors(hq))


_USERS = ("sale", "salary")
