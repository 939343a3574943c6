"""The page of the benchmarks' figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks import page
from benchmarks.pairs import compared


def test_page_shows_ratios_and_draws_what_it_has_points_for(tmp_path: Path) -> None:
    results = [
        compared(
            f"refresh: {changed:,} of 1,000 rows",
            "fast refresh, warm",
            "bare Spark diff",
            values,
            [0.2, 0.2],
            bar=1.8,
        )
        for changed, values in ((10, [0.3, 0.3]), (100, [0.2, 0.6]))
    ]
    figures = tmp_path / "figures.json"
    kept = {"machine": {"cores": 2}, "results": [asdict(one) for one in results]}
    figures.write_text(json.dumps(kept))
    page.main([figures], tmp_path)
    text = (tmp_path / "speed.md").read_text()
    assert "Measured on: cores 2." in text
    assert "| bare Spark diff | 1.50 | 1.50 to 1.50 | 1.80 |" in text
    assert "| bare Spark diff | 2.00 *noisy* | 1.00 to 3.00 | 1.80 |" in text
    assert (tmp_path / "speed-changes.svg").exists()
    assert not (tmp_path / "speed-tables.svg").exists()
