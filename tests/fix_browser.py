"""A real browser for tests of the console, and consoles that it reaches."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.chromium import MISSING, find
from tests.looks import wrong_boxes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from snaptide.web.console import Console
    from tests.window import Window

_ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # It looks for nothing outside this machine.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

#: A picture in the docs is of a window of this size, unless the window is smaller.
_LARGEST = {"width": 900, "height": 500}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", type=Path, help="folder for pictures of the console")


class OpenWindow(Protocol):
    """Open a window at a console, which is served until the test ends.

    Parameters:
        options: of the browser, as Playwright calls them.
    """

    def __call__(self, made: Console, **options: Any) -> Window: ...


class TakePicture(Protocol):
    """Take a picture of a window for the docs, if the run is asked for them.

    In any run, nothing may be cut or lie over another text in it.
    """

    def __call__(self, window: Window, name: str) -> None: ...


@pytest.fixture
def take_picture(request: pytest.FixtureRequest) -> TakePicture:
    """A function that takes pictures; none is compared with another one."""
    folder: Path | None = request.config.getoption("--pictures")

    def take(window: Window, name: str) -> None:
        before = window.page.viewport_size
        if before and before["width"] > _LARGEST["width"]:
            window.page.set_viewport_size(_LARGEST)  # type: ignore[arg-type]
        assert wrong_boxes(window.page) == [], name
        if folder is not None:
            _save(
                window.page.screenshot(full_page=True), folder / f"console-{name}.png"
            )
        if before:
            window.page.set_viewport_size(before)

    return take


def _save(picture: bytes, path: Path) -> None:
    from PIL import Image

    # Few colours make a small file.
    Image.open(BytesIO(picture)).quantize(64).save(path, optimize=True)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser without a screen.

    It is there for one file of tests: Playwright keeps an event loop in the thread,
    which other tests would meet.
    """
    from playwright.sync_api import sync_playwright

    path = find()
    if path is None:
        pytest.fail(MISSING, pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_window(chromium: Browser) -> Iterator[OpenWindow]:
    """A function that opens windows, each of a person of its own."""
    from tests.window import Window

    windows: list[Window] = []
    with ExitStack() as stack:

        def open_one(made: Console, **options: Any) -> Window:
            address = stack.enter_context(served(made))
            context = chromium.new_context(base_url=address, **options)
            # Before the server ends, which waits for those who are connected.
            stack.callback(context.close)
            windows.append(Window(context.new_page()))
            return windows[-1]

        yield open_one
        for window in windows:
            window.look_back()


@contextmanager
def served(made: Console) -> Iterator[str]:
    """Serve a console as `snaptide web` does; gives its address."""
    import uvicorn

    from snaptide.web.application import application
    from tests.console import Searched

    config = uvicorn.Config(
        Searched(application(made)),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
