"""What happened in a run, to be read when something is wrong."""

from __future__ import annotations

from collections import Counter


class Story:
    """All that was done, in order; and how often, over all runs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()

    def tell(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)

    def count(self, what: str, times: int = 1) -> None:
        """Count something that the run should have met."""
        self.counts[what] += times

    def begin(self) -> None:
        """Forget the lines of the run before; the counts go on."""
        self.lines.clear()

    def __str__(self) -> str:
        return "\n".join(self.lines)
