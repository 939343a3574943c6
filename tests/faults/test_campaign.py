"""A short campaign (CAMPAIGN_CRASHES=45 goes everywhere); what one keeps of itself."""

import os
from pathlib import Path

import pytest

from docs.generator import fault_points
from tests.campaign import asynchronous, deck, report, several_masters
from tests.campaign.kinds import ANY_TIME, Crash
from tests.campaign.state import Episode, State
from tests.campaign.verbs import VERBS

#: Of a coordinated transaction, of what follows a restore, of a group that is refused,
#: of a push with several streams or of very many rows, of a procedure that is called,
#: of a replication group and of switching in one, of numbers, of a file that is
#: applied, of a site that retires, of rectify and of folders: they have tests of
#: their own.
ELSEWHERE = (
    "synchronous.",
    "recovery.",
    "agreement.",
    "peers.",
    "repair.",
    "push.after_refusal",
    "push.before_call",
    "push.after_call",
    "push.before_at_once",
    "push.after_at_once",
    "stream.",
    "group.",
    "group_join.",
    "group_forget.",
    "group_rectify.",
    "switch.",
    "former.",
    "image_make.",
    "image_load.",
    "contract.",
    "answers.",
    "numbers.",
    "snapshot_alter.before_numbers",
    "apply.",
    "site_retire.",
    "rectify.",
    "folder_create.",
    "folder_sync.",
    "folder_clean.",
)


@pytest.mark.faults
@pytest.mark.usefixtures("spark")
def test_a_short_campaign() -> None:
    """As many places as there are crashes, then the comparison."""
    size = int(os.environ.get("CAMPAIGN_CRASHES", "12"))
    try:
        crashes = list(asynchronous.episode(1, 1, size))
    finally:
        asynchronous.end()
    points = asynchronous.points()
    assert len(report.missed(crashes, points)) == max(len(points) - size, 0)


def test_campaign_goes_everywhere() -> None:
    """Each fault point of the code is one that some campaign goes to."""
    named = {name for name, _, _ in fault_points.calls()}
    others = {name for name in named if name.startswith(ELSEWHERE)}
    assert set(asynchronous.points()) == named - others
    assert set(several_masters.points()) <= named


def test_deck_is_the_same_for_a_seed_wherever_one_begins() -> None:
    everything = deck.deal(VERBS, 7, 0, 300)
    assert deck.deal(VERBS, 7, 120, 40) == everything[120:160]
    assert deck.deal(VERBS, 8, 0, 300) != everything
    first = {card.point for card in everything[: len(deck.points(VERBS))]}
    assert first == set(deck.points(VERBS))


def test_state_goes_on(tmp_path: Path) -> None:
    """Episodes that were played side by side end in any order."""
    path = tmp_path / "folder" / "state"
    episode = Episode(
        number=2,
        crashes=(Crash(point=ANY_TIME, victim="site", verb="push", seconds=1.5),),
    )
    State(path, kind="async", seed=1).add(episode)
    again = State(path, kind="async", seed=1)
    assert (again.episodes, again.crashes) == ([episode], 1)
    left = again.left(111, asynchronous.size)
    assert [(one.number, one.crashes) for one in left] == [(1, 50), (3, 50), (4, 10)]
    assert again.left(1, asynchronous.size) == []
    with pytest.raises(SystemExit, match="another campaign"):
        State(path, kind="async", seed=2)


def test_report_says_what_was_not_reached() -> None:
    crash = Crash(point="a", victim="site", verb="push", seconds=1)
    assert report.missed([crash], ["a", "b"]) == ["b"]
    assert report.table([crash], ["a", "b"]).row_count == 3
