"""In-doubt transactions: who finishes them, and what nobody guesses."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

import synchronous
from sites import Directory, Site, faults
from sites.faults import InjectedFault
from sites.sessions import identity
from synchronous import commit, recovery
from synchronous.decision import Answer
from synchronous.errors import DecidedOtherwise, NotInDoubt, OutcomeUnknown
from synchronous.gid import Gid
from synchronous.site_cache import SiteCache
from tests.coordinated import is_recovery_wanted, left_over, prepared, quantities
from tests.fix_worlds import prepared_once
from tests.linked_table import link, run, run_everywhere


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """The table `orders` at both sites, with one row, propagated synchronously."""
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 1)")


@pytest.fixture
def abandon(linked: Directory, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Have a coordinator stop at a fault point, and say what it leaves in doubt."""

    def abandon(point: str) -> str:
        class Gone(BaseException):
            pass

        def stop(name: str) -> None:
            if name == point:
                raise Gone

        # It dies without a word to anyone: nothing is released on the way out.
        with monkeypatch.context() as patch:
            patch.setattr(faults, "point", stop)
            patch.setattr("synchronous.commit._find_out", _say_nothing)
            with pytest.raises(Gone):
                change(linked)
        (left,) = prepared(linked["hq"])
        return left

    return abandon


def _say_nothing(*args: object) -> None:
    raise args[-1]  # type: ignore[misc]


def change(sites: Directory, quantity: int = 7) -> None:
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text(f"UPDATE orders SET qty = {quantity} WHERE id = 1"))


@pytest.mark.parametrize("at", ["hq", "jfk"])
def test_a_decision_reaches_the_master_from_either_side(
    linked: Directory, abandon: Callable[[str], str], at: str
) -> None:
    assert not any(map(is_recovery_wanted, linked.values()))
    abandon("synchronous.after_decision")
    assert [quantities(site)[1] for site in linked.values()] == [1, 7]
    assert all(map(is_recovery_wanted, linked.values()))

    report = synchronous.recover(linked[at])

    assert report.committed + report.settled == 1
    assert [quantities(site)[1] for site in linked.values()] == [7, 7]
    synchronous.recover(linked["jfk"])
    assert run(linked["jfk"], "SELECT count(*) FROM snaptide.decision")[0][0] == 0
    assert left_over(linked) == {}
    assert not any(map(is_recovery_wanted, linked.values()))


def test_recovery_is_wanted_until_a_heuristic_decision_is_judged(
    linked: Directory,
) -> None:
    hq = linked["hq"]
    decided = "INSERT INTO snaptide.heuristic_decision (gid, decision, decided_by)"
    run(hq, f"{decided} VALUES ('snaptide:x', 'commit', 'somebody')")
    assert is_recovery_wanted(hq)
    run(hq, "UPDATE snaptide.heuristic_decision SET outcome = 'commit'")
    assert not is_recovery_wanted(hq)


