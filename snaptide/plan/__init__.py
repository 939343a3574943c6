"""A site as a file: what it says, what a site lacks of it, and the steps in between."""

from snaptide.plan.apply import Applied, apply
from snaptide.plan.planner import Plan, plan
from snaptide.plan.reader import SiteFile, read
from snaptide.plan.steps import Step

__all__ = ["Applied", "Plan", "SiteFile", "Step", "apply", "plan", "read"]
