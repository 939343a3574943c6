"""Finds rows that differ, or may differ, between masters of a group."""

from __future__ import annotations

from collections.abc import Iterator

from groups.differences import differences
from sites import Site
from sites.words import counted
from snaptide.doctor.finding import Finding, warning


def check(site: Site, *, tables: bool) -> Iterator[Finding]:
    """Findings about listed rows, until a comparison has found them equal.

    Parameters:
        tables: compare whole tables where any row may differ, which takes its time.
    """
    for one in differences(site, tables=tables):
        shown = f"snaptide group check {site.name} {one.group} {one.table}"
        if one.rows is None:
            what = (
                f"Its rows may differ from those of other masters of {one.group}: "
                f"{one.why}."
            )
            todo = (
                f"Compare them, which may take long: {shown}. snaptide doctor "
                f"{site.name} compares them too, and forgets this if they are equal."
            )
            if tables:
                what = (
                    f"Its rows differ from those of some masters of {one.group}: "
                    f"{one.why}."
                )
                todo = f"Let a master that lacks rows join again. What differs: {shown}"
        else:
            what = (
                f"{counted(one.rows, 'row', 'are')} not the same at all masters of "
                f"{one.group}, or one does not answer; the first is {one.key}: "
                f"{one.why}."
            )
            todo = (
                "Correct them at one master; the others then get the same rows. What "
                f"each has: {shown}"
            )
        yield warning(site.name, f"table {one.table}", what, todo)
