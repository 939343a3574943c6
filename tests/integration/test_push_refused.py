"""What stops a push leaves the queue as it is, and is said where people look."""

import logging
import traceback

import pytest
from sqlalchemy import make_url

import deferred
from deferred.errors import (
    DestinationDisabled,
    DestinationQuiet,
    NoSuchDestination,
    PushInterrupted,
)
from deferred.options import ErrorAction
from deferred.queues.backlog import set_disabled
from sites import Directory, Site, SnaptideError
from sites.errors import SiteChanged, SiteUnreachable, UnknownSite
from tests.fix_worlds import prepared_once
from tests.linked_table import link, parked, queued, rows, run

SECRET = "n0t-the-pa55w0rd"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two transactions are queued."""
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (2)")


def test_unreachable_destination_leaves_the_queue(orders: Directory) -> None:
    far = Directory(
        {"jfk": _url(orders["jfk"]), "hq": "postgresql://u:p@127.0.0.1:1/hq"}
    )
    with pytest.raises(SiteUnreachable) as caught:
        deferred.push(far["jfk"])
    far.close()
    assert queued(orders["jfk"]) == 2
    assert _last_error(orders["jfk"]) == caught.value.message
    assert deferred.push(orders["jfk"]).transactions == 2
    assert _last_error(orders["jfk"]) is None


def test_wrong_password_is_never_printed(
    orders: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = make_url(_url(orders["hq"])).set(password=SECRET)
    far = Directory({"jfk": _url(orders["jfk"]), "hq": wrong})
    with pytest.raises(SiteUnreachable) as caught:
        deferred.push(far["jfk"])
    said = [
        str(caught.value),
        repr(caught.value),
        repr(caught.value.facts),
        "".join(traceback.format_exception(caught.value)),
        str(_last_error(orders["jfk"])),
        repr(far),
        repr(far["hq"]),
        str(far["hq"]),
        repr(far["hq"].engine),
        caplog.text,
    ]
    far.close()
    assert "password authentication failed" in said[0]
    assert not [text for text in said if SECRET in text]


def test_unknown_destination_site(orders: Directory) -> None:
    alone = Directory({"jfk": _url(orders["jfk"])})
    with pytest.raises(UnknownSite, match="known: jfk"):
        deferred.push(alone["jfk"])
    alone.close()
    assert queued(orders["jfk"]) == 2


def test_destination_that_nothing_is_queued_for(orders: Directory) -> None:
    with pytest.raises(NoSuchDestination, match="known: hq"):
        deferred.push(orders["jfk"], "lga")
    with pytest.raises(NoSuchDestination, match="known: none"):
        deferred.push(orders["hq"])


def test_disabled_destination(orders: Directory) -> None:
    set_disabled(orders["jfk"], "hq", disabled=True)
    with pytest.raises(DestinationDisabled):
        deferred.push(orders["jfk"])
    assert queued(orders["jfk"]) == 2
    set_disabled(orders["jfk"], "hq", disabled=False)
    assert deferred.push(orders["jfk"]).transactions == 2


def test_name_that_leads_to_another_site(orders: Directory) -> None:
    """The master's URL leads to the site itself."""
    here = _url(orders["jfk"])
    crossed = Directory({"jfk": here, "hq": here})
    with pytest.raises(SiteChanged, match="says that it is jfk"):
        deferred.push(crossed["jfk"])
    crossed.close()
    assert queued(orders["jfk"]) == 2


