"""The oracle's world: a master and two sites on servers that can be killed.

Besides the invented tables there are two of its own, in a refresh group of their
own. Every transaction of a site leaves a receipt; a trigger at the master notes
each receipt that arrives. Many add to a counter, whose sum must come out right.
Both prove "exactly once" without asking Snaptide's own records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

import deferred
import masters
import snapshots
from masters import rules
from sites import Directory, Site, names
from snapshots.reports import SnapshotDescription
from tests.oracle.shapes import Shape

MASTER, SITES = "hq", ("jfk", "lga")
COUNTERS = 3

_LEDGER = (
    "CREATE TABLE receipt (id text PRIMARY KEY, site text NOT NULL)",
    "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)",
    f"INSERT INTO counter SELECT i, 0 FROM generate_series(1, {COUNTERS}) i",
    "CREATE TABLE arrival (id text NOT NULL)",
    (
        "CREATE FUNCTION arrive() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.arrival VALUES (NEW.id); RETURN NULL; END'"
    ),
    (
        "CREATE TRIGGER arrive AFTER INSERT ON receipt"
        " FOR EACH ROW EXECUTE FUNCTION arrive()"
    ),
)


@dataclass
class Ledger:
    """What users know that they did."""

    #: receipt -> the counter that its transaction added to, or None
    committed: dict[str, int | None] = field(default_factory=dict)
    #: receipts of transactions that were deleted from the error queue
    deleted: set[str] = field(default_factory=set)
    #: counter -> what users of the master added to it
    at_master: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class World:
    """The sites as Snaptide reaches them, and the URLs by which users do."""

    sites: Directory
    urls: Mapping[str, str]
    shapes: Sequence[Shape]
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def master(self) -> Site:
        """The site that has the master tables."""
        return self.sites[MASTER]

    def shapes_at(self, site: str) -> list[Shape]:
        """The invented tables as a site has them."""
        if site == MASTER:
            return list(self.shapes)
        return [s.at_site() for s in self.shapes]

    def query(self, site: str, query: str | sql.Composed) -> list[tuple[object, ...]]:
        """The rows of a query of a user's."""
        with psycopg.connect(self.urls[site]) as session:
            return session.execute(
                query if isinstance(query, sql.Composed) else sql.SQL(query)
            ).fetchall()

    def build(self) -> None:
        """Create tables, logs, rules and snapshots, and fill the snapshots."""
        with psycopg.connect(self.urls[MASTER]) as session:
            for statement in _LEDGER:
                session.execute(statement)
            for shape in self.shapes:
                session.execute(shape.ddl())
        for shape in self.shapes:
            masters.create_snapshot_log(
                self.master, shape.name, with_rowid=shape.with_rowid
            )
            self._decide(shape)
        for name in ("receipt", "counter"):
            masters.create_snapshot_log(self.master, name)
        rules.set_column_group(self.master, "counter", "n", ["n"])
        rules.add_update_resolution(self.master, "counter", "n", "additive")
        for name in SITES:
            self._create_snapshots(name)

    def _decide(self, shape: Shape) -> None:
        on_update, on_uniqueness, on_delete = shape.methods
        values = [c.name for c in shape.values]
        if on_update:
            rules.set_column_group(self.master, shape.name, "all", values)
            rules.add_update_resolution(self.master, shape.name, "all", on_update)
        if on_uniqueness and shape.uniques:
            for columns, _ in shape.uniques:
                rules.add_unique_resolution(
                    self.master,
                    shape.name,
                    f"{shape.name}_{'_'.join(columns)}_key",
                    on_uniqueness,
                )
        if on_delete:
            rules.add_delete_resolution(self.master, shape.name, on_delete)

    def _create_snapshots(self, name: str) -> None:
        site = self.sites[name]
        self.create_missing(name)
        snapshots.create(site, "counter", master=MASTER, group="ours", updatable=True)
        snapshots.create(
            site,
            "receipt",
            master=MASTER,
            group="ours",
            where=f"site = '{name}'",
            updatable=True,
        )
        for group in ("all", "ours"):
            snapshots.refresh(site, group)

    def create_missing(self, name: str) -> list[str]:
        """Create the snapshots of invented tables that a site does not have."""
        there = {one.name for one in snapshots.list_snapshots(self.sites[name])}
        missing = [shape for shape in self.shapes if shape.name not in there]
        for shape in missing:
            condition = shape.condition
            snapshots.create(
                self.sites[name],
                shape.name,
                master=MASTER,
                group="all",
                where=condition.format(site=name) if condition else None,
                columns=shape.carried(),
                updatable=shape.updatable,
            )
        return [shape.name for shape in missing]

    # --- what must be true when it is quiet ---------------------------------------

    def waiting(self, name: str) -> list[str]:
        """What a site has that is not settled yet."""
        site, found = self.sites[name], []
        for one in snapshots.list_snapshots(site):
            log = names.derived("uslog$_", names.parse(one.name))
            query = sql.SQL("SELECT * FROM snaptide.{}").format(sql.Identifier(log))
            if one.undelivered_calls:
                found.append(f"{name}:{one.name}: {one.undelivered_calls} calls")
            if left := self.query(name, query):
                found.append(f"{name}:{one.name}: {left}")
        return found

    def check(self) -> None:
        """Hold every snapshot and every receipt against the master."""
        for name in SITES:
            for one in snapshots.list_snapshots(self.sites[name]):
                here, there = self._shown(name, one), self._shown(MASTER, one)
                assert here == there, f"{name}:{one.name} is {here}, not {there}"
                base = names.derived("snap$_", names.parse(one.name))
                (kept,) = self.query(
                    name,
                    sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(base)),
                )
                assert kept == (len(here),), (
                    f"{base} holds rows outside {one.condition}"
                )
        arrived = self._check_receipts()
        self._check_counters(arrived)

    def _shown(self, site: str, one: SnapshotDescription) -> list[tuple[object, ...]]:
        """The rows of a snapshot, or of its defining query, as text."""
        name = names.parse(one.table if site == MASTER else one.name)
        columns = [sql.SQL("{}::text").format(sql.Identifier(c)) for c in one.columns]
        row = sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(columns))
        query = sql.SQL("SELECT {} AS row FROM {} WHERE {} ORDER BY 1").format(
            row,
            sql.Identifier(name.schema, name.name),
            sql.SQL(one.condition or "true"),
        )
        return self.query(site, query)

    def _check_receipts(self) -> set[str]:
        rows = self.query(MASTER, "SELECT id FROM arrival")
        arrived = [str(one) for (one,) in rows]
        parked = self.parked_receipts()
        found = Counter([*arrived, *parked, *self.ledger.deleted])
        expected = Counter(list(self.ledger.committed))
        assert found == expected, f"{found - expected=} {expected - found=}"
        return set(arrived)

    def _check_counters(self, arrived: set[str]) -> None:
        expected = Counter(self.ledger.at_master)
        for receipt in arrived:
            counter = self.ledger.committed[receipt]
            if counter is not None:
                expected[counter] += 1
        rows = self.query(MASTER, "SELECT id, n FROM counter")
        wanted = {i: expected[i] for i in range(1, COUNTERS + 1)}
        assert {row[0]: row[1] for row in rows} == wanted, f"{rows}, not {wanted}"

    def parked_receipts(self, error_ids: Sequence[int] | None = None) -> list[str]:
        """The receipts of transactions in the error queue."""
        chosen = [
            deferred.show_error(self.master, error.id)
            for error in deferred.list_errors(self.master)
            if error_ids is None or error.id in error_ids
        ]
        calls = [call for error in chosen for call in error.calls]
        return [str((c.new or {})["id"]) for c in calls if c.table == "receipt"]

    def check_purged(self) -> None:
        """See that a purge leaves nothing at the sites once all is answered."""
        for name in SITES:
            left = self.query(name, "SELECT * FROM snaptide.deferred_transaction")
            assert left == [], f"{name} keeps {left}"
