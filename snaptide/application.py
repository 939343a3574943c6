"""Makes the Celery application from the settings, and enqueues its tasks.

Tasks carry names as JSON, never rows, credentials or code. A worker
acknowledges a task when it is done, so that the broker gives a task whose
worker died to another one; every task can run twice. The queue of record is
the site's own database: losing Redis costs time, but loses no change.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from celery.signals import task_failure, task_retry, worker_ready
from kombu import Queue
from kombu.exceptions import OperationalError

from sites.errors import in_one_line
from snaptide import broker, logs
from snaptide.asking import as_told
from snaptide.errors import NoBroker
from snaptide.sections import BrokerSettings
from snaptide.settings import Settings

log = logging.getLogger(__name__)

#: The log shows at most so many characters of an argument.
LONGEST_ARGUMENT = 200

CHECK = "snapshots.tasks.check"
PUSH = "deferred.tasks.push"
PURGE = "deferred.tasks.purge"
RECOVER = "groups.tasks.recover"
REFRESH = "snapshots.tasks.refresh"

#: The priority of tasks that no broken contract hurries.
ORDINARY = 6


def queue_of(site: str) -> str:
    """The queue of a site's tasks, so that a worker can run next to its database."""
    return f"snaptide.{site}"


def celery_app(settings: Settings, log_format: str | None = None) -> Celery:
    """Make the Celery application.

    Parameters:
        log_format: text or json; by default as the settings say.

    Raises:
        NoBroker: the settings have no [broker].
    """
    if settings.broker is None:
        raise NoBroker("The settings have no [broker].")
    broker.use()
    app = Celery(
        "snaptide", include=["deferred.tasks", "groups.tasks", "snapshots.tasks"]
    )
    app.conf.update(_conf(settings), **_broker(settings.broker))
    app.steps["worker"].update(
        ["snaptide.listener:Listen", "snaptide.unused:CloseUnused"]
    )
    if (log_format or settings.worker.log_format) == "json":
        logs.celery_as_json()
    worker_ready.connect(_recover, weak=False, dispatch_uid="snaptide.recover")
    worker_ready.connect(_stand_by, weak=False, dispatch_uid="snaptide.standby")
    task_failure.connect(_tell_failure, weak=False, dispatch_uid="snaptide.failure")
    task_retry.connect(_tell_retry, weak=False, dispatch_uid="snaptide.retry")
    return app


def sites_of(app: Celery) -> list[str]:
    """The sites whose queues the worker of this process takes."""
    prefix = queue_of("")
    return [
        name.removeprefix(prefix)
        for name in app.amqp.queues.consume_from
        if name.startswith(prefix)
    ]


def enqueue(
    app: Celery, task: str, site: str, subject: str | None = None, **how: Any
) -> str:
    """Put a task into its site's queue.

    Parameters:
        task: CHECK, PUSH, PURGE, RECOVER or REFRESH.
        subject: the destination or refresh group.
        how: `options` are the task's own arguments, `expires` are the seconds
            after which it is not worth running any more; `again_after` makes it the
            first retry of something that failed, in so many seconds; of a lower
            `priority` than ORDINARY, it comes before the tasks of all sites.

    Returns:
        Celery's id of the task.

    Raises:
        NoBroker: Redis does not answer.
    """
    arguments = [site] if subject is None else [site, subject]
    again_after = how.get("again_after")
    try:
        sent = app.send_task(
            task,
            args=arguments,
            kwargs=dict(how.get("options") or {}),
            queue=queue_of(site),
            expires=how.get("expires"),
            priority=how.get("priority", ORDINARY),
            countdown=again_after,
            retries=0 if again_after is None else 1,
        )
    except OperationalError as error:
        raise NoBroker("The broker does not answer.") from error
    return str(sent.id)


def _recover(sender: Any, **_: object) -> None:
    """Recover the sites of a worker that starts: dead ones may leave work in doubt."""
    for name in sites_of(sender.app):
        enqueue(sender.app, RECOVER, name, expires=60)


def _stand_by(sender: Any, **_: object) -> None:
    """Have Spark started by a worker that starts, before a task needs it."""
    # Imported late: only workers need it.
    from snaptide import standby

    standby.begin(sender.app, sender.pool, sites_of(sender.app))


def _tell_failure(sender: Any, exception: Exception, args: Any, **_: object) -> None:
    """Say in one line which task of which site failed, why, and what to do."""
    _tell(sender.name, args, exception)


def _tell_retry(sender: Any, request: Any, reason: Any, **_: object) -> None:
    """Say the same of a task that Celery is going to retry."""
    _tell(sender.name, request.args, getattr(reason, "exc", None) or reason)


def _tell(task: str, args: Any, error: Exception) -> None:
    # Any program that can write to the broker may have sent anything, of any length.
    given = [" ".join(str(arg)[:LONGEST_ARGUMENT].split()) for arg in args]
    what = " ".join([task.rpartition(".")[2], *given])
    told = as_told(error)
    about = dict(zip(("site", "subject"), given, strict=False))
    log.error(
        "%s: %s",
        what,
        in_one_line(told),
        extra={"event": task.rpartition(".")[2], **about, "code": told.code},
    )


def _broker(settings: BrokerSettings) -> dict[str, Any]:
    return {
        "broker_url": settings.url.get_secret_value(),
        "broker_transport_options": {"visibility_timeout": settings.visibility_timeout},
        "broker_connection_retry_on_startup": True,
    }


def _conf(settings: Settings) -> dict[str, Any]:
    return {
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        # Acknowledge failed tasks, too: the site's queue is still in its database.
        "task_acks_on_failure_or_timeout": True,
        # Progress and outcome are recorded in the site's own tables.
        "task_ignore_result": True,
        "worker_prefetch_multiplier": 1,
        # A JVM does not survive fork.
        "worker_pool": settings.worker.pool,
        "worker_concurrency": settings.worker.concurrency,
        "worker_hijack_root_logger": True,
        # Without it, a command would wait for a dead broker for ever.
        "task_publish_retry_policy": {
            "max_retries": 2,
            "interval_start": 0.1,
            "interval_step": 0.3,
        },
        "task_default_queue": "snaptide",
        "task_default_priority": ORDINARY,
        "task_queues": [Queue("snaptide"), *map(Queue, map(queue_of, settings.sites))],
        "task_routes": [_route],
        "beat_scheduler": "snaptide.beat:CatalogScheduler",
        "snaptide_listen": settings.worker.model_dump(
            include={"listen", "debounce", "poll"}
        ),
        "snaptide_warm": settings.worker.warm,
        "enable_utc": True,
        "timezone": "UTC",
    }


def _route(
    name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **_: Any
) -> dict[str, str] | None:
    """Route a task whose sender named no queue: its first argument is its site."""
    site = args[0] if args else (kwargs or {}).get("site")
    return {"queue": queue_of(site)} if isinstance(site, str) else None
