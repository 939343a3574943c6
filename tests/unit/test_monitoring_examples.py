"""The dashboard and the alerts of the docs ask for figures that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from typer.main import get_command

from snaptide.cli import app
from snaptide.figures import FIGURES

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DASHBOARD: dict[str, Any] = json.loads(
    (EXAMPLES / "grafana-dashboard.json").read_text()
)
ALERTS: list[dict[str, Any]] = yaml.safe_load(
    (EXAMPLES / "prometheus-alerts.yaml").read_text()
)["groups"][0]["rules"]

#: What KEDA asks to know how many workers there should be.
SCALERS: list[dict[str, Any]] = yaml.safe_load(
    (EXAMPLES / "keda-workers.yaml").read_text()
)["spec"]["triggers"]

#: By what Prometheus calls a histogram, what Snaptide calls it.
HISTOGRAMS = {
    f"{one.name}_{part}": one.name
    for one in FIGURES
    if one.kind == "histogram"
    for part in ("bucket", "sum", "count")
}
#: By name of a figure, its labels.
LABELS = {one.name: {"site", *one.labels} for one in FIGURES}

QUERIES = [
    *(one["expr"] for one in ALERTS),
    *(one["metadata"]["query"] for one in SCALERS),
    *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]),
]


def asked(query: str) -> Iterator[tuple[str, set[str]]]:
    """The figures that a query reads, each with the labels it chooses by."""
    found: list[promql_parser.VectorSelector] = []

    def visit(part: object) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(query), visit)
    for one in found:
        name = HISTOGRAMS.get(str(one.name), str(one.name))
        yield name, {matcher.name for matcher in one.matchers.matchers}


@pytest.mark.parametrize("query", sorted(set(QUERIES)))
def test_queries_ask_for_figures_that_there_are(query: str) -> None:
    found = list(asked(query))
    assert found
    for name, labels in found:
        assert labels <= LABELS[name]


def test_each_figure_of_trouble_has_a_place() -> None:
    shown = {name for query in QUERIES for name, _ in asked(query)}
    assert set(LABELS) - shown == {"snaptide_queue_calls"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: str(one["alert"]))
def test_alerts_name_labels_and_commands_that_there_are(alert: dict[str, Any]) -> None:
    said = " ".join(alert["annotations"].values())
    [(figure, _), *_] = asked(alert["expr"])
    known = {"site"} if alert["expr"].startswith("sum by (site)") else LABELS[figure]
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= known
    assert alert["labels"]["severity"] in {"warning", "critical"}
    for words in re.findall(r"snaptide ([a-z-]+(?: [a-z-]+)?)", said):
        command: Any = get_command(app)
        for word in words.split():
            commands = getattr(command, "commands", None)
            if commands is None:
                break
            assert word in commands, words
            command = commands[word]


def test_panels_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(
        DASHBOARD["panels"]
    )
