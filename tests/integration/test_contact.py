"""Each contact leaves a token at both sides, whatever stops it half way."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

import deferred
from deferred.batches import reconcile
from deferred.errors import PushInterrupted
from sites import Directory
from sites.errors import SiteRestored
from sites.sessions import contacts, identity
from sites.sessions.identity import Identity
from sites.sessions.peers import Pair
from sites.sessions.prepared import Prepared
from tests.fix_moments import Moments
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.let_go import LOCKS
from tests.linked_table import as_refresh, link, queued, rows, run


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """One order at both sites, changed once and pushed."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0)")
    _change(sites)
    deferred.push(sites["jfk"])


def test_a_master_that_has_no_grants_yet(orders: Directory) -> None:
    """One of an older version cannot be asked whose login it is."""
    run(
        orders["hq"],
        "DELETE FROM snaptide.peer",
        "DROP FUNCTION snaptide.granted_site() CASCADE",
    )
    run(orders["jfk"], "DELETE FROM snaptide.peer")
    _change(orders)
    assert deferred.push(orders["jfk"]).transactions == 1


POINTS = ("peers.after_promise", "peers.after_master")


@pytest.mark.parametrize("first", POINTS)
@pytest.mark.parametrize("second", POINTS)
def test_contacts_that_are_broken_off_one_after_the_other(
    orders: Directory, moments: Moments, first: str, second: str
) -> None:
    """What the master has taken is not forgotten for what it is given next."""
    before = _pair(orders)
    _change(orders)
    for point in (first, second):
        moments.at(point, _die)
        with pytest.raises(KeyboardInterrupt):
            deferred.push(orders["jfk"])
    assert deferred.push(orders["jfk"]).transactions == 1
    after = _pair(orders)
    assert after.remembers_the_same
    assert after.at_site.contact_no == after.at_master.contact_no
    assert after.at_site.contact_no > before.at_site.contact_no


def test_master_that_went_back_between_two_such_contacts(
    orders: Directory, moments: Moments
) -> None:
    """It is the master that is said to be older, not the site."""
    run(orders["hq"], "CREATE TABLE kept AS SELECT * FROM snaptide.peer")
    _change(orders)
    for point in reversed(POINTS):
        moments.at(point, _die)
        with pytest.raises(KeyboardInterrupt):
            deferred.push(orders["jfk"])
    run(
        orders["hq"],
        "UPDATE snaptide.peer p SET token = k.token, contact_no = k.contact_no"
        " FROM kept k WHERE p.site_id = k.site_id AND p.role = k.role",
    )
    with pytest.raises(SiteRestored, match="Site hq is older"):
        deferred.push(orders["jfk"])


