"""Runs a campaign of crashes."""

from __future__ import annotations

import sys

from tests.campaign.main import main

if __name__ == "__main__":
    sys.exit(main())
