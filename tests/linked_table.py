"""A master table and its queue at another site, without the snapshot around them.

What a test of capture, queue, push and apply needs: the same table at `hq`, with a
snapshot log, and at `jfk`, where changes are queued for `hq`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

import masters
from deferred.queues import define
from deferred.queues.queue import Queue
from sites import Site, names
from sites.sessions.exchange import raw
from sites.tables.table import describe

_WRITTEN = re.compile(
    r"\b(?:INTO|UPDATE|FROM)\s+(?:ONLY\s+)?([\w.$\"]+)", re.IGNORECASE
)

ORDERS = """
    id int PRIMARY KEY,
    name text UNIQUE,
    qty int,
    price numeric(10,2),
    at timestamptz
"""


def link(
    sites: Mapping[str, Site],
    table: str = "orders",
    columns: str = ORDERS,
    *,
    at_site: str | None = None,
    carried: Sequence[str] | None = None,
    refuse_new_keys: bool = False,
    origin: str = "jfk",
    master: str = "hq",
    with_log: bool = True,
    synchronous: bool = False,
    parts: Sequence[str] = (),
) -> Queue:
    """Create a table at a master and at a site, and queue what changes at the site.

    Parameters:
        columns: of both tables, as in CREATE TABLE.
        at_site: of the site's table, where it is another.
        carried: the columns that are queued; all when not given.
        synchronous: changes at the site go to hq in coordinated transactions alone.
        parts: statements that give the site's table partitions or children.
    """
    hq, site = sites[master], sites[origin]
    name = names.parse(table)
    _create(hq, table, columns)
    if with_log:
        masters.create_snapshot_log(hq, table)
    _create(site, table, at_site or columns)
    run_each(site, *parts)
    with site.transaction() as connection:
        base = describe(connection, name)
        extra = names.derived("extra$_", name)
        _create_extra(connection, extra, [base.column(k).type for k in base.key])
        carried = tuple(carried or base.names)
        return define.create_queue(
            connection,
            snapshot=str(name),
            base=base,
            destination=master,
            target=name,
            columns=carried,
            identity=base.key,
            partial=refuse_new_keys,
            extra_table=extra,
            refuse_new_keys=refuse_new_keys,
            synchronous=synchronous,
        )


def link_orders(sites: Mapping[str, Site], values: str) -> None:
    """Link orders of three columns, and give both sites these."""
    link(sites, "orders", "id int PRIMARY KEY, name text, qty int")
    run_everywhere(sites, f"INSERT INTO orders VALUES {values}")


def run(site: Site, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements in one transaction, as an application would.

    Returns:
        The rows of the last one.
    """
    with site.begin() as connection:
        cursor = raw(connection).cursor()
        for statement in statements:
            cursor.execute(_sql(statement))
        return [] if cursor.description is None else cursor.fetchall()


def change_often(site: Site, times: int) -> None:
    """Give the first of the `orders` long names, one after the other, in a transaction.

    It is found by its place: its key leads through all its older versions.
    """
    run(
        site,
        "DO $$ DECLARE there tid := (SELECT ctid FROM orders WHERE id = 1);"
        f" BEGIN FOR n IN 1..{times} LOOP"
        " UPDATE orders SET name = repeat('\"<', 300) || n"
        " WHERE ctid = there RETURNING ctid INTO there;"
        " END LOOP; END $$",
    )


def scalar(site: Site, query: str) -> Any:
    """The first value that a query finds; None if it finds no row."""
    found = run(site, query)
    return found[0][0] if found else None


def run_each(site: Site, *statements: str) -> None:
    """Run each statement in a transaction of its own."""
    for statement in statements:
        run(site, statement)


def run_everywhere(sites: Mapping[str, Site], *statements: str) -> None:
    """Run statements at all sites, without a call: as if they had been refreshed."""
    for site in sites.values():
        as_refresh(site, *statements)


def as_refresh(site: Site, *statements: str) -> None:
    """Change rows as a refresh does: nothing is queued."""
    run(site, "SET LOCAL snaptide.origin = 'hq'", *announced(*statements))


def announced(*statements: str) -> Iterator[str]:
    """Statements as a refresh makes them: each with the table that it writes."""
    for statement in statements:
        found = _WRITTEN.search(statement)
        if found is not None:
            table = f"to_regclass('{found[1]}')::oid::text"
            yield f"SELECT set_config('snaptide.writing', {table}, true)"
        yield statement


def application(site: Site) -> psycopg.Connection[tuple[Any, ...]]:
    """A session of a user's own, for what takes several at once; close it."""
    url = site.url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(url)


def rows(site: Site, table: str = "orders") -> list[tuple[Any, ...]]:
    """What a table holds, by its first columns."""
    statement = sql.SQL('SELECT * FROM {} t ORDER BY t::text COLLATE "C"')
    name = names.parse(table)
    with site.begin() as connection:
        found = raw(connection).execute(
            statement.format(sql.Identifier(name.schema, name.name))
        )
        return found.fetchall()


def calls(site: Site) -> list[tuple[str, str, dict[str, str], dict[str, str]]]:
    """The queued calls: table, operation, old and new values."""
    return run(
        site,
        "SELECT tablename, operation, old_values, new_values"
        " FROM snaptide.defcall ORDER BY callno",
    )


def kinds(site: Site) -> list[tuple[str, str | None]]:
    """The queued calls, in short: operation and first column of the key."""
    return run(
        site,
        "SELECT operation, COALESCE(old_values, new_values) ->> 'id'"
        " FROM snaptide.defcall ORDER BY callno",
    )


def queued(site: Site) -> int:
    """How many transactions wait to be delivered."""
    return int(scalar(site, "SELECT count(*) FROM snaptide.deftran"))


def parked(site: Site) -> list[tuple[Any, ...]]:
    """The error queue, in short: id, reason, code, what it waits for."""
    return run(
        site,
        "SELECT error_id, reason, error_number, waits_for"
        " FROM snaptide.deferror ORDER BY error_id",
    )


def _create(site: Site, table: str, columns: str) -> None:
    name = names.parse(table)
    with site.begin() as connection:
        driver = raw(connection)
        driver.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(
                sql.Identifier(name.schema)
            )
        )
        driver.execute(
            sql.SQL("CREATE TABLE {} ({})").format(
                sql.Identifier(name.schema, name.name), _sql(columns)
            )
        )


def _create_extra(connection: Any, name: str, key_types: Sequence[str]) -> None:
    keys = [
        sql.SQL("{} {}").format(sql.Identifier(f"k{n}"), _sql(kind))
        for n, kind in enumerate(key_types, 1)
    ]
    raw(connection).execute(
        sql.SQL(
            "CREATE TABLE {} ({}, reason text NOT NULL DEFAULT 'trigger',"
            " xid xid8 NOT NULL DEFAULT pg_current_xact_id(),"
            " batch_no bigint, order_no bigint, master_xid xid8)"
        ).format(sql.Identifier("snaptide", name), sql.SQL(", ").join(keys))
    )


def _sql(text: str) -> sql.SQL:
    return sql.SQL(text)