@pytest.mark.parametrize("point", POINTS)
def test_contact_that_is_broken_off(
    orders: Directory, moments: Moments, point: str
) -> None:
    """Nothing has moved; the next contact finds the old or the promised token."""
    before = _pair(orders)
    _change(orders)
    moments.at(point, _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(orders["jfk"])
    assert queued(orders["jfk"]) == 1
    assert deferred.push(orders["jfk"]).transactions == 1
    after = _pair(orders)
    assert after.at_site.token == after.at_master.token != before.at_site.token
    assert after.at_site.contact_no > before.at_site.contact_no
    assert rows(orders["hq"])[0][2] == 2


#: The site has no room for the end of a contact.
FULL = "ALTER TABLE snaptide.peer ADD CONSTRAINT room CHECK (next_token IS NOT NULL)"
NOT_FULL = "ALTER TABLE snaptide.peer DROP CONSTRAINT room"


def test_contact_that_the_site_cannot_note_is_none(
    orders: Directory, moments: Moments
) -> None:
    """Whoever met believes in it otherwise, and it keeps others from meeting."""
    hq, jfk = orders["hq"], orders["jfk"]
    before = _pair(orders)
    moments.at("peers.after_master", lambda: run(jfk, f"{FULL} NOT VALID"))
    with jfk.session() as site, hq.session() as master:
        with pytest.raises(DBAPIError, match="room"):
            contacts.meet(site, master, before)()
        run(jfk, NOT_FULL)
        with jfk.session() as other:
            contacts.meet(other, master, _pair(orders))()
    assert _pair(orders).remembers_the_same


def test_push_hears_that_the_site_could_not_note_the_contact(
    orders: Directory, moments: Moments
) -> None:
    """It does not wait for that, but comes no further than to its next question."""
    jfk = orders["jfk"]
    _change(orders)
    moments.at("peers.after_master", lambda: run(jfk, f"{FULL} NOT VALID"))
    with pytest.raises(PushInterrupted, match="room"):
        deferred.push(jfk)
    assert rows(orders["hq"])[0][2] == 1
    run(jfk, NOT_FULL)
    assert deferred.push(jfk).transactions == 1
    assert _pair(orders).remembers_the_same


def test_an_interrupted_contact_whose_statement_has_failed_lets_others_meet(
    orders: Directory, moments: Moments
) -> None:
    """Nobody has read the answer of the statement that it had sent."""
    hq, jfk = orders["hq"], orders["jfk"]
    fails = Prepared(text("SELECT 1 / 0"))
    with jfk.session() as site, hq.session() as master:

        def interrupted() -> None:
            fails.send(site)
            raise KeyboardInterrupt

        moments.at("peers.after_promise", interrupted)
        with pytest.raises(KeyboardInterrupt):
            contacts.meet(site, master, _pair(orders))
    eventually(lambda: run(jfk, LOCKS) == [(0,)])
    _change(orders)
    assert deferred.push(jfk).transactions == 1
    assert _pair(orders).remembers_the_same


def test_another_contact_comes_between_the_comparison_and_the_token(
    orders: Directory, moments: Moments
) -> None:
    before = _pair(orders)

    def come_first() -> None:
        with orders["jfk"].session() as site, orders["hq"].session() as master:
            contacts.meet(site, master, before)()

    _change(orders)
    moments.at("push.before_cut_commit", come_first)
    assert deferred.push(orders["jfk"]).transactions == 1
    after = _pair(orders)
    assert after.remembers_the_same
    assert after.at_site.contact_no == before.at_site.contact_no + 2


def test_a_copy_comes_between_the_comparison_and_the_token(
    orders: Directory, moments: Moments
) -> None:
    """The master has met a copy of the site, which remembers nothing of that."""
    met = (
        "UPDATE snaptide.peer SET token = gen_random_uuid(),"
        " contact_no = contact_no + 1 WHERE role = 'site'"
    )
    _change(orders)
    moments.at("push.before_cut_commit", lambda: run(orders["hq"], met))
    with pytest.raises(SiteRestored, match="Site jfk is older"):
        deferred.push(orders["jfk"])
    assert queued(orders["jfk"]) == 1
    assert rows(orders["hq"])[0][2] == 1


def test_push_of_nothing_is_no_contact(orders: Directory) -> None:
    before = _pair(orders)
    assert deferred.push(orders["jfk"]).transactions == 0
    assert _pair(orders) == before


@pytest.mark.parametrize("older", ["hq", "jfk"])
def test_side_with_the_older_token_was_rolled_back(
    orders: Directory, older: str
) -> None:
    """All else about it is as it was."""
    run(orders[older], "CREATE TABLE kept AS SELECT * FROM snaptide.peer")
    _change(orders)
    deferred.push(orders["jfk"])
    run(
        orders[older],
        "UPDATE snaptide.peer p SET token = k.token, contact_no = k.contact_no"
        " FROM kept k WHERE p.site_id = k.site_id AND p.role = k.role",
    )
    _change(orders)
    with pytest.raises(SiteRestored, match=f"Site {older} is older"):
        deferred.push(orders["jfk"])
    assert queued(orders["jfk"]) == 1
    assert rows(orders["hq"])[0][2] == 2


def test_agreement_that_is_broken_off_changes_nothing(
    orders: Directory, moments: Moments
) -> None:
    run(orders["jfk"], "UPDATE snaptide.destination SET incarnation = NULL")
    moments.at("agreement.before_commit", _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(orders["jfk"])
    with orders["jfk"].session() as connection:
        assert not reconcile.is_reconciled(connection, _who(orders, "hq"))
    assert deferred.push(orders["jfk"]).transactions == 0
    with orders["jfk"].session() as connection:
        assert reconcile.is_reconciled(connection, _who(orders, "hq"))


def _change(sites: Directory) -> None:
    run(sites["jfk"], "UPDATE orders SET qty = qty + 1")


def _pair(sites: Directory) -> Pair:
    with sites["jfk"].session() as site, sites["hq"].session() as master:
        return contacts.compare(site, master, _who(sites, "jfk"), _who(sites, "hq"))


def _who(sites: Directory, name: str) -> Identity:
    with sites[name].session() as connection:
        return identity.read(connection)


def _die() -> None:
    raise KeyboardInterrupt
