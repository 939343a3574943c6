"""Named points at which a test can make Snaptide die, fail or stall.

`SNAPTIDE_FAULT="push.after_apply:kill"` kills the process the first time it reaches
that point; `:error` raises an error, `:stop` stops it until it receives SIGCONT, and
`:3` at the end means the third time. Several settings are separated by commas. If the
variable is not set, a point costs a dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

_hits: Counter[str] = Counter()


class InjectedFault(Exception):
    """A test asked for this failure."""


def point(name: str) -> None:
    """Do what `SNAPTIDE_FAULT` asks for at this point, usually nothing.

    Raises:
        InjectedFault: the setting says `error` for this point.
    """
    setting = os.environ.get("SNAPTIDE_FAULT")
    if not setting:
        return
    for rule in setting.split(","):
        wanted, action, *rest = rule.split(":")
        if wanted == name:
            _hits[name] += 1
            if _hits[name] == int(rest[0] if rest else 1):
                _act(name, action)


def _act(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        # Signal this thread: through another one, it would stop only some work later.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    else:
        raise InjectedFault(name)
