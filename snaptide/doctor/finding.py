"""The findings of `snaptide doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    #: The site cannot take part; doctor checked nothing else.
    FATAL = "fatal"
    #: Changes are lost, or work fails.
    ERROR = "error"
    #: Something costs, grows or waits without need.
    WARNING = "warning"
    #: No problem, but good to know.
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem at a site with its remedy, or something to know of the site."""

    site: str
    severity: Severity
    #: the table, snapshot, setting, ... that the finding is about
    subject: str
    what: str
    todo: str


def warning(site: str, subject: str, what: str, todo: str) -> Finding:
    """A finding about something that costs, grows or waits."""
    return Finding(
        site=site, severity=Severity.WARNING, subject=subject, what=what, todo=todo
    )
