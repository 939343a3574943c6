"""What a site has around its snapshots: grants of roles, budgets, schedules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from psycopg import sql
from sqlalchemy import Connection, text

from deferred.schedules import EVERYTHING, check
from sites import QualifiedName, Site, names
from snaptide import limits
from snaptide.plan.around_steps import (
    PauseSchedule,
    RemoveSchedule,
    RunStatement,
    SetBudget,
    SetSchedule,
)
from snaptide.plan.document import ScheduleSection
from snaptide.plan.found import Found
from snaptide.plan.reader import SiteFile
from snaptide.plan.step import Step
from snaptide.plan.wanted import Wanted

_PUBLIC = "public"

#: Whether there is a role, and may use a schema, which may be still to come.
_ROLE = text("""
SELECT r.oid IS NOT NULL,
       COALESCE(has_schema_privilege(r.oid, n.oid, 'USAGE'), false)
FROM (SELECT 1) one
LEFT JOIN pg_roles r ON r.rolname = :role
LEFT JOIN pg_namespace n ON n.nspname = :schema
""")


def grants(
    file: SiteFile,
    site: Site,
    found: Found,
    wanted: Sequence[Wanted],
    extra: list[Step],
) -> list[Step]:
    """Grant roles what the file gives them; what they have besides is extra."""
    steps: list[Step] = []
    with site.session() as connection:
        for one in wanted:
            there = found.snapshots.get(one.name)
            has = dict(there.grants) if there else {}
            for role, rights in one.section.grants.items():
                missing = [r for r in rights if r not in has.get(role, ())]
                if missing:
                    statements = _granting(connection, file, one, role, missing)
                    steps += [
                        RunStatement(site=site.name, statement=s) for s in statements
                    ]
            for role, held in has.items():
                more = sorted(held - {*one.section.grants.get(role, ())})
                if more:
                    taken = _statement("REVOKE {} ON {} FROM {}", more, one.name, role)
                    extra.append(RunStatement(site=site.name, statement=taken))
    return steps


def _granting(
    connection: Connection,
    file: SiteFile,
    one: Wanted,
    role: str,
    rights: Sequence[str],
) -> Iterator[str]:
    if role != _PUBLIC:
        asked = {"role": role, "schema": one.name.schema}
        exists, may_use = connection.execute(_ROLE, asked).one()
        if not exists:
            place = (*one.path, "grants", role)
            raise file.source.error(place, f"the site has no role {role}")
        if not may_use:
            yield (
                sql.SQL("GRANT USAGE ON SCHEMA {} TO {}")
                .format(sql.Identifier(one.name.schema), sql.Identifier(role))
                .as_string(None)
            )
    yield _statement("GRANT {} ON {} TO {}", rights, one.name, role)


def _statement(
    template: str, rights: Sequence[str], name: QualifiedName, role: str
) -> str:
    to = sql.SQL("PUBLIC") if role == _PUBLIC else sql.Identifier(role)
    on = sql.SQL(", ").join(map(sql.SQL, rights))
    return sql.SQL(template).format(on, names.identifier(name), to).as_string(None)


def budgets(
    file: SiteFile,
    site: Site,
    found: Found,
    wanted: Sequence[Wanted],
    extra: list[Step],
) -> Iterator[Step]:
    """Set how much may wait for a destination; a budget of no other one is extra."""
    known = _destinations(found, wanted)
    for name, section in file.document.destinations.items():
        if name not in known:
            raise file.source.error(
                ("destinations", name), _unknown("destination", name, known)
            )
        age = None if section.age is None else limits.age_of(section.age)
        size = None if section.size is None else limits.bytes_of(section.size)
        there = found.destinations.get(name)
        has = (there.max_lag_age, there.max_lag_bytes) if there else (None, None)
        if has != (age, size):
            yield SetBudget(
                site=site.name, destination=name, age=section.age, size=section.size
            )
    for name, one in found.destinations.items():
        limited = one.max_lag_age is not None or one.max_lag_bytes is not None
        if limited and name not in file.document.destinations:
            extra.append(
                SetBudget(site=site.name, destination=name, age=None, size=None)
            )


def schedules(
    file: SiteFile,
    site: Site,
    found: Found,
    wanted: Sequence[Wanted],
    extra: list[Step],
) -> Iterator[Step]:
    """Set schedules; those that the file does not name are extra."""
    there = {(one.kind, one.subject): one for one in found.schedules}
    for number, one in enumerate(file.document.schedules):
        _refuse_unknown(file, number, one, found, wanted)
        now = there.pop((one.kind, one.subject), None)
        here = {"site": site.name, "kind": one.kind, "subject": one.subject}
        options = check(one.kind, one.subject, one.every, one.options)
        same = now is not None and (now.interval, dict(now.options)) == (
            one.every,
            options,
        )
        if not same:
            yield SetSchedule(**here, every=one.every, options=options)
        if one.paused != (same and now is not None and now.disabled):
            yield PauseSchedule(**here, paused=one.paused)
    extra += [
        RemoveSchedule(site=site.name, kind=kind, subject=subject)
        for kind, subject in there
    ]


def _refuse_unknown(
    file: SiteFile,
    number: int,
    one: ScheduleSection,
    found: Found,
    wanted: Sequence[Wanted],
) -> None:
    """Refuse a schedule for what the site will not have."""
    groups = {*found.groups, *(each.group for each in wanted)}
    known = {
        "push": _destinations(found, wanted) | {EVERYTHING},
        "refresh": groups,
        "purge": {EVERYTHING},
        "check": groups | {EVERYTHING},
    }[one.kind]
    if one.subject not in known:
        what = "destination" if one.kind == "push" else "refresh group"
        raise file.source.error(
            ("schedules", number, "subject"), _unknown(what, one.subject, known)
        )


def _destinations(found: Found, wanted: Sequence[Wanted]) -> set[str]:
    return {*found.destinations, *(one.home for one in wanted if one.section.updatable)}


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    return (
        f"the site will have no {what} {name!r}; it has: "
        f"{', '.join(sorted(known)) or 'none'}"
    )
