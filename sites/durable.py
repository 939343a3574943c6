"""Commits that need no flush of their own, because the next one flushes them too.

A flush takes longer than the statements of a small transaction. PostgreSQL writes its
log in one order: what commits later in the same cluster and is flushed makes all before
it durable. So a commit may do without if nothing outside this cluster learns of it
before the next flush here (docs/decisions/0015-flushes.md).
"""

from __future__ import annotations

from sqlalchemy import func

#: Has the transaction of the statement that returns it commit without a flush.
LATER = func.set_config("synchronous_commit", "off", True)
