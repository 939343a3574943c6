"""When snapshots were last checked against their masters, and what that found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from sites.words import counted, does
from snapshots.check import saved
from snapshots.definitions import snapshot
from snaptide.doctor.finding import Finding, error, info
from snaptide.units import duration


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """What the last saved checks found, which may be information.

    Snapshots that were never checked are one finding, and so are those that the same
    check found to be equal.
    """
    last = saved.last_of_each(connection)
    loaded = [one.key for one in snapshot.all_of(connection) if one.loaded]
    never = [key for key in loaded if key not in last]
    if never:
        which = [] if never == loaded else never
        yield info(
            site,
            _named(never),
            "No check of all rows and columns has been saved.",
            " ".join(["snaptide check", site, *which, "--save"]),
        )
    equal = defaultdict[int, list[str]](list)
    for key in loaded:
        if key in last and last[key].unexplained:
            yield _differing(site, key, last[key])
        elif key in last:
            equal[last[key].run].append(key)
    for keys in equal.values():
        what = f"{_ran(last[keys[0]])} and found no difference without a reason."
        yield info(site, _named(keys), what, "")


def _named(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else counted(len(keys), "snapshot")


def _differing(site: str, key: str, found: saved.LastCheck) -> Finding:
    return error(
        site,
        key,
        f"{_ran(found)} and found {counted(found.unexplained, 'row')} that "
        f"{does(found.unexplained, 'differ')} without a reason.",
        f"snaptide check show {site} {found.run}",
    )


def _ran(found: saved.LastCheck) -> str:
    ago = duration(found.age.total_seconds())
    return f"The last saved check, {found.run}, was {ago} ago"
