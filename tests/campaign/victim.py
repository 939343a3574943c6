"""A process that does one verb, and is killed on the way."""

from __future__ import annotations

import json
import sys

from sites import Directory
from tests.campaign.verbs import VERBS


def main() -> None:
    """Read the sites from standard input and do the verb that is named."""
    sites = Directory(json.loads(sys.stdin.read()))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    VERBS[sys.argv[1]].run(sites)


if __name__ == "__main__":
    main()
