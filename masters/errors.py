"""Errors of the masters package: codes SNP-1xx."""

from __future__ import annotations

from sites.errors import SnaptideError

# Rules of conflict resolution: SNP-12x.


class RuleError(SnaptideError):
    """A rule of conflict resolution cannot be used as it was given."""

    code = "SNP-120"  # Oracle: ORA-23325 (parameter type), ORA-23334 and others
    hint = "Give an update rule its column group and a uniqueness rule its constraint."


class UnknownMethod(RuleError):
    """There is no resolution method of that name."""

    code = "SNP-121"
    hint = "The error lists the methods; a routine of your own goes by method custom."


class MissingParameter(RuleError):
    """The resolution method needs a parameter that was not given."""

    code = "SNP-122"
    hint = "Add the parameter that is named to the rule."


class UnknownParameter(RuleError):
    """The resolution method does not have that parameter."""

    code = "SNP-123"
    hint = "Remove it, or correct its spelling; the error lists what the method takes."


class InvalidParameter(RuleError):
    """The value given for a parameter of the resolution method does not fit."""

    code = "SNP-124"  # Oracle: ORA-23334 for a column outside the group
    hint = "A deciding column belongs to the column group that its rule decides."


class WrongColumnCount(RuleError):
    """The resolution method cannot decide a column group of that many columns."""

    code = "SNP-125"
    hint = "Give each such column a column group, and a rule, of its own."


class MethodDoesNotFit(RuleError):
    """The resolution method does not settle conflicts of that kind."""

    code = "SNP-126"
    hint = "Method custom settles every kind of conflict by a routine of your own."


class UnknownRoutine(RuleError):
    """No routine is registered under that name on this machine."""

    code = "SNP-127"
    hint = (
        "Install the package that declares it (entry points snaptide.resolution) "
        "or name it as module:function in the configuration."
    )


class UnusableRoutine(RuleError):
    """The routine cannot be imported or called, or its name is taken."""

    code = "SNP-128"
    hint = "A routine is a plain function that takes a Conflict, returns a Resolution."
