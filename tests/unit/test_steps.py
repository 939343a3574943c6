"""How long the steps of a refresh took."""

from snapshots.definitions.refresh_notes import Steps


def test_each_step_has_its_time_and_the_last_one_runs() -> None:
    now = 100.0
    steps = Steps(clock=lambda: now)
    assert steps.seconds == {}
    steps.begin("push")
    now = 102.0
    assert steps.seconds == {"push": 2}
    steps.begin("ask")
    now = 103.0
    steps.begin("merge")
    now = 107.0
    assert steps.seconds == {"push": 2, "ask": 1, "merge": 4}


def test_steps_of_several_turns_are_added_in_their_order() -> None:
    now = 0.0
    steps = Steps(clock=lambda: now)
    for step in ("merge", "ask", "merge", "ask", "ask"):
        steps.begin(step)
        now += 1
    assert list(steps.seconds.items()) == [("ask", 3), ("merge", 2)]
