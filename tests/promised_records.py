"""What happened to the changes of promised sites, by the databases' own records.

The server keeps the time of each commit. Triggers of the test note what a master hears
of its sites, and tells of them, and what sites hear of their master.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sites import Site
from tests.linked_table import run

if TYPE_CHECKING:
    from tests.promised import Promise

#: A stretch of time, in seconds since the epoch.
Stretch = tuple[float, float]

#: Seconds by which two clocks may differ about an age: the one that says when a change
#: was committed, and the one of a look, which is read before a statement is sent.
TOLERANCE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was promised to a site, and what was told of it."""

    kind: str
    #: how often it was not kept, and how often that was told
    breaches: int
    told: int
    #: what was told that was not so, and what was not told
    wrong: Sequence[str]


#: What a master hears of its sites, and what it tells of contracts.
AT_MASTER = (
    (
        "CREATE TABLE public.heard (site text, position pg_snapshot,"
        " xid xid8 DEFAULT pg_current_xact_id())"
    ),
    (
        "CREATE FUNCTION public.heard() RETURNS trigger LANGUAGE plpgsql"
        " SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'BEGIN"
        " INSERT INTO public.heard VALUES (new.site_name, new.position);"
        " RETURN NULL; END'"
    ),
    "REVOKE EXECUTE ON FUNCTION public.heard FROM PUBLIC",
    (
        "CREATE TRIGGER heard AFTER INSERT OR UPDATE ON snaptide.registered_snapshot"
        " FOR EACH ROW EXECUTE FUNCTION public.heard()"
    ),
    (
        "CREATE TABLE public.told (contract_id int, at timestamptz, state text,"
        " noted timestamptz DEFAULT clock_timestamp())"
    ),
    (
        "CREATE FUNCTION public.told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
        " INSERT INTO public.told VALUES (new.contract_id, new.at, new.state);"
        " RETURN NULL; END'"
    ),
    (
        "CREATE TRIGGER told AFTER INSERT ON snaptide.contract_change"
        " FOR EACH ROW EXECUTE FUNCTION public.told()"
    ),
)

