"""The resolution methods by name; all keep one contract (`method.py`).

To add a method, write its class, list it here and in the convergence table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masters.errors import MethodDoesNotFit, UnknownMethod
from masters.resolution.appended import AppendSequence, AppendSiteName
from masters.resolution.computed import Additive, Average
from masters.resolution.conflict import Kind
from masters.resolution.custom import Custom
from masters.resolution.extremes import (
    EarliestTimestamp,
    LatestTimestamp,
    Maximum,
    Minimum,
)
from masters.resolution.informix import (
    InformixAlways,
    InformixDeleteWins,
    InformixIgnore,
    InformixTimestamp,
)
from masters.resolution.method import Method
from masters.resolution.plain import Cascade, Discard, Ignore, Overwrite, Restore
from masters.resolution.priority_group import PriorityGroup
from masters.resolution.site_priority import SitePriority

METHODS: Mapping[str, type[Method]] = {
    method.name: method
    for method in (
        Additive,
        AppendSequence,
        AppendSiteName,
        Average,
        Cascade,
        Custom,
        Discard,
        EarliestTimestamp,
        Ignore,
        InformixAlways,
        InformixDeleteWins,
        InformixIgnore,
        InformixTimestamp,
        LatestTimestamp,
        Maximum,
        Minimum,
        Overwrite,
        PriorityGroup,
        Restore,
        SitePriority,
    )
}


def build(
    name: str, kind: Kind, parameters: Mapping[str, object], columns: Sequence[str]
) -> Method:
    """Build the method that a rule names, and check it against its columns.

    Parameters:
        name: a name in `METHODS`.
        kind: the kind of conflict that the rule is for.
        parameters: the parameters of the rule.
        columns: the columns of the column group, the constraint or the whole row.

    Raises:
        RuleError: the method does not exist or does not settle that kind, or its
            parameters do not fit.
    """
    method = METHODS.get(name)
    if method is None:
        raise UnknownMethod(
            f"There is no resolution method {name!r}; the methods are: "
            f"{', '.join(METHODS)}.",
            method=name,
            known=list(METHODS),
        )
    if kind not in method.kinds:
        raise MethodDoesNotFit(
            f"{name} settles {' and '.join(sorted(method.kinds))} conflicts, "
            f"not {kind} conflicts.",
            method=name,
            kind=kind,
        )
    return method.build(parameters, columns)
