"""Which methods keep all masters equal: the table of Oracle's manuals as a check.

Snapshots take what their master decided, at the next refresh, so that one master
with any number of snapshots always converges. Several masters decide each for
itself, and may decide differently.
"""

from __future__ import annotations

#: Always converge, latest timestamp if clocks never go back and equal stamps have
#: a backup.
_ALWAYS = {"additive", "latest_timestamp"}


def diverges(method: str, masters: int, snapshots: int) -> str | None:
    """The reason why databases may stay different for ever, None when they cannot.

    Parameters:
        method: a name in `masters.resolution.METHODS`.
        masters: how many masters the table has.
        snapshots: how many updatable snapshots it has, at all masters together.
    """
    if masters <= 1 or method in _ALWAYS:
        return None
    if method == "site_priority":
        if masters == 2 and not snapshots:
            return None
        return "site_priority keeps two masters equal only without updatable snapshots"
    if method == "custom":
        return "what a custom routine decides at several masters is not known"
    return f"{method} decides at each of {masters} masters for that master alone"
