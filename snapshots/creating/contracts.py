"""Sets the contract of a refresh group, at the master that keeps its logs by it."""

from __future__ import annotations

from datetime import timedelta

from masters.contracts import contract
from masters.contracts.contract import Contract, OnBreach, Promised, Terms
from masters.contracts.errors import TermsContradict
from sites.sessions import identity
from sites.sessions.site import Site
from snapshots.creating import answers
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import UnknownSnapshot


def set_contract(
    site: Site,
    group: str,
    *,
    visible_within: timedelta | None = None,
    answered_within: timedelta | None = None,
    may_be_away: timedelta | None = None,
    log_share: int | None = None,
    on_breach: OnBreach = OnBreach.TELL,
) -> Contract:
    """Set what a refresh group of a site is promised, and what the site may cost.

    It is about the snapshots that the group has now: set it again after another one
    has come. The site's master keeps it, and workers look at it once a minute.

    Parameters:
        visible_within: how old a change of the master may be that the site does not
            show; if one is older, the contract is late.
        answered_within: how old a change of the site may be that the master has not
            applied, settled or parked. A worker of the site looks at that.
        may_be_away: as `visible_within`; if one is older, the contract is broken.
        log_share: how many bytes of snapshot logs may be kept because of this site
            alone; more breaks the contract.
        on_breach: `tell` of a breach, and no more; `repair` the site: its refreshes
            take the way that costs least, and the master keeps its logs for them, up to
            `log_share`; or `release` the site: the master keeps no log for it from then
            on, until its next refresh.

    Raises:
        UnknownSnapshot: the site has no such group.
        PositionMoved: it was dropped meanwhile, or has got another master.
        ContractWithoutTerms, TermsContradict: no such contract can be kept; answers are
            promised to a group that changes nothing.
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the site or its
            master cannot be asked.
    """
    with identity.initialised(site) as connection:
        who = identity.read(connection)
        found = refresh_group.find(connection, group)
        members = snapshot.members(connection, group)
    if found is None:
        raise UnknownSnapshot(f"There is no refresh group {group}.", group=group)
    terms = Terms(
        visible_within=visible_within,
        answered_within=answered_within,
        may_be_away=may_be_away,
        log_share=log_share,
        on_breach=on_breach,
    )
    if answered_within is not None and not any(one.updatable for one in members):
        raise TermsContradict(
            f"Group {group} has no updatable snapshot, so none of its changes wait for "
            "an answer."
        )
    keys = [one.key for one in members]
    promised = Promised(
        visible_within=visible_within,
        answered_within=answered_within,
        repair=on_breach is OnBreach.REPAIR,
    )
    with identity.initialised(site.peer(found.master)) as master:
        made = contract.put(master, who.site_id, site.name, group, keys, terms)
        # The site commits first: if the master then does not, a refresh of the site
        # corrects what it keeps.
        with identity.initialised(site) as connection:
            refresh_group.stay(connection, found)
            answers.keep(connection, group, promised)
        return made
