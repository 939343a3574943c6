"""Finds rows that differ, or may differ, between masters of a group."""

from __future__ import annotations

from collections.abc import Iterator

from groups.differences import differences
from sites import Site
from snaptide.doctor.finding import Finding, warning


def check(site: Site, *, tables: bool) -> Iterator[Finding]:
    """Findings about listed rows, until a comparison has found them equal.

    Parameters:
        tables: compare whole tables where any row may differ, which takes its time.
    """
    for one in differences(site, tables=tables):
        if one.rows is None:
            what = f"Its rows may be others at other masters of {one.group}: {one.why}."
            todo = f"Compare them, which takes its time: snaptide doctor {site.name}"
            if tables:
                what = (
                    f"Its rows are not those of all masters of {one.group}: {one.why}."
                )
                todo = "Compare them, and let the master that lacks some join again."
        else:
            what = (
                f"{one.rows} rows are not the same at all masters of {one.group}, or "
                f"one does not answer; the first is {one.key}: {one.why}."
            )
            todo = "Change them at one master, so that the others get what is right."
        yield warning(site.name, f"table {one.table}", what, todo)
