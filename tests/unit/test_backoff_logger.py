"""What fails for hours is left alone longer and longer, and said seldom."""

from __future__ import annotations

import logging

import pytest

from sites.errors import UnknownSite
from snaptide.backoff_logger import (
    LONGEST,
    SAY_AT_MOST,
    SAY_EVERY,
    BackoffLogger,
)

log = logging.getLogger("test")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("snaptide.backoff_logger.time.monotonic", lambda: now[0])
    return now


def test_it_waits_longer_up_to_a_limit(clock: list[float]) -> None:
    backoff = BackoffLogger(log, "it", first=1, longest=5)
    for longest in (1, 2, 4, 5, 5):
        wait = backoff.failed(OSError("no"))
        assert longest / 2 <= wait <= longest
    assert backoff.resting
    clock[0] += wait
    assert not backoff.resting
    backoff.over()
    assert backoff.failed(OSError("no")) <= 1


def test_a_thousand_that_fail_together_do_not_come_back_together(
    clock: list[float],
) -> None:
    """A server was away for an hour, and comes back; each site tries by itself."""
    sites = [BackoffLogger(log, "it") for _ in range(1000)]
    for _ in range(100):
        waits = [one.failed(OSError("no")) for one in sites]
    for second in range(int(LONGEST)):
        tries = [wait for wait in waits if second <= wait < second + 1]
        # The half of the pause that is random has 7.5 seconds: 133 in each.
        assert len(tries) < 250
    clock[0] += LONGEST
    assert not any(one.resting for one in sites)


def test_it_is_said_once_and_when_it_is_over(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    backoff = BackoffLogger(log, "Site jfk")
    backoff.over()
    for _ in range(100):
        backoff.failed(OSError("no\nway"))
        clock[0] += 25
    assert caplog.messages == ["Site jfk: no"]
    backoff.over()
    backoff.over()
    assert caplog.messages == ["Site jfk: no", "Site jfk: works again."]


def test_it_is_said_again_when_it_is_another_one_and_every_hour(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    backoff = BackoffLogger(log, "Site jfk")
    for said in ("no", "not so", "no", "not so"):
        backoff.failed(OSError(said))
        clock[0] += 10
    clock[0] += SAY_AT_MOST
    backoff.failed(UnknownSite("none"))
    clock[0] += SAY_EVERY
    backoff.failed(UnknownSite("none"))
    again = f"Site jfk: SNP-001 none Hint: {UnknownSite.hint}"
    assert caplog.messages == ["Site jfk: no", again, again]
