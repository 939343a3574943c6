"""Who was restored: what a site and its master remember of their last contact."""

import uuid

import pytest

from sites.errors import SiteReplaced, SiteRestored
from sites.sessions.identity import Identity
from sites.sessions.peers import Memory, Pair, Standing

JFK, HQ, NEW, OLD, T1, T2, T3 = (uuid.uuid4() for _ in range(7))


def _who(name: str, incarnation: uuid.UUID) -> Identity:
    return Identity(
        site_id=uuid.uuid4(),
        name=name,
        system_identifier=1,
        timeline=1,
        database_oid=1,
        incarnation=incarnation,
        generation=0,
    )


def _pair(
    at_site: tuple[int, uuid.UUID | None] = (2, T2),
    at_master: tuple[int, uuid.UUID | None] = (2, T2),
    *,
    promised: uuid.UUID | None = None,
    site: uuid.UUID = JFK,
    master: uuid.UUID = HQ,
    former_sites: tuple[uuid.UUID, ...] = (),
    former_masters: tuple[uuid.UUID, ...] = (),
) -> Pair:
    """They met as JFK and HQ, and hold number and token of the last contact."""
    return Pair(
        site=_who("jfk", site),
        master=_who("hq", master),
        at_site=Memory(
            incarnation=HQ if at_site[0] else None,
            former=former_masters,
            contact_no=at_site[0],
            token=at_site[1],
            next_token=promised,
        ),
        at_master=Memory(
            incarnation=JFK if at_master[0] else None,
            former=former_sites,
            contact_no=at_master[0],
            token=at_master[1],
        ),
    )


NEVER = (0, None)

CASES = {
    "strangers": (_pair(NEVER, NEVER), Standing.AGREED),
    "promised at the first contact": (
        _pair(NEVER, NEVER, promised=T1),
        Standing.AGREED,
    ),
    "the same token": (_pair(), Standing.AGREED),
    "died before the master had it": (_pair(promised=T3), Standing.AGREED),
    "died before the site knew": (
        _pair((2, T2), (3, T3), promised=T3),
        Standing.AGREED,
    ),
    "site older": (_pair((1, T1), (2, T2)), Standing.SITE_RESTORED),
    "site older, with a promise of its own": (
        _pair((1, T1), (3, T3), promised=T2),
        Standing.SITE_RESTORED,
    ),
    "site never met the master": (_pair(NEVER, (2, T2)), Standing.SITE_RESTORED),
    "master older": (_pair((2, T2), (1, T1)), Standing.MASTER_RESTORED),
    "master never met the site": (_pair((2, T2), NEVER), Standing.MASTER_RESTORED),
    "two copies went on": (_pair((2, T2), (2, T3)), Standing.SITE_RESTORED),
    "site older and repaired": (
        _pair((1, T1), (2, T2), site=NEW),
        Standing.AGREED,
    ),
    "master older and repaired": (
        _pair((2, T2), (1, T1), master=NEW),
        Standing.AGREED,
    ),
    "master repaired, site older": (
        _pair((1, T1), (2, T2), master=NEW),
        Standing.SITE_RESTORED,
    ),
    "site repaired, master older": (
        _pair((2, T2), (1, T1), site=NEW),
        Standing.MASTER_RESTORED,
    ),
    "both repaired": (
        _pair((1, T1), (2, T2), site=NEW, master=NEW),
        Standing.AGREED,
    ),
    "site that was replaced": (
        _pair(site=OLD, former_sites=(OLD,)),
        Standing.SITE_REPLACED,
    ),
    "master that was replaced": (
        _pair(master=OLD, former_masters=(OLD,)),
        Standing.MASTER_REPLACED,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_standing(case: str) -> None:
    pair, expected = CASES[case]
    assert pair.standing() is expected


def test_messages_name_the_site_to_repair() -> None:
    with pytest.raises(SiteRestored, match="site check jfk --repair"):
        _pair((1, T1), (2, T2)).confirm()
    with pytest.raises(SiteRestored, match="site check hq --repair"):
        _pair((2, T2), (1, T1)).confirm()
    with pytest.raises(SiteReplaced, match="as site jfk"):
        _pair(site=OLD, former_sites=(OLD,)).confirm()
    _pair().confirm()


def test_acquainted_only_with_what_both_are_now() -> None:
    assert _pair().acquainted
    assert not _pair(master=NEW).acquainted
    assert not _pair(site=NEW).acquainted
    assert not _pair(NEVER, NEVER).acquainted
