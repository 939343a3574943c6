"""After a restore of a master: what it has leased, as the sites know it."""

from __future__ import annotations

from sqlalchemy import exists, select

from masters.catalog import snapshot_log
from masters.errors import CannotLease, SequenceBehind
from masters.numbers import ledger, ranges
from sites.errors import OtherSchema, SiteNotInitialised, SiteUnreachable
from sites.sessions import identity
from sites.sessions.identity import Identity
from sites.sessions.site import Site


def ask_sites(site: Site, me: Identity) -> list[str]:
    """Note the leases that other sites have from this one, and go past them; commits.

    All sites of the settings are asked, since a restored master may have forgotten
    which of them lease from it.

    Parameters:
        me: the identity that the site has, or had before it was restored.

    Returns:
        What is still unknown, one sentence for each site or column.
    """
    with site.transaction() as connection:
        if not connection.scalar(select(exists().select_from(snapshot_log))):
            return []
    unknown = []
    for name, other in site.directory.items():
        if name == site.name:
            continue
        try:
            with identity.initialised(other, partner=True) as there:
                holder = identity.read(there, partner=True)
                held = ranges.held(there, me.site_id)
        except (SiteUnreachable, SiteNotInitialised, OtherSchema) as error:
            unknown.append(f"{name} was not asked: {error.message}")
            continue
        for (table, column), stretches in held.items():
            try:
                with site.transaction() as connection:
                    ledger.record(connection, holder, table, column, stretches)
            except (CannotLease, SequenceBehind) as error:
                unknown.append(f"{name}: {error.message}")
    return unknown