def test_without_a_decision_it_is_rolled_back(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    abandon("synchronous.before_decision")

    assert synchronous.recover(linked["hq"]).rolled_back == 1

    assert [quantities(site)[1] for site in linked.values()] == [1, 1]
    assert left_over(linked) == {}
    change(linked)


def test_nobody_decides_for_a_coordinator_that_may_be_alive(
    linked: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []

    def ask(name: str) -> None:
        if name == "synchronous.after_prepare":
            reports.append(synchronous.recover(linked["hq"]))
            (gid,) = prepared(linked["hq"])
            with pytest.raises(DecidedOtherwise, match="in progress"):
                synchronous.rollback_in_doubt(linked["hq"], gid)

    monkeypatch.setattr(faults, "point", ask)
    change(linked)

    assert [report.left for report in reports] == [1]
    assert [quantities(site)[1] for site in linked.values()] == [7, 7]


def test_a_site_that_is_another_one_now_is_not_believed(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    gid = abandon("synchronous.before_decision")
    run(linked["jfk"], "UPDATE snaptide.site_identity SET timeline = timeline + 1")

    assert synchronous.recover(linked["hq"]).left == 1
    (found,) = synchronous.list_in_doubt(linked["hq"])
    assert (found.gid, found.state, found.decision) == (gid, "prepared", "another site")

    synchronous.commit_in_doubt(linked["hq"], gid)
    assert quantities(linked["hq"])[1] == 7
    (found,) = synchronous.list_in_doubt(linked["hq"])
    assert found.heuristic == "commit by postgres"


def test_a_decision_by_hand_is_held_against_the_sites_own(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    hq = linked["hq"]
    gid = abandon("synchronous.after_decision")
    with pytest.raises(DecidedOtherwise, match="commit"):
        synchronous.rollback_in_doubt(hq, gid)
    synchronous.rollback_in_doubt(hq, gid, force=True)

    synchronous.recover(hq)

    (found,) = synchronous.list_in_doubt(hq)
    assert found.heuristic == "rollback by postgres"
    assert found.decision == "commit"
    synchronous.forget_in_doubt(hq, gid)
    assert synchronous.list_in_doubt(hq) == []


def test_a_part_that_recovery_ends_first_was_not_ended_by_a_person(
    linked: Directory, abandon: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hq = linked["hq"]
    gid = abandon("synchronous.after_decision")
    end = recovery.end_prepared

    def late(*of: Any, **how: Any) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(recovery, "end_prepared", end)
            assert synchronous.recover(hq).committed == 1
        return end(*of, **how)

    monkeypatch.setattr(recovery, "end_prepared", late)
    with pytest.raises(NotInDoubt):
        synchronous.rollback_in_doubt(hq, gid, force=True)

    assert quantities(hq)[1] == 7
    assert synchronous.list_in_doubt(hq) == []


def test_what_every_master_has_confirmed_is_not_in_doubt(linked: Directory) -> None:
    """Its decision stays until a later commit, or the next recovery."""
    change(linked)

    assert run(linked["jfk"], "SELECT count(*) FROM snaptide.decision")[0][0] == 1
    assert synchronous.list_in_doubt(linked["jfk"]) == []


def test_a_decision_that_a_master_waits_for_is_not_forgotten(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    """Else the master would roll back what the site has committed."""
    abandon("synchronous.after_decision")
    (decided,) = synchronous.list_in_doubt(linked["jfk"])
    with pytest.raises(DecidedOtherwise, match="hq has prepared"):
        synchronous.forget_in_doubt(linked["jfk"], decided.gid)

    synchronous.recover(linked["hq"])

    assert [quantities(site)[1] for site in linked.values()] == [7, 7]
    synchronous.forget_in_doubt(linked["jfk"], decided.gid)
    assert run(linked["jfk"], "SELECT count(*) FROM snaptide.decision")[0][0] == 0


def test_a_decision_of_a_master_that_is_gone_can_be_forgotten(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    abandon("synchronous.after_decision")
    here = linked["jfk"].url.render_as_string(hide_password=False)
    gone = Directory({"jfk": here, "hq": "postgresql://u:p@127.0.0.1:1/hq"})
    (decided,) = synchronous.list_in_doubt(gone["jfk"])
    synchronous.forget_in_doubt(gone["jfk"], decided.gid)
    assert synchronous.list_in_doubt(gone["jfk"]) == []
    gone.close()
    synchronous.recover(linked["hq"])


def test_a_database_that_has_taken_the_name_of_a_master_confirms_nothing(
    make_sites: Callable[..., Directory],
    linked: Directory,
    abandon: Callable[[str], str],
) -> None:
    """The master itself still waits, and would take silence for a rollback."""
    abandon("synchronous.after_decision")
    (other,) = make_sites("hq").values()
    urls = {"jfk": linked["jfk"].url, "hq": other.url}
    with Directory(urls) as replaced:
        assert synchronous.recover(replaced["jfk"]).settled == 0
        (decided,) = synchronous.list_in_doubt(replaced["jfk"])
        assert (decided.state, decided.decision) == ("decided", "commit")
    assert synchronous.recover(linked["hq"]).committed == 1
    assert [quantities(site)[1] for site in linked.values()] == [7, 7]
    assert synchronous.recover(linked["jfk"]).settled == 1


def test_masters_that_answer_learn_a_decision_that_is_forgotten(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    """Another master of the transaction is lost, and one has ended its part by hand."""
    hq, jfk = linked["hq"], linked["jfk"]
    gid = abandon("synchronous.after_decision")
    synchronous.rollback_in_doubt(hq, gid, force=True)
    run(jfk, "UPDATE snaptide.decision SET masters = masters || '{lost}'")

    (decided,) = synchronous.list_in_doubt(jfk)
    synchronous.forget_in_doubt(jfk, decided.gid)
    synchronous.recover(hq)

    (found,) = synchronous.list_in_doubt(hq)
    assert (found.heuristic, found.decision) == ("rollback by postgres", "commit")


def test_what_is_not_ours_is_not_touched(linked: Directory) -> None:
    for gid in ("theirs", "snaptide:half", str(gid_of(linked))):
        with pytest.raises(NotInDoubt):
            synchronous.commit_in_doubt(linked["hq"], gid)
        with pytest.raises(NotInDoubt):
            synchronous.forget_in_doubt(linked["hq"], gid)


def gid_of(sites: Directory) -> Gid:
    with sites["jfk"].session() as connection:
        return Gid.of(identity.read(connection), 17)


def test_a_decision_of_an_earlier_use_of_the_id_does_not_count(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    """After a crash a site may give a transaction id again."""
    gid = Gid.parse(abandon("synchronous.before_decision"))
    assert gid is not None
    with linked["jfk"].session() as connection:
        other = Gid.of(identity.read(connection), gid.xid)
    run(
        linked["jfk"],
        "INSERT INTO snaptide.decision (xid, gid, masters)"
        f" VALUES ('{gid.xid}', '{other.transaction}', '{{hq}}')",
    )

    assert recovery.ask(linked["hq"], gid) is Answer.ROLLED_BACK
    assert synchronous.recover(linked["hq"]).rolled_back == 1


def test_a_lost_answer_of_the_site_is_looked_up(
    linked: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site commits, and the coordinator does not hear of it."""
    decide = commit._decide

    def unheard(*args: object) -> None:
        decide(*args)  # type: ignore[arg-type]
        raise InjectedFault

    monkeypatch.setattr(commit, "_decide", unheard)
    change(linked)

    assert [quantities(site)[1] for site in linked.values()] == [7, 7]
    assert left_over(linked) == {}


def test_an_outcome_that_nobody_knows_is_said(
    linked: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synchronous import commit

    decide = commit._decide

    def unheard(*args: object) -> None:
        decide(*args)  # type: ignore[arg-type]
        raise InjectedFault

    with monkeypatch.context() as patch:
        patch.setattr(commit, "_decide", unheard)
        patch.setattr(commit, "_asked", lambda *_: Answer.IN_PROGRESS)
        with pytest.raises(OutcomeUnknown):
            change(linked)

    synchronous.recover(linked["hq"])
    assert [quantities(site)[1] for site in linked.values()] == [7, 7]
    assert left_over(linked) == {}


def test_a_site_that_forgets_its_decision_holds_those_by_hand_against_it(
    linked: Directory, abandon: Callable[[str], str]
) -> None:
    """Otherwise the master would ask in vain, and take this for a rollback."""
    hq, jfk = linked["hq"], linked["jfk"]
    gid = abandon("synchronous.after_decision")
    synchronous.rollback_in_doubt(hq, gid, force=True)

    synchronous.recover(jfk)
    synchronous.recover(hq)

    (found,) = synchronous.list_in_doubt(hq)
    assert found.heuristic == "rollback by postgres"
    assert found.decision == "commit"


def test_a_site_that_forgets_its_decision_while_the_master_is_about_to_ask(
    linked: Directory, abandon: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the site has told stays, although it says nothing of it any more."""
    hq, jfk = linked["hq"], linked["jfk"]
    synchronous.rollback_in_doubt(hq, abandon("synchronous.after_decision"), force=True)
    ask = recovery.ask

    def ask_late(site: Site, gid: Gid) -> Answer | None:
        synchronous.recover(jfk)
        return ask(site, gid)

    monkeypatch.setattr(recovery, "ask", ask_late)
    synchronous.recover(hq)

    (found,) = synchronous.list_in_doubt(hq)
    assert found.decision == "commit"


def test_a_decision_by_hand_that_comes_before_the_sites_own(
    linked: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator lives, finds its part ended, and leaves it to the recovery."""
    hq, jfk = linked["hq"], linked["jfk"]

    def end(name: str) -> None:
        if name == "synchronous.after_prepare":
            (gid,) = prepared(hq)
            synchronous.rollback_in_doubt(hq, gid, force=True)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", end)
        change(linked)
    with synchronous.begin(jfk) as connection:
        # The next commit forgets decisions that all masters have confirmed.
        connection.execute(text("INSERT INTO orders VALUES (2, 1)"))
    synchronous.recover(hq)

    (found,) = synchronous.list_in_doubt(hq)
    assert found.heuristic == "rollback by postgres"
    assert found.decision == "commit"


def test_a_restored_site_keeps_decisions_whose_ids_were_given_before(
    linked: Directory,
) -> None:
    """A process that goes on had noted these ids as those of settled decisions."""
    cache = SiteCache(site=linked["jfk"])
    with linked["jfk"].transaction() as connection:
        before = identity.read(connection)
    cache.site_is(before)
    cache.settled.append("1000")

    cache.site_is(before)
    assert [*cache.settled] == ["1000"]
    cache.site_is(replace(before, incarnation=uuid.uuid4()))
    assert [*cache.settled] == []
