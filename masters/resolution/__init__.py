"""Resolution methods: each settles one kind of conflict in one way."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from masters.resolution.conflict import Conflict, Decision, Kind, Resolution
    from masters.resolution.method import Method
    from masters.resolution.methods import METHODS, build
    from masters.resolution.routines import Routine, register
    from masters.resolution.virtuoso_classes import virtuoso

__all__ = [
    "METHODS",
    "Conflict",
    "Decision",
    "Kind",
    "Method",
    "Resolution",
    "Routine",
    "build",
    "register",
    "virtuoso",
]

face(__name__)
