"""What one condition says about another: whether its rows fulfil that one, too."""

from __future__ import annotations

from sites.conditions.subqueries import Shape


def implies(given: Shape, shape: Shape) -> bool:
    """Whether a row that fulfils one condition is known to fulfil another one.

    It is if each part that must hold is also one of the first condition's, or has an
    alternative (OR) of which this is true.
    """
    known = _demands(given)
    return all(
        one in known or any(implies(given, other) for other in _alternatives(one))
        for one in _demands(shape)
    )


def _demands(shape: Shape) -> frozenset[Shape]:
    """The parts of a condition that must all hold."""
    if isinstance(shape, tuple) and shape[:1] == ("AND",):
        return frozenset(shape[1:])
    return frozenset({shape}) if shape else frozenset()


def _alternatives(shape: Shape) -> tuple[Shape, ...]:
    """The parts of which one must hold; none if they are not joined by OR."""
    return shape[1:] if isinstance(shape, tuple) and shape[:1] == ("OR",) else ()
