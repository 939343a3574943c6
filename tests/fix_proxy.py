"""A real TCP proxy for tests: between a client and its server, where lines are cut."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import pytest

from snaptide.embedded.ports import HOST, free_port

# Closing with this option sends a reset instead of a polite end.
_RESET = struct.pack("ii", 1, 0)
# Seconds that a thread may take to let go of the line it was waiting at.
_MOMENT = 1.0


class Proxy:
    """Passes bytes between clients and one server until told otherwise.

    Parameters:
        host: the address of this machine at which it listens.
    """

    def __init__(self, target_url: str, host: str = HOST) -> None:
        target = urlsplit(target_url)
        assert target.port is not None
        self._target = (target.hostname, target.port)
        self._target_url = target_url
        self._host = host
        self.port = free_port()
        #: seconds that each piece takes, of at most 64 kB
        self.delay = 0.0
        #: when clients connected, by the monotonic clock
        self.arrivals: list[float] = []
        #: whether each client is sent away at once, as by a server that is not ready
        self.refusing = False
        self._listener: socket.socket | None = None
        self._lines: list[socket.socket] = []
        self._passing: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._hearing = threading.Event()
        self._hearing.set()
        #: messages to be passed on before all lines are cut; 0 never
        self._left = 0
        self._has_cut = False

    @property
    def url(self) -> str:
        """The target's URL, leading through the proxy."""
        parts = urlsplit(self._target_url)
        login = parts.netloc.rpartition("@")[0]
        place = f"{self._host}:{self.port}"
        return urlunsplit(parts._replace(netloc=f"{login}@{place}" if login else place))

    def start(self) -> None:
        """Accept connections; the port is the same after every stop."""
        self._hearing.set()
        self._listener = socket.create_server((self._host, self.port))
        threading.Thread(
            target=self._accept, args=[self._listener], daemon=True
        ).start()

    def stop(self) -> None:
        """Drop all connections and refuse new ones."""
        if self._listener is not None:
            # Shut down first: it wakes the thread that waits in accept.
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()
        self._hearing.set()

    def cut(self) -> None:
        """Reset the present connections; new ones are welcome."""
        with self._lock:
            lines, self._lines = self._lines, []
            passing, self._passing = self._passing, []
        for line in lines:
            _reset(line)
        # A line is open, and not reset, for as long as a thread waits in its recv.
        for thread in passing:
            if thread is not threading.current_thread():
                thread.join(_MOMENT if self._hearing.is_set() else 0)

    def cut_before(self, message: int) -> bool:
        """Cut all lines instead of passing on a message, counted from now on.

        Parameters:
            message: which one, from 1, in either direction; 0 never.

        Returns:
            Whether the last order was carried out.
        """
        with self._lock:
            had_cut, self._has_cut, self._left = self._has_cut, False, message
        return had_cut

    def deafen(self) -> None:
        """Leave connections open, and accept new ones, but pass on nothing."""
        self._hearing.clear()

    def hear(self) -> None:
        """Pass on what was held back, and all that follows."""
        self._hearing.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.arrivals.append(time.monotonic())
            self._join(client)

    def _join(self, client: socket.socket) -> None:
        try:
            if self.refusing:
                raise ConnectionRefusedError
            upstream = socket.create_connection(self._target, timeout=90)
        except OSError:
            _reset(client)
            return
        upstream.settimeout(None)
        both = [
            threading.Thread(target=self._pass_on, args=ends, daemon=True)
            for ends in ((client, upstream), (upstream, client))
        ]
        for thread in both:
            thread.start()
        with self._lock:
            self._lines += [client, upstream]
            self._passing += both

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._hearing.wait()
                time.sleep(self.delay)
                if self._is_last():
                    self.cut()
                    return
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _is_last(self) -> bool:
        with self._lock:
            self._left -= 1
            self._has_cut = self._has_cut or self._left == 0
            return self._left == 0


def _reset(line: socket.socket) -> None:
    with suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Wakes the thread that waits in recv; a close alone would not.
        line.shutdown(socket.SHUT_RD)
    line.close()


@pytest.fixture
def make_proxy() -> Iterator[Callable[..., Proxy]]:
    """A function that puts a running proxy before the server of a URL."""
    made: list[Proxy] = []

    def make(url: str, host: str = HOST) -> Proxy:
        proxy = Proxy(url, host)
        proxy.start()
        made.append(proxy)
        return proxy

    yield make
    for proxy in made:
        proxy.stop()
