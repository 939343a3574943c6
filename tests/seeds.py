"""Where random tests begin: anew in each run; in CI, which judges, the same."""

import os
import secrets

#: A commit is judged: what is refused once would be refused again.
ALWAYS_THE_SAME = "CI" in os.environ


def seed(variable: str) -> int:
    """The seed that an environment variable names, or else another in each run."""
    given = int(os.environ.get(variable, "0"))
    return given or (1 if ALWAYS_THE_SAME else secrets.randbelow(10**9))
