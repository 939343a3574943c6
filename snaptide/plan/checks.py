"""What a file may not say of publications and contracts, whatever a master has."""

from __future__ import annotations

from datetime import timedelta

from masters.contracts.contract import Terms, refuse_unfit
from masters.publications import template
from masters.publications.errors import BadTemplate
from sites import QualifiedName, names
from snaptide import limits
from snaptide.plan.document import ContractSection, Document, GrantSection
from snaptide.plan.source import Path, Source


def check_publications(document: Document, source: Source) -> None:
    """Refuse publications that no master would make.

    Raises:
        BadSiteFile: the message names the place in the file.
    """
    of: dict[QualifiedName, str] = {}
    logins: dict[str, str] = {}
    for name, section in document.publications.items():
        path = ("publications", name)
        needed: set[str] = set()
        for table, one in section.tables.items():
            place = (*path, "tables", table)
            key = names.parse(table)
            if key in of:
                raise source.error(place, f"publication {of[key]} has it, too")
            of[key] = name
            try:
                needed |= {*template.read(one.where).parameters}
            except BadTemplate as error:
                raise source.error((*place, "where"), error.message) from None
        for site, grant in section.grants.items():
            _check_grant(source, (*path, "grants", site), grant, needed)
            login = grant.login or site
            if logins.setdefault(login, site) != site:
                reason = f"{login} is the login of {logins[login]}"
                raise source.error((*path, "grants", site), reason)


def _check_grant(
    source: Source, path: Path, grant: GrantSection, needed: set[str]
) -> None:
    if {*grant.params} != needed:
        known = ", ".join(sorted(needed)) or "none"
        given = ", ".join(sorted(grant.params)) or "none"
        raise source.error(
            path,
            f"it gives values for {given}; the parameters of the publication are: "
            f"{known}",
        )


def check_contracts(document: Document, source: Source) -> None:
    """Refuse contracts that no master would keep.

    Raises:
        BadSiteFile: the message names the place in the file.
    """
    for group, section in document.contracts.items():
        with source.naming(("contracts", group)):
            refuse_unfit(terms_of(section))
        if group not in document.groups:
            known = ", ".join(document.groups) or "none"
            reason = f"there is no [groups.{group}]; the groups are: {known}"
            raise source.error(("contracts", group), reason)


def terms_of(section: ContractSection) -> Terms:
    """The terms that a file gives.

    Raises:
        BadInterval, BadArgument: one is no age, or no size.
    """
    share = section.log_share
    return Terms(
        visible_within=_age(section.visible_within),
        answered_within=_age(section.answered_within),
        may_be_away=_age(section.may_be_away),
        log_share=None if share is None else limits.bytes_of(share),
        on_breach=section.on_breach,
    )


def _age(text: str | None) -> timedelta | None:
    return None if text is None else limits.age_of(text)
