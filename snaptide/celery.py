"""The application that `celery -A snaptide worker` and `... beat` load.

Importing this file reads the settings; `snaptide worker` and `snaptide beat` read
them with their own options.
"""

from __future__ import annotations

from snaptide.application import celery_app
from snaptide.settings import Settings

_settings = Settings.load()
_settings.install()

app = celery_app(_settings)
