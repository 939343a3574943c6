"""What all tests share: the plugins that start servers, and the marks that follow."""

import gc
import signal
from collections import Counter
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from sites import configured, faults
from tests.seeds import ALWAYS_THE_SAME

pytest_plugins = (
    # First: the others tell it their passwords.
    "tests.fix_secrets",
    "tests.turns",
    "tests.fix_db",
    "tests.fix_homes",
    "tests.fix_hosts",
    "tests.fix_clock",
    "tests.fix_disk",
    "tests.fix_moments",
    "tests.fix_proxy",
    "tests.fix_redis",
    "tests.fix_sites",
    "tests.fix_encodings",
    "tests.fix_spans",
    "tests.fix_spark",
    "tests.fix_tls",
    "tests.fix_worker",
    "tests.fix_commands",
    "tests.fix_folders",
    "tests.fix_world",
    "tests.fix_worlds",
    "tests.fix_browser",
    "tests.fix_planted",
)

# How fast an example is tried says something of the machine, not of the code.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=ALWAYS_THE_SAME,
)
settings.load_profile("any machine")

# A test gets the mark of each fixture that it uses, directly or not.
MARKS = {
    "server": "db",
    "second_server": "db",
    "own_server": "faults",
    "make_home": "faults",
    "redis_server": "redis",
    "own_redis": "redis",
    "java_home": "spark",
    "make_proxy": "faults",
    "small_disk": "faults",
    "clock": "faults",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    # Half of the time of importing all tests goes to looking for garbage among them.
    gc.disable()


def pytest_collection_finish() -> None:
    # What was imported stays: no test has to look through it again.
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = getattr(item, "fixturenames", ())
        for mark in sorted({MARKS[name] for name in used if name in MARKS}):
            item.add_marker(mark)


@pytest.fixture(autouse=True)
def not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find the settings that another one installed."""
    monkeypatch.setattr(configured, "_current", None)


@pytest.fixture(autouse=True)
def no_fault_has_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fault strike, though it struck in another test of this process."""
    monkeypatch.setattr(faults, "_hits", Counter())


def pytest_sessionstart() -> None:
    # A run that is told to stop still stops its servers, as one interrupted by Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
