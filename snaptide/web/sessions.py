"""Who is logged in: sessions in memory, which end with the process."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

#: A session ends after so many seconds without a request,
IDLE = 60 * 60
#: and so many seconds after it began.
LONGEST = 12 * 60 * 60
#: So many sessions are kept; those used least recently go first.
MOST = 10_000


@dataclass(slots=True, kw_only=True)
class Session:
    """A browser in which a user is logged in."""

    user: str
    #: what each form sends back, to show that it is ours
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    began: float
    used: float
    #: what the next page says, of the action that led to it
    notices: list[str] = field(default_factory=list)

    def accepts(self, token: str) -> bool:
        """Whether a form that sends this token is of this session."""
        return same(self.token, token)


class Sessions:
    """The sessions of this process.

    Only a hash of the secret in a browser's cookie is kept.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, user: str) -> tuple[str, Session]:
        """Begin a session; returns the secret for the cookie, and the session."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        session = Session(user=user, began=now, used=now)
        with self._lock:
            self._open[_hashed(secret)] = session
            while len(self._open) > MOST:
                self._open.popitem(last=False)
        return secret, session

    def find(self, secret: str, *, polled: bool = False) -> Session | None:
        """The session of a cookie, if it has not ended.

        Parameters:
            polled: the page asks by itself; that does not make the session last longer.
        """
        key, now = _hashed(secret), self._clock()
        with self._lock:
            session = self._open.get(key)
            if session is None:
                return None
            if now - session.used > IDLE or now - session.began > LONGEST:
                del self._open[key]
                return None
            if not polled:
                session.used = now
                self._open.move_to_end(key)
            return session

    def end(self, secret: str) -> None:
        """End the session of a cookie."""
        with self._lock:
            self._open.pop(_hashed(secret), None)


class LoginForms:
    """Tokens of login forms, before there is a session: nothing is kept for them.

    The browser has a nonce in a cookie, and the form has what only this process can
    make of it.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def token(self, nonce: str) -> str:
        """The token of a form for the browser that has this nonce."""
        return hmac.new(self._key, nonce.encode(), hashlib.sha256).hexdigest()

    def accepts(self, nonce: str, token: str) -> bool:
        """Whether a form was made for the browser that sends it."""
        return bool(nonce) and same(self.token(nonce), token)


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where not."""
    return secrets.compare_digest(one.encode(), other.encode("utf-8", "replace"))


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
