"""An interrupt ends the block, also where Python loses its exception."""

import signal
import sys

import pytest

from snaptide.interrupt import SIGNALS, interruptible


class Signalled:
    """Something whose end is interrupted; Python goes on as if nothing had come."""

    def __init__(self, how: signal.Signals) -> None:
        self._how = how

    def __del__(self) -> None:
        signal.raise_signal(self._how)


@pytest.mark.parametrize("how", SIGNALS)
def test_interrupt_ends_the_block(how: signal.Signals) -> None:
    def block() -> None:
        with interruptible():
            signal.raise_signal(how)
            pytest.fail("It went on.")

    with pytest.raises(KeyboardInterrupt):
        block()


@pytest.mark.parametrize("how", SIGNALS)
def test_lost_interrupt_is_known_and_raised_in_the_end(
    how: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before, hook = signal.getsignal(how), sys.unraisablehook
    seen = []

    def block() -> None:
        with interruptible() as interrupted:
            seen.append(interrupted())
            Signalled(how)
            seen.append(interrupted())

    with pytest.raises(KeyboardInterrupt):
        block()
    assert seen == [False, True]
    assert signal.getsignal(how) is before
    assert sys.unraisablehook is hook
    assert capfd.readouterr().err == ""
