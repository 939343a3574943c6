"""A master that grants rows of its tables to a site, and the site's login there."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

import masters
import snapshots
from sites import Directory, Site
from snaptide.embedded import PostgresServer
from tests.fix_secrets import watched
from tests.linked_table import run
from tests.stories import refresh

Session = psycopg.Connection[tuple[object, ...]]

PASSWORD = "only-for-granted-sites"

#: The login of jfk in worlds that are copied; it stays as long as their server.
STORE = "store_of_jfk"


@contextmanager
def login(server: PostgresServer, hq: Site) -> Iterator[str]:
    """A role that may log in at the master and do nothing else; dropped afterwards."""
    watched.remember(PASSWORD)
    name = f"store_{secrets.token_hex(4)}"
    database = sql.Identifier(str(hq.url.database))
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(name), sql.Literal(PASSWORD)
            )
        )
        admin.execute(
            sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(database)
        )
    yield name
    with psycopg.connect(
        hq.url.set(drivername="postgresql").render_as_string(False), autocommit=True
    ) as admin:
        admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def stores(hq: Site) -> None:
    """Sales of two stores, whose log tells them apart, and a table for nobody."""
    run(
        hq,
        "CREATE TABLE public.sale (id int PRIMARY KEY, store_id int NOT NULL,"
        " what text, cost int)",
        "INSERT INTO public.sale SELECT i, 3 + i % 2, 'thing ' || i, i"
        " FROM generate_series(1, 10) i",
        "CREATE TABLE public.salary (id int PRIMARY KEY, pays int)",
        "INSERT INTO public.salary VALUES (1, 100)",
    )
    masters.create_snapshot_log(hq, "sale", partition_columns=["store_id"])
    masters.create_snapshot_log(hq, "salary")


def publish_sales(hq: Site) -> None:
    """Publish the sales, to be granted by store."""
    where = {"sale": "store_id = :store"}
    masters.create_publication(hq, "sales", ["sale"], where=where)


def grant_sales(
    hq: Site, name: str, number: str = "3", *, updatable: bool = True
) -> None:
    """Grant the sales of a store to the login of jfk."""
    masters.grant(
        hq,
        "sales",
        "jfk",
        login=name,
        parameters={"store": number},
        updatable=updatable,
    )


def families(hq: Site) -> None:
    """Customers of two stores, store 3 those of even ids, and what belongs to them."""
    run(
        hq,
        "CREATE TABLE public.customer (id int PRIMARY KEY, store_id int NOT NULL)",
        "CREATE TABLE public.rental (id int PRIMARY KEY,"
        " customer_id int REFERENCES public.customer, kind text, cost int)",
        "CREATE TABLE public.payment (id int PRIMARY KEY,"
        " rental_id bigint REFERENCES public.rental, amount int)",
        "INSERT INTO public.customer VALUES (1, 4), (2, 3), (3, 4), (4, 3)",
        "INSERT INTO public.rental VALUES"
        " (11, 1), (21, 2), (22, 2), (31, 3), (41, 4), (90, NULL)",
        "INSERT INTO public.payment SELECT id * 10 + 1, id, 5 FROM public.rental",
    )
    for table, column in _FAMILY.items():
        masters.create_snapshot_log(hq, table, partition_columns=[column])


_FAMILY = {"customer": "store_id", "rental": "customer_id", "payment": "rental_id"}


def grant_families(
    hq: Site, site: str, name: str, number: str = "3", *, updatable: bool = False
) -> None:
    """Publish all of that, unless it is, and grant it to the login of a site."""
    if not masters.list_publications(hq):
        masters.create_publication(
            hq,
            "shop",
            [*_FAMILY],
            where={
                "customer": "store_id = :store",
                "rental": "follows customer",
                "payment": "follows rental",
            },
            columns={"rental": ["id", "customer_id", "kind"]},
        )
    if updatable:
        run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}')
    masters.grant(
        hq,
        "shop",
        site,
        login=name,
        parameters={"store": number},
        updatable=updatable,
    )


def take_families(jfk: Site, *, updatable: bool) -> None:
    """Create snapshots of all that is granted of these, and refresh them."""
    snapshots.create(jfk, "customer", master="hq", group="shop", updatable=updatable)
    for child, parent in (("rental", "customer"), ("payment", "rental")):
        snapshots.create(
            jfk,
            child,
            master="hq",
            group="shop",
            follow=[parent],
            columns=["id", "customer_id", "kind"] if child == "rental" else None,
            updatable=updatable,
        )
    refresh(jfk, "shop")


def ids(site: Site, table: str) -> list[int]:
    """The keys of a table, or of a snapshot."""
    return [row[0] for row in run(site, f"SELECT id FROM public.{table} ORDER BY 1")]


def every(site: Site) -> list[list[int]]:
    """The keys of customers, rentals and payments."""
    return [ids(site, table) for table in ("customer", "rental", "payment")]


def of_store(hq: Site, number: int = 3) -> list[list[int]]:
    """What the site of a store is to have, as the owner of the tables reads it."""
    mine = f"SELECT id FROM public.customer WHERE store_id = {number}"
    rentals = f"SELECT id FROM public.rental WHERE customer_id IN ({mine})"
    payments = f"SELECT id FROM public.payment WHERE rental_id IN ({rentals})"
    return [
        [row[0] for row in run(hq, f"{one} ORDER BY 1")]
        for one in (mine, rentals, payments)
    ]


def as_login(sites: Directory, name: str, site: str = "jfk") -> Directory:
    """A site, and the master as the site reaches it by this login."""
    url = sites["hq"].url.set(username=name, password=PASSWORD)
    return Directory({"hq": url, site: sites[site].url})


def sell(sites: Directory) -> None:
    """Sales at hq; jfk may change those of store 3, and has a snapshot of them."""
    hq = sites["hq"]
    stores(hq)
    publish_sales(hq)
    _let_in(hq)
    grant_sales(hq, STORE)
    with as_login(sites, STORE) as directory:
        snapshots.create(directory["jfk"], "sale", master="hq", updatable=True)
        refresh(directory["jfk"], "sale")


def rent(sites: Directory) -> None:
    """Families at hq; jfk may change customers 2 and 4, and has snapshots of theirs."""
    families(sites["hq"])
    _let_in(sites["hq"])
    grant_families(sites["hq"], "jfk", STORE, updatable=True)
    with as_login(sites, STORE) as directory:
        take_families(directory["jfk"], updatable=True)


@contextmanager
def let_in(sites: Directory) -> Iterator[Site]:
    """The site jfk of a copy of such a world, with its login."""
    _let_in(sites["hq"])
    with as_login(sites, STORE) as directory:
        yield directory["jfk"]


def _let_in(hq: Site) -> None:
    """Give the login what is the server's, and so no part of a copied database."""
    database = hq.url.database
    watched.remember(PASSWORD)
    run(
        hq,
        f"DO $$ BEGIN IF to_regrole('{STORE}') IS NULL THEN"
        f" CREATE ROLE {STORE} LOGIN PASSWORD '{PASSWORD}'; END IF; END $$",
        f'REVOKE TEMPORARY ON DATABASE "{database}" FROM PUBLIC',
        f'GRANT TEMPORARY ON DATABASE "{database}" TO {STORE}',
        "DO $$ BEGIN IF to_regrole('snaptide_site') IS NOT NULL THEN"
        f" GRANT snaptide_site, snaptide_apply TO {STORE} WITH INHERIT TRUE, SET FALSE;"
        " END IF; END $$",
    )


