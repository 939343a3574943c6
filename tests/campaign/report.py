"""What was hit where: the table that a campaign ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from tests.campaign.kinds import ANY_TIME, Crash


def table(crashes: Sequence[Crash], points: Sequence[str]) -> Table:
    """Rows are places, columns are what was hit."""
    hits = Counter((crash.point, crash.victim) for crash in crashes)
    victims = sorted({crash.victim for crash in crashes})
    made = Table(title=f"{len(crashes)} crashes", show_footer=True)
    made.add_column("where", footer="all")
    for victim in victims:
        count = sum(crash.victim == victim for crash in crashes)
        made.add_column(victim, footer=str(count), justify="right")
    made.add_column("all", footer=str(len(crashes)), justify="right")
    for point in [*points, ANY_TIME]:
        counts = [hits[point, victim] for victim in victims]
        made.add_row(point, *(str(n or "") for n in counts), str(sum(counts)))
    return made


def missed(crashes: Sequence[Crash], points: Sequence[str]) -> list[str]:
    """Fault points that no crash was at."""
    reached = {crash.point for crash in crashes}
    return [point for point in points if point not in reached]
