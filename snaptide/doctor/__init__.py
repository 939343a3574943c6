"""`snaptide doctor`: finds what is missing or wrong at a site, and names the remedy.

It only looks: every finding names the command or statement that puts it right.
"""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from snaptide.doctor.checks import check_site, examine
    from snaptide.doctor.finding import Finding, Severity

__all__ = ["Finding", "Severity", "check_site", "examine"]

face(__name__)
