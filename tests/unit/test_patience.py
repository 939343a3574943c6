"""What fails for hours is left alone longer and longer, and said seldom."""

from __future__ import annotations

import logging

import pytest

from sites.errors import UnknownSite
from snaptide.patience import SAY_AT_MOST, SAY_EVERY, Trouble

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


def test_it_is_said_once_and_when_it_is_over(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    trouble = Trouble(log, "Site jfk")
    trouble.over()
    for _ in range(100):
        trouble.failed(OSError("no\nway"))
        clock[0] += 25
    assert caplog.messages == ["Site jfk: no"]
    trouble.over()
    trouble.over()
    assert caplog.messages == ["Site jfk: no", "Site jfk: works again."]


def test_it_is_said_again_when_it_is_another_one_and_every_hour(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    trouble = Trouble(log, "Site jfk")
    for said in ("no", "not so", "no", "not so"):
        trouble.failed(OSError(said))
        clock[0] += 10
    clock[0] += SAY_AT_MOST
    trouble.failed(UnknownSite("none"))
    clock[0] += SAY_EVERY
    trouble.failed(UnknownSite("none"))
    again = f"Site jfk: SNP-001 none Hint: {UnknownSite.hint}"
    assert caplog.messages == ["Site jfk: no", again, again]
