"""What all requests to a console share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

from sites import Directory, Site
from snaptide.status import SiteStatus, status_of
from snaptide.web.attempts import Attempts
from snaptide.web.questions import PATIENCE, Answer, Questions
from snaptide.web.sessions import LoginForms, Sessions
from snaptide.web.users import Users

#: So many sites are examined at once.
EXAMINATIONS = 4

#: Site, kind and subject of a schedule; returns the id of the task.
RunSchedule = Callable[[Site, str, str], str]


@dataclass(kw_only=True)
class Console:
    """The console of some sites.

    Parameters:
        users: None makes everyone a viewer, who can change nothing.
        hosts: the names under which browsers reach the console.
        proxy_header: the header in which a proxy on this machine says who the user is.
        run_schedule: has a worker run a schedule now; None where no broker is
            configured.
        patience: seconds that a page waits for a site.
    """

    sites: Directory
    users: Users | None = None
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    proxy_header: str | None = None
    run_schedule: RunSchedule | None = None
    patience: float = PATIENCE
    sessions: Sessions = field(default_factory=Sessions)
    login_forms: LoginForms = field(default_factory=LoginForms)
    attempts: Attempts = field(default_factory=Attempts)

    @cached_property
    def questions(self) -> Questions:
        """The questions to sites that are under way."""
        # One thread for each site that is silent, and some for the others.
        return Questions(len(self.sites) + 16, self.patience)

    @cached_property
    def examinations(self) -> Questions:
        """The examinations of sites that are under way, which take long."""
        return Questions(EXAMINATIONS)

    def close(self) -> None:
        """Ask no more questions."""
        self.questions.close()
        self.examinations.close()

    def states(self) -> dict[str, Answer[SiteStatus]]:
        """The state of all sites, each asked only about itself."""
        ask = partial(status_of, alone=True)
        return self.questions.ask_all(self.sites, "status", ask)
