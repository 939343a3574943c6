"""Synchronous propagation: one transaction over a site and its masters."""

from synchronous.connection import begin, coordinate
from synchronous.in_doubt import (
    InDoubt,
    commit_in_doubt,
    forget_in_doubt,
    list_in_doubt,
    rollback_in_doubt,
)
from synchronous.recovery import RecoveryReport, recover

__all__ = [
    "InDoubt",
    "RecoveryReport",
    "begin",
    "commit_in_doubt",
    "coordinate",
    "forget_in_doubt",
    "list_in_doubt",
    "recover",
    "rollback_in_doubt",
]
