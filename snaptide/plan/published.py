"""What a site publishes as a master, and to whom: compared with what a file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from masters import Grant, Publication, PublishedTable
from masters.publications import template
from sites import Site, names
from snaptide.plan.document import GrantSection, PublicationSection
from snaptide.plan.found import Found
from snaptide.plan.parameters import escaped
from snaptide.plan.published_steps import (
    AlterPublication,
    CreatePublication,
    DropPublication,
    GrantPublication,
    RevokePublication,
    facts,
)
from snaptide.plan.reader import SiteFile
from snaptide.plan.step import Step


def publications(
    file: SiteFile, site: Site, found: Found, extra: list[Step], refused: list[str]
) -> Iterator[Step]:
    """Make, alter and grant publications; what the file does not name is extra."""
    there = {one.name: one for one in found.publications}
    sections = file.document.publications
    wanted = {name: _tables(section) for name, section in sections.items()}
    refused += _taken(wanted, there, site.name)
    changed = [
        name
        for name, tables in wanted.items()
        if name in there
        and (facts(tables), sections[name].ddl)
        != (facts(there[name].tables), there[name].ddl)
    ]
    # A table is in one publication: those that only give tables away come first.
    for name in sorted(changed, key=lambda name: _gains(wanted[name], there[name])):
        before = there[name]
        yield from _revoked(site.name, before, wanted[name], sections[name], refused)
        yield AlterPublication(
            site=site.name,
            name=name,
            tables=wanted[name],
            ddl=sections[name].ddl,
            before=before,
        )
    for name, tables in wanted.items():
        if name not in there:
            yield CreatePublication(
                site=site.name, name=name, tables=tables, ddl=sections[name].ddl
            )
    for name, section in sections.items():
        yield from _grants(site.name, name, section, there.get(name))
    extra += _left_over(site.name, sections, there)


def exported(found: Found) -> dict[str, Any]:
    """The publications of a site, as a file describes them."""
    said = {
        one.name: {
            "tables": {
                each.table: _said(
                    where=each.where,
                    columns=None if each.columns is None else [*each.columns],
                )
                for each in one.tables
            },
            **({} if one.ddl else {"ddl": False}),
            **_said(grants={grant.site: _grant(grant) for grant in one.grants}),
        }
        for one in found.publications
    }
    # All of it at once: a text that is escaped twice means another one.
    made: dict[str, Any] = escaped(said)
    return made


def _grant(grant: Grant) -> dict[str, Any]:
    login = None if grant.login == grant.site else grant.login
    params = dict(grant.parameters)
    return _said(login=login, updatable=grant.updatable, params=params)


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _tables(section: PublicationSection) -> tuple[PublishedTable, ...]:
    made = {
        names.parse(name): PublishedTable(
            table=str(names.parse(name)), where=one.where, columns=one.columns
        )
        for name, one in section.tables.items()
    }
    return tuple(made[name] for name in sorted(made))


def _gains(now: tuple[PublishedTable, ...], before: Publication) -> bool:
    return not {one.table for one in now} <= {one.table for one in before.tables}


def _taken(
    wanted: Mapping[str, tuple[PublishedTable, ...]],
    there: Mapping[str, Publication],
    site: str,
) -> Iterator[str]:
    """The tables that a publication has which the file does not name."""
    mine = {one.table: name for name, tables in wanted.items() for one in tables}
    for name, one in there.items():
        taken = [each.table for each in one.tables if each.table in mine]
        if name not in wanted and taken:
            drop = DropPublication(site=site, name=name).command
            yield f"{', '.join(taken)}: publication {name} has it, too ({drop})"


def _revoked(
    site: str,
    before: Publication,
    tables: tuple[PublishedTable, ...],
    section: PublicationSection,
    refused: list[str],
) -> Iterator[Step]:
    """Revoke grants that lack a value for a parameter which a publication gets."""
    needed = {p for one in tables for p in template.read(one.where).parameters}
    for grant in before.grants:
        lacking = ", ".join(sorted(needed - grant.parameters.keys()))
        if not lacking:
            continue
        step = RevokePublication(site=site, publication=before.name, of=grant.site)
        if grant.site in section.grants:
            yield step
        else:
            refused.append(
                f"publication {before.name} is granted to {grant.site} without a value "
                f"for {lacking}, and the file has none either ({step.command})"
            )


def _grants(
    site: str, name: str, section: PublicationSection, there: Publication | None
) -> Iterator[Step]:
    has = {one.site: one for one in there.grants} if there else {}
    for to, one in section.grants.items():
        if not _is_same(to, one, has.get(to)):
            yield GrantPublication(
                site=site,
                publication=name,
                to=to,
                login=one.login or to,
                parameters=one.params,
                updatable=one.updatable,
            )


def _is_same(to: str, one: GrantSection, has: Grant | None) -> bool:
    return has is not None and (has.login, dict(has.parameters), has.updatable) == (
        one.login or to,
        dict(one.params),
        one.updatable,
    )


def _left_over(
    site: str,
    sections: Mapping[str, PublicationSection],
    there: Mapping[str, Publication],
) -> Iterator[Step]:
    for name, one in there.items():
        named = sections[name].grants if name in sections else {}
        for grant in one.grants:
            if grant.site not in named:
                yield RevokePublication(site=site, publication=name, of=grant.site)
        if name not in sections:
            yield DropPublication(site=site, name=name)
