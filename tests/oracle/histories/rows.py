"""A world of rows: references of every action, triggers, rules, values."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

import masters
import snapshots
from masters import rules
from tests.linked_table import run
from tests.oracle.histories import acts, tables
from tests.oracle.histories.acts import Pen
from tests.oracle.histories.ledger import Deed, Place, Row, Rows
from tests.oracle.histories.tables import STAMPED, TABLES, Schema
from tests.oracle.histories.users import Refusal
from tests.oracle.histories.world import SITES, World
from tests.oracle.runner.played import Violation


@dataclass
class RowsWorld(World):
    """A master and two sites with orders, their lines, people and a stock."""

    schema: Schema = field(kw_only=True)

    tables: ClassVar = TABLES
    free: ClassVar = STAMPED

    def __post_init__(self) -> None:
        self.error_action = self.schema.error_action
        self.references = self.schema.references

    def between(self, number: int) -> None:
        """The master may take shorter values from a round on."""
        if self.schema.width and number == self.schema.narrowed:
            self._narrow(self.schema.width)

    def limited(self, site: str, place: Place, row: Row) -> bool:
        """One of the sites may have some lines only."""
        has_some = site == "lga" and self.schema.condition and place[0] == "lines"
        return bool(has_some and row["id"] % 2)

    # --- the world ----------------------------------------------------------------

    def build(self) -> None:
        """Make tables, logs, rules, snapshots, and fill them."""
        hq = self.sites["hq"]
        statements = self.schema.ddl()
        statements += tables.audit_ddl(TABLES)
        for trigger in sorted(self.schema.triggers & set(tables.TRIGGER_DDL)):
            statements += tables.TRIGGER_DDL[trigger]
        run(self.sites["hq"], *statements)
        run(self.sites["hq"], *tables.FIRST)
        for history in self.pens:
            run(self.sites["hq"], *(s.as_string() for s in acts.first(history)))
        for table in (*TABLES, "receipt"):
            masters.create_snapshot_log(hq, table)
        for table, kind, method in self.schema.rules:
            self._decide(table, kind, method)
        for name in SITES:
            site = self.sites[name]
            for table in TABLES:
                limited = table == "lines" and name == "lga" and self.schema.condition
                snapshots.create(
                    site,
                    table,
                    master="hq",
                    group="all",
                    where=limited or None,
                    updatable=True,
                )
            mine = f"site = '{name}'"
            snapshots.create(
                site, "receipt", master="hq", group="all", where=mine, updatable=True
            )
            snapshots.refresh(site, "all")
            if "journals" in self.schema.triggers:
                first = 1_000_000 * (1 + SITES.index(name))
                run(self.sites[name], *tables.journal_ddl(first))
            for trigger in sorted(self.schema.at_sites):
                run(self.sites[name], *tables.SITE_TRIGGER_DDL[trigger])

    def _decide(self, table: str, kind: str, method: str) -> None:
        hq = self.sites["hq"]
        if kind == "update":
            columns = {
                "orders": ["note", "code", "stamp"],
                "lines": ["note", "order_id", "second_id", "code"],
                "people": ["note", "father", "mother"],
            }[table]
            rules.set_column_group(hq, table, "all", columns)
            rules.add_update_resolution(hq, table, "all", method)
        elif kind == "delete":
            rules.add_delete_resolution(hq, table, method)
        elif method.startswith("append"):
            rules.add_unique_resolution(
                hq, table, kind, method, parameters={"column": "code"}
            )
        else:
            rules.add_unique_resolution(hq, table, kind, method)

    def _narrow(self, width: int) -> None:
        """The master takes shorter notes from now on; what is longer is cut."""
        to = f"varchar({width}) USING left(note, {width})"
        change = [f"ALTER TABLE {table} ALTER note TYPE {to}" for table in TABLES]
        self.alter(f"notes are cut to {width}", change)

    def judged(self) -> list[Violation]:
        """The master's trigger has counted each line that came, once."""
        found = super().judged()
        if "writes" not in self.schema.triggers:
            return found
        lines: Counter[tuple[str, int]] = Counter()
        counted: Counter[tuple[str, int]] = Counter()
        there: set[int] = set()
        for entry in self.told.entries():
            if entry.transaction in self.altered | self.mended:
                continue
            row = entry.new or entry.old or {}
            one = entry.transaction, row["h"]
            if entry.table == "lines" and entry.old is None and row["h"] in there:
                lines[one] += 1
            elif entry.table == "stock" and entry.new is not None:
                there.add(row["h"])
                counted[one] += entry.new["n"] - (entry.old or entry.new)["n"]
        for one in {*lines, *counted}:
            if lines[one] != counted[one]:
                what = f"{lines[one]} lines came, {counted[one]} are counted, {one[0]}"
                found.append(Violation(one[1], what))
        return found

    # --- users --------------------------------------------------------------------

    def act(self, pen: Pen) -> None:
        """One of the acts, or what is refused of it."""
        site, name = acts.draw(pen)
        said: list[str] = []

        def write(rows: Rows) -> list[acts.Statement]:
            made = acts.statements(pen, name, rows)
            said.extend(one.as_string() for one in made)
            return made

        done, before = self.write(pen, site, write)
        met = self.met[pen.history]
        if isinstance(done, Refusal):
            self._refused(met, site, done)
            return
        if not done.effect:
            return
        met.add(name)
        if any(table == "journal" for table, _ in done.effect):
            met.add("trigger journals")
        self._count_actions(met, done, before)
        self._count_act(pen.history, site, name, done, " ".join(said))

    def _count_act(
        self, history: int, site: str, name: str, done: Deed, text: str
    ) -> None:
        met = self.met[history]
        if name in ("code", "swap codes") and self.schema.deferrable:
            met.add("unique checked at commit")
        written = {table for table, _ in done.effect}
        for trigger, table in (("writes", "lines"), ("stamps", "orders")):
            if trigger in self.schema.triggers and table in written:
                met.add(f"trigger {trigger}")
        if "stamps" in self.schema.at_sites and site != "hq" and "orders" in written:
            met.add("trigger stamps at a site")
        if self.schema.width and "xxxx" in text:
            met.add("too long")
        if self.schema.encoding != "UTF8" and not text.isascii() and site != "hq":
            met.add("not in the encoding")
        if " !'" in text and "refuses" in self.schema.triggers and site != "hq":
            met.add("trigger refuses")

    def _refused(self, met: set[str], site: str, refusal: Refusal) -> None:
        if refusal.state == "23514" and site != "hq":
            met.add("trigger refuses at a site")
            return
        met.add("refused by a constraint")
        for key in self.schema.keys:
            if key.name == refusal.constraint:
                for event, action in (
                    ("delete", key.on_delete),
                    ("update", key.on_update),
                ):
                    if action in ("NO ACTION", "RESTRICT"):
                        met.add(f"on {event} {action.lower()}")

    def _count_actions(self, met: set[str], deed: Deed, before: Rows) -> None:
        for (_table, uid), change in deed.effect.items():
            if change.before is None:
                continue
            for event in ("delete", "update"):
                if event == "delete" and change.after is not None:
                    continue
                if event == "update" and "id" not in change.columns:
                    continue
                if event == "update":
                    met.add("key change")
                self._count_children(met, before, f"row {uid}", event, deed.site)

    def _count_children(
        self, met: set[str], before: Rows, parent: str, event: str, site: str
    ) -> None:
        for (table, _), row in before.items():
            columns = [
                c for c in self.references.get(table, {}) if row.get(c) == parent
            ]
            for column in columns:
                with suppress(StopIteration):
                    key = self.schema.key(table, column)
                    action = key.on_delete if event == "delete" else key.on_update
                    met.add(f"on {event} {action.lower()}")
                    if key.deferrable:
                        met.add("deferrable reference")
                    if table == "people":
                        met.add("reference to itself")
            if len(columns) > 1:
                met.add("two references to one row")
