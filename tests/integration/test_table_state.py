"""The state of a table changes with whatever statements for it are built from."""

import pytest
import sqlalchemy as sa

from sites import Directory, Site
from sites.names import parse
from sites.tables import table_state
from tests.linked_table import run, scalar

TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, qty int NOT NULL, name varchar(9))",
    "CREATE TABLE parents (id int PRIMARY KEY)",
    "CREATE TABLE lines (id int PRIMARY KEY, orders int)",
    "CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
)
CHANGES = (
    "ALTER TABLE orders ADD UNIQUE (qty)",
    "CREATE UNIQUE INDEX ON orders (qty)",
    "ALTER TABLE orders DROP CONSTRAINT orders_pkey",
    "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id) DEFERRABLE",
    "ALTER TABLE orders ADD FOREIGN KEY (qty) REFERENCES parents",
    "ALTER TABLE lines ADD FOREIGN KEY (orders) REFERENCES orders ON DELETE CASCADE",
    "ALTER TABLE orders ALTER name TYPE varchar(5)",
    'ALTER TABLE orders ALTER name TYPE varchar(9) COLLATE "C"',
    "ALTER TABLE orders RENAME qty TO amount",
    "ALTER TABLE orders DROP qty, ADD qty int",
    "CREATE RULE r AS ON UPDATE TO orders DO ALSO NOTHING",
    "ALTER TABLE lines ADD FOREIGN KEY (orders) REFERENCES parts ON DELETE SET NULL",
    "ALTER TABLE lines ADD FOREIGN KEY (orders) REFERENCES parts_1 ON DELETE CASCADE",
    "DROP TABLE orders; CREATE TABLE orders (id int PRIMARY KEY, qty int)",
)
NO_CHANGES = (
    "INSERT INTO orders VALUES (1, 1, 'a')",
    "ANALYZE orders",
    "CREATE INDEX ON orders (qty)",
    "GRANT SELECT ON orders TO public",
)


def states(hq: Site) -> tuple[object, ...]:
    """As they are read by name, which is also what the expression gives."""
    found = []
    for table in ("orders", "parts"):
        with hq.session() as connection:
            read = table_state.read(connection, parse(table))
            oid = scalar(hq, f"SELECT '{table}'::regclass::oid::int")
            shown = connection.scalar(sa.select(table_state.state(oid)))
        assert read == shown is not None
        found.append(read)
    return tuple(found)


@pytest.mark.parametrize("statement", [*CHANGES, *NO_CHANGES])
def test_state(sites: Directory, statement: str) -> None:
    hq = sites["hq"]
    run(hq, *TABLES)
    before = states(hq)
    run(hq, statement)
    assert (states(hq) == before) is (statement in NO_CHANGES)