def test_restored_site_is_found_out(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE snaptide.site_identity SET database_oid = 1")
    with pytest.raises(SiteChanged, match="database oid"):
        deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE orders DROP COLUMN qty", "no longer has the column qty"),
        (
            "ALTER TABLE orders RENAME COLUMN qty TO quantity",
            "no longer has the column qty",
        ),
        ("DROP TABLE orders", "no table orders"),
        ("ALTER TABLE orders ADD COLUMN must int NOT NULL", None),
    ],
    ids=["dropped", "renamed", "table dropped", "more needed"],
)
def test_changed_schema_at_the_master(
    orders: Directory, change: str, said: str | None
) -> None:
    """Rights and schema are the system's, not the data's: nothing is parked."""
    run(orders["hq"], change)
    run(orders["jfk"], "UPDATE orders SET qty = 1 WHERE id = 1")
    if said is None:  # the data's: a row without the new column's value
        assert deferred.push(orders["jfk"]).errors == 3
        return
    with pytest.raises(SnaptideError) as caught:
        deferred.push(orders["jfk"])
    assert said in caught.value.message
    assert said in str(_last_error(orders["jfk"]))
    assert queued(orders["jfk"]) == 3
    assert parked(orders["hq"]) == []


def test_broken_trigger_at_the_master_leaves_the_batch(orders: Directory) -> None:
    run(
        orders["hq"],
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM gone FROM nowhere; RETURN NEW; END $$",
        "CREATE TRIGGER broken BEFORE INSERT ON orders"
        " FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION broken()",
    )
    with pytest.raises(PushInterrupted) as caught:
        deferred.push(orders["jfk"])
    assert caught.value.facts["sqlstate"] == "42P01"
    # What came before it is delivered; it waits, and what comes after it too.
    assert [row[0] for row in rows(orders["hq"])] == [1]
    assert "nowhere" in str(_last_error(orders["jfk"]))
    run(orders["hq"], "DROP TRIGGER broken ON orders")
    assert deferred.push(orders["jfk"]).transactions == 1
    assert parked(orders["hq"]) == []


def test_missing_right_at_the_master_leaves_the_batch(orders: Directory) -> None:
    """A right somebody took away; a trigger that says the same refuses a row."""
    hq, jfk = orders["hq"], orders["jfk"]
    run(
        hq,
        "CREATE TABLE audited (id int)",
        "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
        " $$ BEGIN INSERT INTO public.audited VALUES (NEW.id); RETURN NEW; END $$",
        "CREATE ROLE auditor",
        "GRANT CREATE ON SCHEMA public TO auditor",
        "ALTER FUNCTION audit() OWNER TO auditor",
        "CREATE TRIGGER audit BEFORE INSERT ON orders"
        " FOR EACH ROW EXECUTE FUNCTION audit()",
    )
    with pytest.raises(PushInterrupted) as caught:
        deferred.push(jfk)
    assert caught.value.facts["sqlstate"] == "42501"
    assert queued(jfk) == 2
    assert parked(hq) == []
    run(hq, "GRANT INSERT ON audited TO auditor")
    assert deferred.push(jfk).transactions == 2
    run(hq, "DROP OWNED BY auditor CASCADE", "DROP ROLE auditor")


@pytest.mark.usefixtures("impatient")
def test_lock_timeout_at_the_master_leaves_the_batch(orders: Directory) -> None:
    run(
        orders["hq"],
        "CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE lock_not_available; END $$",
        "CREATE TRIGGER busy BEFORE INSERT ON orders"
        " FOR EACH ROW EXECUTE FUNCTION busy()",
    )
    with pytest.raises(PushInterrupted):
        deferred.push(orders["jfk"])
    assert queued(orders["jfk"]) == 2
    assert parked(orders["hq"]) == []


def _last_error(site: Site) -> str | None:
    [(text,)] = run(site, "SELECT last_error FROM snaptide.destination")
    return None if text is None else str(text)


def _url(site: Site) -> str:
    return site.url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_site_without_a_group_is_told_how_pushes_go_on(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(DestinationQuiet) as told:
        deferred.push(jfk, error_action=ErrorAction.QUIET_DATABASE)
    assert "snaptide push SITE DESTINATION --enable" in told.value.hint
    with pytest.raises(DestinationDisabled):
        deferred.push(jfk)
    set_disabled(jfk, "hq", disabled=False)
    assert deferred.push(jfk).errors == 1