#: What a site hears of answers, and what it finds when it looks for them.
AT_SITE = (
    (
        "CREATE TABLE public.heard (answered bigint,"
        " xid xid8 DEFAULT pg_current_xact_id())"
    ),
    (
        "CREATE FUNCTION public.heard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
        " INSERT INTO public.heard VALUES (new.answered); RETURN NULL; END'"
    ),
    (
        "CREATE TRIGGER heard AFTER INSERT OR UPDATE ON snaptide.batch"
        " FOR EACH ROW EXECUTE FUNCTION public.heard()"
    ),
    (
        "CREATE TABLE public.looked (state text, begun timestamptz DEFAULT now(),"
        " ended timestamptz DEFAULT clock_timestamp())"
    ),
    (
        "CREATE FUNCTION public.looked() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
        " INSERT INTO public.looked VALUES (new.state); RETURN NULL; END'"
    ),
    (
        "CREATE TRIGGER looked AFTER UPDATE ON snaptide.promise FOR EACH ROW"
        " WHEN (new.looked_at IS DISTINCT FROM old.looked_at)"
        " EXECUTE FUNCTION public.looked()"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """When a change was made, and what became of it; infinite if nothing did."""

    made: float
    #: when the other end had it
    came: float
    #: when the side heard of that which tells of late changes
    heard: float


def judge_visible(
    hq: Site,
    site: Site,
    one: Promise,
    xids: Sequence[str],
    *,
    until: float,
    kills: Sequence[Stretch],
) -> Judged:
    """What the master tells of changes that the site is to show.

    It begins in a breach, and stands until a look after it. Workers and users have
    stopped.

    Parameters:
        xids: the transactions of the first change at the master, and of those after it.
        until: when the last look was over.
        kills: when processes were killed that tell the master what a site shows.
    """
    changes = _of_master(hq, site, one, xids)
    certain = _late(changes, one.within + TOLERANCE, until)
    possible = _late(changes, one.within - TOLERANCE, math.inf)
    told = _told(hq, one.site)
    wrong = {
        "untold": _apart(certain, [(begun[0], end) for begun, end in told]),
        "no breach": _apart([begun for begun, _ in told], possible),
        "heard before it came": _early(changes),
        "heard after what came later": _unheard(changes, kills),
    }
    return Judged(
        kind="visible at granted sites" if one.granted else "visible",
        breaches=len(certain),
        told=len(told),
        wrong=_said(wrong, one),
    )


def judge_answered(hq: Site, site: Site, one: Promise, answered: float) -> Judged:
    """What the site tells of its changes that the master is to answer.

    It is what each look finds: of what has ended before a look, nothing is told.
    Workers and users have stopped.

    Parameters:
        answered: seconds within which a change is to be answered.
    """
    changes = _of_site(hq, site, one)
    looks = _looks(site)
    certain = [
        when
        for _, when in looks
        if any(
            c.made + answered + TOLERANCE < when[0] and when[1] < c.came
            for c in changes
        )
    ]
    told = [when for is_late, when in looks if is_late]
    wrong = {
        "answer untold": [when for when in certain if when not in told],
        "answer in time": [
            when
            for when in told
            if not any(
                c.made + answered - TOLERANCE < when[1] and when[0] < c.heard
                for c in changes
            )
        ],
        "heard before it came": _early(changes),
    }
    return Judged(
        kind="answers to granted sites" if one.granted else "answers",
        breaches=len(certain),
        told=len(told),
        wrong=_said(wrong, one),
    )


def _late(changes: Sequence[Change], limit: float, until: float) -> list[Stretch]:
    """When the oldest change that was not heard of was older than a limit, in order.

    Parameters:
        changes: in the order in which they were made.
        until: the last time at which anybody looked.
    """
    found: list[Stretch] = []
    for one in changes:
        begun, over = one.made + limit, min(one.heard, until)
        if begun >= over:
            continue
        if found and begun <= found[-1][1]:
            found[-1] = found[-1][0], max(over, found[-1][1])
        else:
            found.append((begun, over))
    return found


def _of_master(hq: Site, site: Site, one: Promise, xids: Sequence[str]) -> list[Change]:
    """The changes that users of the master have made, which the site is to show.

    Parameters:
        xids: the transactions of the first change, and of those after it.
    """
    shown = dict(
        run(
            site,
            "SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8"
            f' FROM public."snap$_{one.table}" WHERE id > 0',
        )
    )
    given = ", ".join(
        f"({number}, '{xid}'::xid8)" for number, xid in enumerate(xids, 1)
    )
    found = run(
        hq,
        "SELECT m.id, extract(epoch FROM pg_xact_commit_timestamp(m.xid::xid))::float8,"
        " (SELECT extract(epoch FROM min(pg_xact_commit_timestamp(h.xid::xid)))::float8"
        f"  FROM public.heard h WHERE h.site = '{one.site}'"
        "  AND pg_visible_in_snapshot(m.xid, h.position))"
        f" FROM (VALUES {given}) m (id, xid) ORDER BY 1",
    )
    return [
        Change(made=made, came=shown.get(id_, math.inf), heard=heard or math.inf)
        for id_, made, heard in found
    ]


def _of_site(hq: Site, site: Site, one: Promise) -> list[Change]:
    """The changes that users of the site have made, which the master is to answer."""
    answered = dict(
        run(
            hq,
            "SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8"
            f" FROM public.{one.table} WHERE id < 0",
        )
    )
    found = run(
        site,
        "SELECT b.id, extract(epoch FROM pg_xact_commit_timestamp(b.xmin))::float8,"
        " (SELECT extract(epoch FROM min(pg_xact_commit_timestamp(h.xid::xid)))::float8"
        "  FROM public.heard h WHERE h.answered >= d.order_no)"
        f' FROM public."snap$_{one.table}" b'
        " JOIN snaptide.deferred_transaction d ON d.xid::xid = b.xmin"
        " WHERE b.id < 0 ORDER BY 2",
    )
    return [
        Change(made=made, came=answered.get(id_, math.inf), heard=heard or math.inf)
        for id_, made, heard in found
    ]


def _unheard(changes: Sequence[Change], kills: Sequence[Stretch]) -> list[Stretch]:
    """Changes that had come before a later one came, and were not heard of by then.

    A refresh tells the master of changes before the next one brings more, unless the
    worker is killed.

    Returns:
        When each came, and when it was heard of.
    """
    found = []
    moments = sorted({one.came for one in changes if one.came < math.inf})
    for before, later in pairwise(moments):
        if any(begun <= later and before <= ended for begun, ended in kills):
            continue
        found += [
            (one.came, one.heard)
            for one in changes
            if one.came <= before and one.heard > later
        ]
    return found


def _told(hq: Site, site: str) -> list[tuple[Stretch, float]]:
    """When a contract was told not to be kept, and when it was told again to be.

    Returns:
        When it was so by what was told, and when that was noted; and the end, infinite
        if there is none.
    """
    rows = run(
        hq,
        "SELECT t.state = 'kept', extract(epoch FROM t.at)::float8,"
        " extract(epoch FROM noted)::float8 FROM public.told t"
        " JOIN snaptide.contract c ON c.id = t.contract_id"
        f" WHERE c.site_name = '{site}' ORDER BY noted",
    )
    found: list[tuple[Stretch, float]] = []
    begun: Stretch | None = None
    for is_kept, at, noted in rows:
        if is_kept and begun is not None:
            found.append((begun, noted))
            begun = None
        elif not is_kept and begun is None:
            begun = at, noted
    return found if begun is None else [*found, (begun, math.inf)]


def _looks(site: Site) -> list[tuple[bool, Stretch]]:
    """What a site found when it looked for answers: late or not, and when."""
    return [
        (late_, (begun, ended))
        for late_, begun, ended in run(
            site,
            "SELECT state = 'late', extract(epoch FROM begun)::float8,"
            " extract(epoch FROM ended)::float8 FROM public.looked ORDER BY begun",
        )
    ]


def _apart(some: Sequence[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """Those of some that meet none of the others."""
    return [one for one in some if not any(_meet(one, other) for other in others)]


def _meet(one: Stretch, other: Stretch) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _early(changes: Sequence[Change]) -> list[Stretch]:
    return [(one.came, one.heard) for one in changes if one.heard < one.came]


def _said(wrong: Mapping[str, Sequence[Stretch]], one: Promise) -> list[str]:
    return [f"{what}: {one}, {when}" for what, those in wrong.items() for when in those]
