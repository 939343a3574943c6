"""A moment of a master, and how far it had answered the changes of the site by then."""

from __future__ import annotations

from dataclasses import dataclass

from deferred.batches.marker import Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What tells changes of the site that are pending from those that are answered."""

    position: str
    marker: Marker
