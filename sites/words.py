"""Numbers of things in words, as messages and pages say them."""

from __future__ import annotations

#: Verbs whose form for one thing has more than an s behind it.
_OF_ONE = {"are": "is", "were": "was", "have": "has"}


def counted(number: int, what: str, verb: str = "") -> str:
    """A number of things, and what they do: 1 row differs, 1,000 rows differ.

    Parameters:
        what: one of them.
        verb: what several do.
    """
    said = f"{number:,} {what}{'' if number == 1 else 's'}"
    return f"{said} {does(number, verb)}" if verb else said


def does(number: int, verb: str) -> str:
    """A verb as it stands behind a number of things.

    Parameters:
        verb: what several do.
    """
    return verb if number != 1 else _OF_ONE.get(verb, f"{verb}s")
