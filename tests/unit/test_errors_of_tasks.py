"""What is said of a task of Spark that failed."""

from snapshots.spark.errors import LoadFailed, of_task

_TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "load.py", line 158, in _copy
    with reader.copy(out) as rows:
psycopg.errors.CheckViolation: new row violates a check
DETAIL:  Failing row contains (4999).
"""
_BECAUSE = """
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "load.py", line 128, in copy_range
    raise Refused("two lines")
snapshots.Refused: one
  two
"""


def test_a_trace_leaves_the_message_of_what_was_raised() -> None:
    error = of_task(LoadFailed, _TRACE)
    assert error.message == (
        "new row violates a check\nDETAIL:  Failing row contains (4999)."
    )
    assert error.facts["raised"] == "CheckViolation"


def test_the_last_of_two_traces_counts() -> None:
    error = of_task(LoadFailed, _TRACE + _BECAUSE)
    assert (error.message, error.facts["raised"]) == ("one\n  two", "Refused")


def test_a_message_without_a_trace_stays() -> None:
    error = of_task(LoadFailed, "Job 3 was cancelled: the application ended.")
    assert error.message == "Job 3 was cancelled: the application ended."
    assert error.facts["raised"] is None
