"""Resolution methods: each settles one kind of conflict in one way."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from masters.resolution.conflict import (
        Conflict as Conflict,
        Decision as Decision,
        Kind as Kind,
        Resolution as Resolution,
    )
    from masters.resolution.method import Method as Method
    from masters.resolution.methods import METHODS as METHODS, build as build
    from masters.resolution.routines import Routine as Routine, register as register
    from masters.resolution.virtuoso_classes import virtuoso as virtuoso


face(__name__)
