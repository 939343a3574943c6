"""Three masters of a group, as tests of its checks need them."""

from sites import Directory, Site
from sites.names import quoted
from tests.grouped import found_group, push_all
from tests.linked_table import run

ODD = 'wei"rd.T%s:x'
KEY = 'k"%s:1'
#: The same table with its columns in another order at each master.
ORDERED = {
    "hq": f'id int, {quoted(KEY)} text, n numeric, "c\'1" bytea',
    "lax": f'"c\'1" bytea, n numeric, {quoted(KEY)} text, id int',
    "bos": f'n numeric, id int, "c\'1" bytea, {quoted(KEY)} text',
}
ROWS = """
INSERT INTO orders (id, name, qty, price)
SELECT n, 'n' || n, n, n FROM generate_series(1, 100) n
"""


def make_masters(sites: Directory) -> None:
    """Make hq, lax and bos masters of orders, with 100 rows, and of an odd table."""
    for name, columns in ORDERED.items():
        run(
            sites[name],
            f"CREATE TABLE {quoted(ODD)} ({columns}, twice int GENERATED ALWAYS AS"
            f" (id * 2) STORED, PRIMARY KEY ({quoted(KEY)}, id))",
        )
    found_group(sites, *sites, tables=("orders", quoted(ODD)))
    run(sites["hq"], ROWS)
    run(
        sites["lax"],
        f"INSERT INTO {quoted(ODD)} ({quoted(KEY)}, id, n) VALUES"
        " ('a''\"b', 1, 1.0), ('', 2, NULL), ('ü', 3, 'NaN')",
    )
    push_all(sites)


def unseen(site: Site, *statements: str) -> None:
    """Change rows of orders, or of the odd table, while nothing captures it."""
    names = (
        "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal"
        " AND tgname LIKE 'snaptide%' OR tgname LIKE 'def$%'"
    )
    triggers = run(site, names)
    assert triggers
    off = [f'ALTER TABLE {table} DISABLE TRIGGER "{n}"' for n, table in triggers]
    on = [f'ALTER TABLE {table} ENABLE ALWAYS TRIGGER "{n}"' for n, table in triggers]
    run(site, *off, *statements, *on)
