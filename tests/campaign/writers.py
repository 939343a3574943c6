"""Users who write all the while, at both sides, and remember what was confirmed."""

from __future__ import annotations

import threading
from random import Random

import psycopg

ACCOUNTS = 200

#: Seconds between two bookings: a push, one by one, has to keep up on a busy machine.
PAUSE = 1.0


class Writer(threading.Thread):
    """Books amounts to accounts: one row for the booking, and a new balance."""

    def __init__(self, name: str, url: str, pause: float = PAUSE) -> None:
        super().__init__(name=f"writer-{name}", daemon=True)
        self.stopping = threading.Event()
        #: nobody waits for a booking that was asked for
        self.booked = threading.Event()
        #: bookings that may be there, and those of them that must
        self.tried: set[str] = set()
        self.confirmed: set[str] = set()
        self._prefix = name
        self._url = url
        self._pause = pause
        self._random = Random(name)
        self._asked = threading.Event()

    def run(self) -> None:
        """Write until told to stop; a server that is away is waited for."""
        while not self.stopping.is_set():
            try:
                with psycopg.connect(self._url, connect_timeout=30) as session:
                    while self._waits_for_the_next():
                        self._book(session)
                        self.booked.set()
            except psycopg.OperationalError:
                self.stopping.wait(0.1)

    def hurry(self) -> None:
        """Book now, and do not wait until the pause is over."""
        self.booked.clear()
        self._asked.set()

    def stop(self) -> None:
        """Stop after the booking of this moment."""
        self.stopping.set()
        self._asked.set()
        self.join(timeout=180)
        assert not self.is_alive(), f"{self.name} waits"

    def _waits_for_the_next(self) -> bool:
        """Wait for the next booking; whether there is one."""
        self._asked.wait(self._pause)
        self._asked.clear()
        return not self.stopping.is_set()

    def _book(self, session: psycopg.Connection) -> None:
        made = []
        for _ in range(self._random.randint(1, 3)):
            number = f"{self._prefix}-{len(self.tried)}"
            account = self._random.randrange(ACCOUNTS)
            amount = self._random.randint(-9, 9)
            self.tried.add(number)
            made.append(number)
            session.execute(
                "INSERT INTO public.booking (number, account, amount)"
                " VALUES (%s, %s, %s)",
                (number, account, amount),
            )
            session.execute(
                "UPDATE public.account SET balance = balance + %s WHERE id = %s",
                (amount, account),
            )
        if self._random.random() < 0.1:
            session.rollback()
            return
        session.commit()
        self.confirmed.update(made)