def execute(session: Session, statements: str, other: str = "") -> list[Any]:
    """Run statements of a login, divided by a semicolon and a space.

    Parameters:
        other: what they get for {other}, the login of another site.

    Returns:
        The rows of the last one.
    """
    found: list[Any] = []
    before = "; "
    for statement in _divided(statements.format(other=other), before):
        cursor = session.execute(statement.encode())
        found = cursor.fetchall() if cursor.description else []
    return found


def _divided(statements: str, by: str) -> list[str]:
    """Statements, of which the first may be that of a function with some of its own."""
    if "$$" not in statements:
        return statements.split(by)
    head, body, tail = statements.split("$$")
    first, *others = tail.split(by)
    return [f"{head}$${body}$${first}", *(one for one in others if one)]


def not_refused(
    session: Session, attempts: Mapping[str, str], refusals: Sequence[str], other: str
) -> list[str]:
    """Try what is to be refused; return what is not, or for another reason.

    Parameters:
        attempts: by what they are, statements for `execute`.
        refusals: the states of SQL that refuse.
    """
    done = []
    for what, statements in attempts.items():
        try:
            execute(session, statements, other)
        except psycopg.Error as error:
            if error.sqlstate not in refusals:
                done.append(f"{what}: {error}")
        else:
            done.append(what)
        session.rollback()
    return done


def not_empty(
    session: Session, attempts: Mapping[str, str], other: str, *, keep: bool = False
) -> list[str]:
    """Try what may run, and finds nothing; return what finds something, or is refused.

    Parameters:
        attempts: by what they are, statements for `execute`.
        keep: commit what they do.
    """
    done = []
    for what, statements in attempts.items():
        try:
            if execute(session, statements, other):
                done.append(what)
            if keep:
                session.commit()
        except psycopg.Error as error:
            done.append(f"{what}: {error}")
        session.rollback()
    return done


def session_of(hq: Site, name: str) -> Session:
    """A session of a login at the master."""
    url = hq.url.set(drivername="postgresql", username=name, password=PASSWORD)
    return psycopg.connect(url.render_as_string(hide_password=False))
