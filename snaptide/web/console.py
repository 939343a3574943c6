"""What all requests to a console share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from sites import Directory, Site
from sites.errors import SiteUnreachable
from snaptide.status import SiteStatus, status_of
from snaptide.web.attempts import Attempts
from snaptide.web.group_checks import GroupChecks
from snaptide.web.questions import PATIENCE, STATE, Answer, Questions
from snaptide.web.repairs import Repairs
from snaptide.web.sessions import LoginForms, Sessions
from snaptide.web.users import Users

#: So many sites are examined at once.
EXAMINATIONS = 4

#: A page that renews itself leaves a site alone for so many times as long as this took
#: over its last answer: so it costs a site one percent of a processor at most.
REST = 100

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
    #: by site, until when pages that renew themselves leave it alone, and its answer
    resting: dict[str, tuple[float, Answer[SiteStatus]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def questions(self) -> Questions:
        """The questions to sites that are under way."""
        # One thread for each site that is silent, and some for the others.
        return Questions(len(self.sites) + 16, self.patience, state=_state)

    @cached_property
    def examinations(self) -> Questions:
        """The examinations of sites that are under way, which take long."""
        return Questions(EXAMINATIONS)

    @cached_property
    def repairs(self) -> Repairs:
        """The repairs of saved checks that are planned or done."""
        return Repairs()

    @cached_property
    def group_checks(self) -> GroupChecks:
        """The checks of masters that run or have run."""
        return GroupChecks()

    def open(self) -> None:
        """Begin to ask all sites, so that sessions are open before somebody looks."""
        for site in self.sites.values():
            self.questions.begin(site, STATE, _state)

    def close(self) -> None:
        """Ask no more questions."""
        self.questions.close()
        self.examinations.close()
        self.repairs.close()
        self.group_checks.close()

    def states(self, *, polled: bool = False) -> dict[str, Answer[SiteStatus]]:
        """The state of all sites, each asked only about itself.

        Parameters:
            polled: a page renews itself. A site that took long over its last answer,
                as with a long queue, is left alone then for a hundred times as long.
        """
        now, kept = time.monotonic(), dict[str, Answer[SiteStatus]]()
        for name in self.sites if polled else ():
            until, answer = self.resting.get(name, (now, None))
            if answer is not None and now < until:
                kept[name] = answer
        asked = {name: site for name, site in self.sites.items() if name not in kept}
        found = self.questions.ask_all(asked, STATE, _state)
        for name, answer in found.items():
            took = answer.value.seconds if answer.value else 0.0
            self.resting[name] = now + took * REST, answer
        return {name: kept.get(name) or found[name] for name in self.sites}


def _state(site: Site) -> SiteStatus:
    found = status_of(site, alone=True)
    if not found.reachable:
        raise SiteUnreachable(found.error)
    return found
