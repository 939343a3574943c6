"""Picks the flights that the demo changes: the first departures of New Year's Day."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from snaptide.demo.world import World

#: Finds one flight of 1 January; its values are `Flight.key`.
THIS = sql.SQL(
    "year = 2013 AND month = 1 AND day = 1"
    " AND origin = %s AND carrier = %s AND flight = %s"
)

_FIRST = (
    "SELECT origin, carrier, flight FROM flights"
    " WHERE year = 2013 AND month = 1 AND day = 1 AND origin = %s"
    " AND flight < 9000 AND dep_time IS NOT NULL"
    " ORDER BY sched_dep_time, carrier, flight LIMIT 5"
)


@dataclass(frozen=True, slots=True)
class Flight:
    """One flight of 1 January 2013."""

    origin: str
    carrier: str
    number: int

    @property
    def key(self) -> tuple[str, str, int]:
        """The values that `THIS` takes."""
        return self.origin, self.carrier, self.number

    def __str__(self) -> str:
        return f"{self.carrier} {self.number}"


@dataclass(frozen=True, slots=True)
class Cast:
    """One airport's flights, by their part in the demo."""

    delayed: Flight
    moved: Flight
    sold: Flight
    exchanged: Flight
    withdrawn: Flight


def cast(world: World, site: str) -> Cast:
    """Pick the flights of one airport at the master site."""
    with world.application("hq") as session:
        first = session.execute(_FIRST, [site.upper()])
        return Cast(*(Flight(*row) for row in first))


def value_of(world: World, site: str, column: str, flight: Flight) -> object:
    """The value of one column of a flight at a site; None if the row is missing."""
    with world.application(site) as session:
        row = session.execute(
            sql.SQL("SELECT {} FROM flights WHERE {}").format(
                sql.Identifier(column), THIS
            ),
            flight.key,
        ).fetchone()
    return None if row is None else row[0]
