"""A site as a file: what it says, what a site lacks of it, and the steps in between."""

from snaptide.plan.apply import Applied as Applied, apply as apply, like as like
from snaptide.plan.export import Exported as Exported, export as export
from snaptide.plan.planner import Plan as Plan, plan as plan
from snaptide.plan.reader import SiteFile as SiteFile, read as read
from snaptide.plan.retire import Retired as Retired, retire as retire
from snaptide.plan.step import Outcome as Outcome, Step as Step
