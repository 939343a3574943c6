"""`snaptide doctor`: finds what is missing or wrong at a site, and names the remedy.

It only looks: every finding names the command or statement that puts it right.
"""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from snaptide.doctor.checks import check_site as check_site, examine as examine
    from snaptide.doctor.finding import Finding as Finding, Severity as Severity


face(__name__)
