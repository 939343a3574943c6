"""A site as a file: what it says, what a site lacks of it, and the steps in between."""

from snaptide.plan.apply import Applied, apply
from snaptide.plan.export import Exported, export
from snaptide.plan.like import like
from snaptide.plan.planner import Plan, plan
from snaptide.plan.reader import SiteFile, read
from snaptide.plan.retire import Retired, retire
from snaptide.plan.step import Outcome, Step

__all__ = [
    "Applied",
    "Exported",
    "Outcome",
    "Plan",
    "Retired",
    "SiteFile",
    "Step",
    "apply",
    "export",
    "like",
    "plan",
    "read",
    "retire",
]
