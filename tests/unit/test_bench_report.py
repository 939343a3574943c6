"""What `make bench` says of its figures, alone and beside those of an earlier run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import typer

from benchmarks import report
from benchmarks.pairs import Against as Limit
from benchmarks.pairs import Result, Side, alternate, compared
from benchmarks.runs import BENCHMARKS, chosen


def result(against: str, *ratios: float) -> Result:
    return compared("push", "push", against, ratios, [1.0] * len(ratios), bar=2.0)


def test_table_tells_machine_bars_noise_and_what_has_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "before.json"
    report.keep([result("limit", 1.0, 1.0), result("other", 1.0, 1.0)], kept)
    report.show(
        [
            result("limit", 1.5, 1.5),
            result("other", 1.1, 1.1),
            result("newcomer", 0.5, 1.0, 4.0),
        ],
        report.read(kept),
    )
    said = capsys.readouterr().out
    rows = {row.split("│")[3].strip(): row for row in said.splitlines() if "│" in row}
    assert "1.00 (+50%)" in rows["limit"]
    assert "(" not in rows["other"]
    assert "new" in rows["newcomer"]
    assert "1.00 noisy" in rows["newcomer"]
    assert "0.50 to 4.00" in rows["newcomer"]
    assert "noisy: the rounds differ" in said
    for told in ("cores", "memory", "machine", "system", "python", "load"):
        assert f"{told} " in said


def test_rounds_are_alternated_after_one_that_does_not_count() -> None:
    order: list[str] = []
    sides = [Side(label=one, run=partial(order.append, one)) for one in "ab"]
    [made] = alternate("x", sides[0], Limit(side=sides[1]))
    assert order == ["a", "b"] * 6
    assert made.lowest <= made.ratio <= made.highest


@pytest.mark.parametrize("text", ["", "{}", '{"results": [{}]}', "[1]", "null"])
def test_a_file_without_figures_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(typer.BadParameter, match="holds no figures"):
        report.read(path)
    with pytest.raises(typer.BadParameter, match="holds no figures"):
        report.read(tmp_path / "none.json")


def test_a_benchmark_that_does_not_exist_is_told_which_do() -> None:
    with pytest.raises(typer.BadParameter) as caught:
        chosen("pushes")
    assert all(name in caught.value.message for name in BENCHMARKS)
