"""`snaptide contract`: what sites are promised, and what they may cost their master."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text
from sqlalchemy.exc import DBAPIError

import masters
import snapshots
from masters import Contract, ContractChange, ContractState, OnBreach
from sites import Site
from sites.errors import SnaptideError
from snapshots import PastRefresh
from snaptide import ways
from snaptide.asking import as_told
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import facts, show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.limits import NONE, age_of, as_age, as_size, bytes_of, unless_none
from snaptide.units import duration, size

app = Verbs()

GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="A refresh group of that site.")
]
OfSite = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the site with the group.")
]

COLUMNS = ["contract of", "group", "", "since", "age", "limits", "looked at", "reason"]


#: So many refreshes are shown beside a contract.
REFRESHES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WithChanges:
    """A contract, the states that it has come into, and how its site was refreshed."""

    contract: Contract
    changes: list[ContractChange]
    #: the last refreshes that compared rows, the latest first; None if the site did not
    #: say, and why
    refreshes: list[PastRefresh] | None
    not_said: str | None


@app.command("set")
def set_(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    visible_within: Annotated[
        str, typer.Option(help="The age of changes that it does not show: 15m; none.")
    ] = NONE,
    answered_within: Annotated[
        str, typer.Option(help="The age of its changes without an answer: 5m; none.")
    ] = NONE,
    may_be_away: Annotated[
        str, typer.Option(help="As --visible-within; more breaks it: 30d; none.")
    ] = NONE,
    log_share: Annotated[
        str, typer.Option(help="The logs kept because of it alone: 20GB; none.")
    ] = NONE,
    on_breach: Annotated[
        OnBreach,
        typer.Option(help="Tell of a breach; also repair or release the site."),
    ] = OnBreach.TELL,
) -> None:
    """Set how old what a refresh group shows may be, and what it may cost its master.

    The master keeps the contract, and workers look at it once a minute.

    Example: snaptide contract set jfk airport --visible-within 15m --may-be-away 30d
    --on-breach release
    """
    made = snapshots.set_contract(
        site,
        group,
        visible_within=unless_none(visible_within, age_of),
        answered_within=unless_none(answered_within, age_of),
        may_be_away=unless_none(may_be_away, age_of),
        log_share=unless_none(log_share, bytes_of),
        on_breach=on_breach,
    )
    show(program, made)


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the contracts that a master keeps; ends with 3 if one is not kept.

    Example: snaptide contract list hq
    """
    found = masters.list_contracts(site)
    show(program, found, lambda: _listed(found))
    end_if(attention=any(one.state is not ContractState.KEPT for one in found))


@app.command("show")
def show_(program: Program, site: SiteArgument, name: OfSite, group: GroupName) -> None:
    """Show a contract that a master keeps, and each state that it has come into.

    If the site answers, the ways that its last refreshes took are shown, too, with what
    they cost and what was expected. Ends with 3 if the contract is not kept.

    Example: snaptide contract show hq jfk airport
    """
    changes = masters.contract_changes(site, name, group)
    [found] = [
        one
        for one in masters.list_contracts(site)
        if (one.site, one.group) == (name, group)
    ]
    refreshes, not_said = _refreshes(site, name, group)
    shown = WithChanges(
        contract=found, changes=changes, refreshes=refreshes, not_said=not_said
    )
    show(program, shown, lambda: _shown(shown))
    end_if(attention=found.state is not ContractState.KEPT)


@app.command()
def drop(program: Program, site: SiteArgument, name: OfSite, group: GroupName) -> None:
    """End a contract that a master keeps; the snapshots stay registered.

    Example: snaptide contract drop hq jfk airport
    """
    masters.drop_contract(site, name, group)
    show_facts(program, site=site.name, dropped=f"{name}:{group}")


def _listed(found: list[Contract]) -> Table:
    rows = [
        (
            one.site,
            one.group,
            one.state,
            one.since,
            duration(one.age),
            _limits(one),
            one.looked_at or "not yet",
            one.reason or "",
        )
        for one in found
    ]
    return table(COLUMNS, rows)


def _limits(one: Contract) -> str:
    limits = [
        f"visible {as_age(one.visible_within)}" if one.visible_within else "",
        f"answered {as_age(one.answered_within)}" if one.answered_within else "",
        f"away {as_age(one.may_be_away)}" if one.may_be_away else "",
        f"logs {size(one.log_bytes or 0)} of {as_size(one.log_share)}"
        if one.log_share
        else "",
        "" if one.on_breach is OnBreach.TELL else one.on_breach,
    ]
    return ", ".join(filter(None, limits))


def _refreshes(
    master: Site, name: str, group: str
) -> tuple[list[PastRefresh] | None, str | None]:
    """The last refreshes of a site that compared rows; else why it does not say."""
    try:
        past = snapshots.list_refreshes(master.peer(name), group)
    except (SnaptideError, DBAPIError) as error:
        told = as_told(error)
        return None, f"{told.code} {told.message}"
    return [one for one in past if one.ways][:REFRESHES], None


def _shown(one: WithChanges) -> Group:
    last: Table | Text
    if one.refreshes is None:
        last = Text(f"{one.contract.site} does not say which ways it took: ")
        last.append(str(one.not_said))
    else:
        rows = [
            (past.ended_at, past.outcome, "\n".join(ways.said(past.ways)))
            for past in one.refreshes
        ]
        last = table(["refreshed", "outcome", "ways"], rows)
    parts = facts(one.contract), Text(), _changes(one.changes), Text(), last
    return Group(*parts)


def _changes(changes: list[ContractChange]) -> Table:
    rows = [(one.at, one.state, one.reason or "") for one in changes]
    return table(["at", "state", "reason"], rows)
