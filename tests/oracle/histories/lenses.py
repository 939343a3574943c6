"""A world of lenses: a table is split and merged, and sites follow when they like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from psycopg.errors import LockNotAvailable

import deferred
import masters
import snapshots
from deferred.errors import TargetColumnsMoved
from masters import rules
from masters.errors import LensInUse
from sites.errors import SnaptideError
from snapshots.definitions.errors import ColumnsRefused
from snapshots.reports import RefreshReport
from tests.fix_sites import log
from tests.linked_table import queued, run, scalar
from tests.oracle.histories import lens_fields, lens_users, tables
from tests.oracle.histories.acts import Pen, Statement, delete, update
from tests.oracle.histories.ledger import Deed, Row
from tests.oracle.histories.lens_fields import BAD, FIELDS, TABLE, Form, Step
from tests.oracle.histories.users import Refusal
from tests.oracle.histories.world import SITES, World
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation

#: How columns are replaced: by DDL of the master alone or for its sites, and whether
#: the lens is declared before the old ones are dropped.
WAYS = ("before", "after", "before, for sites", "after, for sites")
#: By which options parked transactions are retried.
RETRIES = ("by number", "of its site", "by reason", "with dependants", "without gone")
SHAPES = frozenset(
    {
        *(f"lens of {field}" for field in FIELDS),
        *(f"lens declared {way}" for way in WAYS),
        *(f"retried {way}" for way in RETRIES),
        "dropped while others work",
        "lens over a former one",
        "lens dropped",
        "lens needed",
        "column gone beside a lens",
        "column renamed beside a lens",
        "site follows",
        "snapshot made again",
        "loaded by a lens",
        "change of old columns",
        "change over two lenses",
        "retried through a lens",
        "rule of new columns",
    }
)


@dataclass
class LensWorld(World):
    """A master whose columns are split and merged, and two sites."""

    tables: ClassVar = (TABLE,)

    def __post_init__(self) -> None:
        #: by field, the lens that is declared
        self._lenses: dict[str, Step] = {}
        #: declared, and the old columns are there still
        self._begun: Step | None = None
        #: dropped, and nothing is declared yet
        self._without: Step | None = None
        #: has old columns, and DDL has others for it: its operator has to decide
        self._stuck: set[str] = set()
        #: has a snapshot without rows, which its users cannot see yet
        self._late = {"lga"} if self.chance.random() < 0.3 else set[str]()

    def seen(self, table: str, row: Row) -> Row:
        """A row with what its fields mean, in whatever form."""
        return lens_fields.meant(row) if table == TABLE else row

    # --- the world ----------------------------------------------------------------

    def build(self) -> None:
        """Make table, log and snapshots, and fill them."""
        hq, forms = self.sites["hq"], lens_fields.first()
        by_field = {form.field: form for form in forms}
        columns = ", ".join(f"{c} {form.type}" for form in forms for c in form.columns)
        run(
            hq,
            f"CREATE TABLE {TABLE} (id int PRIMARY KEY, h int NOT NULL,"
            f" uid text NOT NULL, note text, spare int, {columns})",
            *tables.audit_ddl((TABLE,)),
        )
        by_field = {form.field: form for form in forms}
        for pen in self.pens.values():
            rows = [
                lens_users.new(pen, pen.history * 10 + n, by_field) for n in range(3)
            ]
            run(hq, *(one.as_string() for one in rows))
        for table in (TABLE, "receipt"):
            log(hq, table)
        if self.chance.random() < 0.3:
            self._rule("note", ["note"])
        for site in SITES:
            self._create(site, "receipt")
            self._create(site, TABLE)
            if site not in self._late:
                snapshots.refresh(self.sites[site], "all")

    def _create(self, site: str, table: str) -> None:
        snapshots.create(
            self.sites[site],
            table,
            master="hq",
            group="all",
            where=f"site = '{site}'" if table == "receipt" else None,
            updatable=True,
        )

    def _rule(self, group: str, columns: Sequence[str]) -> None:
        """Conflicts of columns are settled."""
        method = self.chance.choice(("overwrite", "discard"))
        rules.set_column_group(self.sites["hq"], TABLE, group, columns)
        rules.add_update_resolution(self.sites["hq"], TABLE, group, method)

    def _met(self, what: str) -> None:
        for history in self.pens:
            self.met[history].add(what)

    def _there(self) -> dict[str, int]:
        """The columns of the master, with their numbers."""
        found = run(
            self.sites["hq"],
            "SELECT attname, attnum FROM pg_attribute WHERE attnum > 0"
            f" AND attrelid = '{TABLE}'::regclass AND NOT attisdropped",
        )
        return dict(found)

    def _shown(self, site: str) -> dict[str, int]:
        """The columns that a site shows, with their numbers at the master."""
        found = run(
            self.sites[site],
            "SELECT columns, target_numbers FROM snaptide.queue"
            f" WHERE snapshot = '{TABLE}'",
        )
        return {
            n: no
            for names, numbers in found
            for n, no in zip(names, numbers, strict=True)
        }

    # --- DDL ----------------------------------------------------------------------

    def between(self, number: int) -> None:
        """The master's owner and the sites' operators do something."""
        for _ in range(2 if number else 0):
            self._at_master(self.chance.random(), self.chance.choice(FIELDS))
        for site in SITES:
            drawn = self.chance.random()
            if drawn < 0.2:
                self._follow(site)
            elif drawn < 0.27:
                self._make_again(site)

    def _at_master(self, drawn: float, field: str) -> None:
        if self._begun or self._without:
            if drawn < 0.6:
                self._go_on()
        elif drawn < 0.6:
            self._replace(field)
        elif drawn < 0.7:
            self._rename(field)
        elif drawn < 0.75:
            self._drop_spare()
        elif drawn < 0.85 and field in self._lenses:
            self._drop_lens(field)

    def _go_on(self) -> None:
        """Finish what was begun of a lens."""
        if self._begun:
            self._finish(self._begun)
        if self._without:
            self._declare_late(self._without)

    def _replace(self, field: str) -> None:
        """A field gets its next form, at once or a while later."""
        way = self.chance.choice(WAYS)
        if field in self._lenses:
            if not self._drop_lens(field):
                return
            self._met("lens over a former one")
        old = lens_fields.forms(self._there())[field]
        new = old.next
        add = ", ".join(f"ADD {c} {new.type}" for c in new.columns)
        there = self._there()
        gone = frozenset(there[c] for c in old.columns)
        step = Step(old=old, new=new, gone=gone, made=frozenset(), way=way)
        more = [] if way.startswith("before") else step.finishing()
        self._ddl(way, [f"ALTER TABLE {TABLE} {add}", *more])
        there = self._there()
        step = replace(step, made=frozenset(there[c] for c in new.columns))
        self._met(f"lens of {field}")
        self._met(f"lens declared {way}")
        later = self.chance.random() < 0.5
        if more:
            self._without = step
            if not later:
                self._declare_late(step)
        else:
            self._declare(step, old)
            self._begun = step
            if not later:
                self._finish(step)

    def _ddl(self, way: str, statements: Sequence[str]) -> None:
        self._no_rules_of_what_goes(statements)
        if not way.endswith("for sites"):
            self.alter(f"{way}: {'; '.join(statements)}", statements)
            return
        self.story.tell(f"hq, for sites: {'; '.join(statements)}")
        masters.execute_ddl(self.sites["hq"], "; ".join(statements))
        self.mine()
        self.alter("rows as they are", ())

    def _no_rules_of_what_goes(self, statements: Sequence[str]) -> None:
        """Rules name columns."""
        for one in masters.list_rules(self.sites["hq"]):
            for group, columns in one.groups.items():
                if any(f"DROP {c}" in s for c in columns for s in statements):
                    rules.set_column_group(self.sites["hq"], TABLE, group, [])

    def _declare(self, step: Step, old: Form) -> None:
        """Declare a lens; the old columns as sites call them if they are gone."""
        new = replace(step.new, columns=self._names(step.made))
        sets, backs = new.made(old), old.made(new)
        self.story.tell(f"hq: lens of {old.columns}: {sets}, {backs}")
        hq = self.sites["hq"]
        snapshots.map_shape(hq, TABLE, gone=old.columns, sets=sets, backs=backs)
        self._lenses[old.field] = step

    def _names(self, numbers: frozenset[int]) -> tuple[str, ...]:
        return tuple(sorted(n for n, no in self._there().items() if no in numbers))

    def _declare_late(self, step: Step) -> None:
        """The old columns are gone: a site knows them, or nobody needs the lens."""
        self._without = None
        for site in SITES:
            shown = self._shown(site)
            names = tuple(sorted(n for n, no in shown.items() if no in step.gone))
            if len(names) == len(step.gone):
                self._declare(step, replace(step.old, columns=names))
                return

    def _finish(self, step: Step) -> None:
        self._begun = None
        self._ddl(step.way, step.finishing())
        if self.chance.random() < 0.3:
            self._rule(step.new.field, self._names(step.made))
            self._met("rule of new columns")

    def _finish_meanwhile(self, step: Step) -> None:
        """Drop the old columns, unless what is under way there has locked them."""
        statements = step.finishing()
        self._no_rules_of_what_goes(statements)
        try:
            self.alter(
                "finished while others work",
                ("SET LOCAL lock_timeout = '100ms'", *statements),
            )
        except LockNotAvailable:
            return
        self._begun = None
        self._met("dropped while others work")

    def _rename(self, field: str) -> None:
        """A column of a field gets another name, and later its former one."""
        column = lens_fields.forms(self._there())[field].columns[-1]
        other = column.removesuffix("r") if column.endswith("r") else f"{column}r"
        way = self.chance.choice(("", "for sites"))
        self._ddl(way, [f"ALTER TABLE {TABLE} RENAME {column} TO {other}"])
        self._met("column renamed beside a lens")

    def _drop_spare(self) -> None:
        if "spare" in self._there():
            way = self.chance.choice(("", "for sites"))
            self._ddl(way, [f"ALTER TABLE {TABLE} DROP spare"])
            self._met("column gone beside a lens")

    def _drop_lens(self, field: str) -> bool:
        """Whether a lens could be dropped: nothing waits that may need it."""
        step, hq = self._lenses[field], self.sites["hq"]
        shown = {s: {*self._shown(s).values()} for s in SITES}
        # One that has the new columns beside the old ones gives values to both.
        old = [s for s in SITES if step.gone & shown[s] and not step.made & shown[s]]
        needed = [
            *(s for s in old if queued(self.sites[s])),
            *self._parked_with(step.gone),
        ]
        name = step.old.columns[0]
        (name, *_) = scalar(
            hq,
            "SELECT array_agg(gone -> 0 ->> 'name') FROM snaptide.lens"
            f" WHERE gone @> '[{{\"number\": {min(step.gone)}}}]'",
        )
        self.story.tell(f"hq: drop the lens of {name}, {needed=}")
        try:
            snapshots.drop_shape(hq, TABLE, name)
        except LensInUse as error:
            self.story.tell(f"  {error}")
            self._met("lens needed")
            return False
        assert not needed, f"the lens of {name} was dropped, and {needed} needs it"
        del self._lenses[field]
        self._met("lens dropped")
        return True

    def _parked_with(self, gone: frozenset[int]) -> list[str]:
        """Transactions in the error queue that give values to columns that are gone."""
        found = run(
            self.sites["hq"],
            "SELECT DISTINCT e.origin || ' ' || e.origin_transaction"
            " FROM snaptide.error_transaction e,"
            " jsonb_each(target_columns) t(name, its),"
            " jsonb_each(its -> 'numbers') n(name, number)"
            f" WHERE t.name LIKE '%{TABLE}'"
            f" AND n.number::text::int IN ({', '.join(map(str, gone))})",
        )
        return [str(one) for (one,) in found]

    # --- sites --------------------------------------------------------------------

    def _follow(self, site: str) -> None:
        """A site takes the columns that the master has."""
        shown, there = self._shown(site), self._there()
        called = {number: name for name, number in there.items()}
        rename = {n: called[no] for n, no in shown.items() if called.get(no, n) != n}
        spare = self.chance.random() < 0.5
        add = [n for n, no in there.items() if no not in shown.values()]
        drop = [n for n, no in shown.items() if no not in called]
        if spare and called.get(shown.get("spare", 0)):
            drop.append("spare")
        elif not spare and "spare" in add:
            add.remove("spare")
        if not (rename or add or drop):
            return
        self.story.tell(f"{site} follows: {rename=}, {add=}, {drop=}")
        try:
            report = snapshots.alter_columns(
                self.sites[site], TABLE, rename=rename, add=add, drop=drop
            )
        except SnaptideError as error:
            self.story.tell(f"  {error.code} {error}")
            self.story.count(f"follow refused by {type(error).__name__}")
            return
        finally:
            self.told.look()
            self.users.close()
        self.story.tell(f"  {report}")
        self._stuck.discard(site)
        self._met("site follows")

    def _make_again(self, site: str) -> None:
        """A snapshot is dropped once nothing waits in its queue, and made anew."""
        self.push(site)
        if queued(self.sites[site]):
            return
        self.story.tell(f"{site} makes its snapshot again")
        snapshots.drop(self.sites[site], TABLE)
        self._create(site, TABLE)
        self.users.close()
        self._stuck.discard(site)
        self._late.discard(site)
        self.refresh(site)
        self._met("snapshot made again")

    def _excused(self, site: str) -> str:
        """Why a site cannot be refreshed now, "" if it can."""
        if site in self._stuck:
            return "DDL has columns for it"
        there = {number: name for name, number in self._there().items()}
        shown = self._shown(site)
        for name, number in shown.items():
            if there.get(number, name) != name:
                return f"{name} is called {there[number]}"
            if number in there:
                continue
            lens = next((o for o in self._lenses.values() if number in o.gone), None)
            if lens is None:
                return f"{name} is gone"
            if lens.made & {*shown.values()}:
                return f"{name} is gone, and in its place is what the site has, too"
            if lens.old.field == "number" and self._bad():
                return f"{name} cannot be made"
        return ""

    def _bad(self) -> list[str]:
        """The master's columns for numbers that hold text which is none."""
        form = lens_fields.forms(self._there())["number"]
        if form.type == "int":
            return []
        [name] = form.columns
        found = scalar(
            self.sites["hq"], f"SELECT count(*) FROM {TABLE} WHERE {name} ~ '{BAD}'"
        )
        return [name] if found else []

    def push(self, site: str, *, group_max_calls: int = 10_000) -> None:
        """Push a site that has rows, and so a queue."""
        if site not in self._late:
            super().push(site, group_max_calls=group_max_calls)

    def refresh(self, site: str, method: str = "?") -> RefreshReport | None:
        """A snapshot stays behind only while no lens makes what it shows."""
        if method == "?":
            method = self.chance.choice(("?", "?", "?", "c"))
        excuse = self._excused(site)
        try:
            report = super().refresh(site, method)
        except SnaptideError as error:
            self.story.tell(f"  {error.code} {error}, {excuse=}")
            if not excuse and not isinstance(error, TargetColumnsMoved):
                raise
            self.story.count(f"refused by {type(error).__name__}")
            return None
        assert report is not None
        missing = {*self._shown(site).values()} - {*self._there().values()}
        if missing and any(one.code == ColumnsRefused.code for one in report.behind):
            self._stuck.add(site)
        moved = [one.code == TargetColumnsMoved.code for one in report.behind]
        assert self._excused(site) or excuse or all(moved), report.behind
        if site in self._late and not report.behind:
            self._late.discard(site)
            if missing:
                self._met("loaded by a lens")
        return report

    def _meanwhile(self, site: str) -> None:
        """The old columns may go while a site is pushed or refreshed."""
        drawn, nth = self.chance.random(), self.chance.randint(1, 25)
        step = self._begun
        if step is None or drawn > 0.5:
            super()._meanwhile(site)
            return
        with at_nth_point(nth, lambda: self._finish_meanwhile(step)) as moment:
            super()._meanwhile(site)
        if moment.point is not None:
            self.story.tell(f"  {step.old.columns} go at {moment.point}")

    # --- the error queue ----------------------------------------------------------

    def _decided(self, what: str, number: int, deed: Deed, pen: Pen) -> None:
        """A transaction is retried in one of all ways, maybe with others."""
        if what not in ("retry", "mend"):
            super()._decided(what, number, deed, pen)
            # What is edited starts from the row that it met: it writes its other
            # columns whole, so that of a field in one column no part stays.
            deed.edited |= {
                (place, part)
                for place, _ in deed.edited
                if place in deed.effect
                for part in lens_fields.parts_beside(deed.effect[place].columns)
            }
            return
        if what == "mend":
            self._mend(number, pen)
        hq = self.sites["hq"]
        reasons = {one.id: one.reason for one in deferred.list_errors(hq)}
        gone = reasons.get(number) == "column gone"
        way = pen.chance.choice(RETRIES if gone else RETRIES[:-1])
        options: Mapping[str, dict[str, Any]] = {
            "by number": {"error_ids": [number]},
            "of its site": {"origin": deed.site},
            "by reason": {"reason": reasons.get(number)},
            "with dependants": {"error_ids": [number], "with_dependants": True},
            "without gone": {"error_ids": [number], "without_gone": True},
        }
        known = {n: self._deed(*one) for n, *one in self.told.look()}
        self.story.tell(f"retry {number}, {deed.site}'s {deed.receipt}, {way}")
        done = deferred.retry_errors(hq, **options[way])
        self.story.tell(f"  {done}")
        came = dict(self.told.arrivals())
        for report in done:
            one = known.get(report.error_id)
            if one is None or not report.applied:
                continue
            self.tried[came[one.receipt]].append(one)
            self._count_parked(one, ", then retried")
            self.met[one.history].add(f"retried {way}")
            if way == "without gone":
                one.edited |= {
                    (place, column)
                    for place, change in one.effect.items()
                    for column in change.columns or (change.after or {})
                }
            elif reasons[report.error_id] == "column gone":
                self.met[one.history].add("retried through a lens")

    def _mend(self, number: int, pen: Pen) -> None:
        """A user of the master makes the rows what a parked transaction expects."""
        statements: list[Statement] = []
        forms = lens_fields.forms(self._there())
        for call in deferred.show_error(self.sites["hq"], number).calls:
            if call.table.rpartition(".")[2] != TABLE:
                continue
            if call.old is None:
                statements.append(delete(TABLE, int(str((call.new or {})["id"]))))
                continue
            row = {c.removesuffix(" (gone)"): v for c, v in call.old.items()}
            known: dict[str, object] = {c: v for c, v in row.items() if c == "note"}
            for its in lens_fields.forms(row).values():
                parts = its.parts(row)
                if BAD not in str(parts) or forms[its.field].type == "text":
                    known |= forms[its.field].values(parts)
            if known:
                statements.append(update(TABLE, int(str(row["id"])), **known))
        done, _ = self.write(pen, "hq", lambda _rows: statements)
        if isinstance(done, Deed):
            self.mended.add(done.transaction)

    # --- users, and the end -------------------------------------------------------

    def act(self, pen: Pen) -> None:
        """A row comes, goes, or changes."""
        site = pen.chance.choice(("hq", "jfk", "jfk", "lga", "lga"))
        site = "hq" if site in self._late else site
        columns = self._there() if site == "hq" else self._shown(site)
        forms, now = lens_fields.forms(columns), lens_fields.forms(self._there())
        spare = "spare" in columns
        done, _ = self.write(
            pen, site, lambda rows: lens_users.statements(pen, forms, rows, spare=spare)
        )
        if isinstance(done, Refusal) or not done.effect:
            return
        old = sum(now[field].number > form.number for field, form in forms.items())
        if old:
            self.met[pen.history].add("change of old columns")
        if old > 1:
            self.met[pen.history].add("change over two lenses")

    def settle(self) -> None:
        """Have a lens for what sites show, or have them follow, before it is quiet."""
        self._go_on()
        for site in SITES:
            self.push(site)
        for column in self._bad():
            self.alter(
                "texts that are no numbers go",
                [f"UPDATE {TABLE} SET {column} = NULL WHERE {column} ~ '{BAD}'"],
            )
        for site in SITES:
            lacks = {*FIELDS} - lens_fields.forms(self._shown(site)).keys()
            if self.chance.random() < 0.5 or self._excused(site) or lacks:
                self._follow(site)
        super().settle()
        for site in SITES:
            assert not self._excused(site), (site, self._excused(site))

    def judged(self) -> list[Violation]:
        """What nobody was told of; what a lens loses stays where nothing changes it."""
        found = super().judged()
        for transaction, old, new in run(
            self.sites["hq"], "SELECT xid, old, new FROM audit ORDER BY seq"
        ):
            if transaction in self.own or old is None or new is None:
                continue
            was, is_ = (lens_fields.meant(row, exactly=True) for row in (old, new))
            same = lens_fields.meant(old)["label"] == lens_fields.meant(new)["label"]
            if same and was["label"] != is_["label"]:
                what = f"label was {was}, is {is_}, though it is the same"
                found.append(Violation(new["h"], what))
        return found

    def _differences(self, site: str, history: int) -> list[str]:
        here, there = (
            {
                row["id"]: lens_fields.meant(row, exactly=True)
                for row in self.users.plain(one, history).values()
            }
            for one in (site, "hq")
        )
        return [
            f"{site} has {here.get(key)}, the master {there.get(key)}"
            for key in sorted({*here, *there})
            if here.get(key) != there.get(key)
        ]

    def _compared(self) -> list[Violation]:
        """A check finds the same."""
        counts = [
            (site, one.name, sum(c.rows for c in one.counts))
            for site in SITES
            for one in snapshots.check(self.sites[site]).snapshots
        ]
        wrong = [Violation(0, f"a check finds {one}") for one in counts if one[2]]
        return [*super()._compared(), *wrong]
