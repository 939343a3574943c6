"""A window of a real browser at a console, and the person who clicks in it."""

from __future__ import annotations

from typing import Literal

from playwright.sync_api import ConsoleMessage, Locator, Page, Response

from tests.console import PASSWORD, PATIENCE
from tests.fix_secrets import watched

Clickable = Literal["link", "button", "checkbox", "radio"]

#: What the browser logs of a page that answers with an error.
_ANSWERED = "Failed to load resource"


class Window:
    """A window, what was clicked in it, and what went wrong there."""

    def __init__(self, page: Page) -> None:
        page.set_default_timeout(PATIENCE * 1000)
        self.page = page
        self.clicks = 0
        #: errors of scripts, refused scripts and styles, dialogs that somebody opened
        self.problems: list[str] = []
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("response", self._answered)
        page.on("dialog", lambda dialog: self.problems.append(dialog.message))

    def open(self, path: str) -> None:
        """Type an address."""
        self.page.goto(path)

    def log_in(self, name: str = "operator") -> None:
        """Fill in the form of the login page."""
        self.open("/login")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.see("h1", "Overview")

    def click(
        self, what: Clickable, name: str, *, among: Locator | None = None
    ) -> None:
        """Click what is called so, and only so."""
        where = among or self.page.locator("main")
        where.get_by_role(what, name=name, exact=True).click()
        self.clicks += 1

    def see(self, selector: str, text: str) -> None:
        """Wait for an element that has this text."""
        self.page.locator(selector, has_text=text).first.wait_for()

    def row(self, name: str) -> Locator:
        """The line of a table whose head has this text."""
        head = self.page.locator("th", has_text=name)
        return self.page.locator("tbody tr", has=head)

    @property
    def text(self) -> str:
        """What the page says."""
        return self.page.locator("main").inner_text()

    @property
    def focused(self) -> str:
        """The text of the element that the keyboard is at."""
        return self.page.locator(":focus").inner_text()

    def look_back(self) -> None:
        """Fail if something went wrong in the window, whatever the test looked at."""
        watched.look_at(self.page.content(), self.page.url)
        assert self.problems == []

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_ANSWERED):
            self.problems.append(message.text)

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.request.resource_type != "document":
            self.problems.append(f"{response.status} {response.url}")
