"""What `celery -A snaptide worker` and `celery -A snaptide beat` find.

Importing it reads the settings; `snaptide worker` and `snaptide beat` do the same
with their options.
"""

from __future__ import annotations

from snaptide.application import celery_app
from snaptide.settings import Settings

_settings = Settings.load()
_settings.install()

app = celery_app(_settings)
