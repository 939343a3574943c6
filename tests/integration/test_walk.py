"""How many statements the main flows send: a number that grows only on purpose."""

from __future__ import annotations

from benchmarks import walk

#: By flow, the statements that it sends; a synchronous write sends its in pipelines.
STATEMENTS = {
    "push of one call, no group anywhere": 58,
    "refresh of one key, with its empty push": 117,
    "refresh of nothing": 46,
    "one change over three masters, two pushes": 126,
}


def test_each_flow_sends_so_many_statements() -> None:
    found = {name: len(one.statements) for name, one in walk.measure().items()}
    assert {name: found[name] for name in STATEMENTS} == STATEMENTS
