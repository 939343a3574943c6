"""What fails for hours is left alone longer and longer, and said seldom."""

from __future__ import annotations

import logging

import pytest

from snaptide.patience import Trouble

log = logging.getLogger("test")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("snaptide.patience.time.monotonic", lambda: now[0])
    return now


def test_it_waits_longer_up_to_a_limit(clock: list[float]) -> None:
    trouble = Trouble(log, "it", first=1, longest=5)
    waits = [trouble.failed(OSError("no")) for _ in range(4)]
    assert waits == [1, 2, 4, 5]
    assert trouble.resting
    clock[0] += 5
    assert not trouble.resting
    trouble.over()
    assert trouble.failed(OSError("no")) == 1


def test_it_is_said_once_a_minute_and_when_it_is_over(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    trouble = Trouble(log, "Site jfk")
    trouble.over()
    for _ in range(3):
        trouble.failed(OSError("no\nway"))
        clock[0] += 25
    assert caplog.messages == ["Site jfk: no"]
    trouble.failed(OSError("no"))
    trouble.over()
    trouble.over()
    assert caplog.messages == ["Site jfk: no", "Site jfk: no", "Site jfk: works again."]
