"""The findings of `snaptide doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


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


def _finding(
    severity: Severity, site: str, subject: str, what: str, todo: str
) -> Finding:
    return Finding(site=site, severity=severity, subject=subject, what=what, todo=todo)


#: A finding of each severity: of its site and subject, what is wrong, and what to do.
fatal, error, warning, info = (partial(_finding, severity) for severity in Severity)
