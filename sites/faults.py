"""Named points at which a test can make Snaptide die, fail or stall.

`SNAPTIDE_FAULT="push.after_apply:kill"` kills the process the first time it
gets there; `:error` raises, `:stop` lets it stand still until it is sent SIGCONT,
and a last `:3` means the third time. Several are separated by commas. Unset, a
point costs a dictionary look-up.
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
        # To this thread: another one, if told, would stop it some work later.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    else:
        raise InjectedFault(name)
