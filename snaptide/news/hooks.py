"""What takes news: a command of the operator's, and a webhook."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial

from snaptide.errors import HookFailed
from snaptide.news.seen import News
from snaptide.sections import NotificationSettings

#: Takes one piece of news, or raises `HookFailed`.
Hook = Callable[[News], None]

#: Seconds that a webhook and a command have.
SECONDS, SECONDS_OF_COMMAND = 5.0, 30.0


def configured(settings: NotificationSettings) -> Mapping[str, Hook]:
    """The hooks of the settings, by name."""
    found: dict[str, Hook] = {}
    if settings.command:
        found["command"] = partial(_run, settings.command)
    if settings.webhook is not None:
        found["webhook"] = partial(_post, settings.webhook.get_secret_value())
    return found


def as_json(news: News) -> str:
    """News as hooks get them; `text` is what chats show."""
    return json.dumps({"text": news.text, **asdict(news)})


def _run(command: Sequence[str], news: News) -> None:
    try:
        done = subprocess.run(
            command,
            input=as_json(news),
            text=True,
            timeout=SECONDS_OF_COMMAND,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise HookFailed(
            f"The command has not ended within {SECONDS_OF_COMMAND:.0f} s."
        ) from None
    except OSError as error:
        raise HookFailed(f"The command cannot be run: {error.strerror}.") from None
    if done.returncode:
        raise HookFailed(f"The command ended with {done.returncode}.")


def _post(url: str, news: News) -> None:
    request = urllib.request.Request(
        url,
        data=as_json(news).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        # Any status that is no success raises; the address itself may be a secret.
        with _straight().open(request, timeout=SECONDS):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        raise HookFailed(f"The webhook answered with status {error.code}.") from None
    except (OSError, ValueError) as error:
        why = type(getattr(error, "reason", error)).__name__
        raise HookFailed(f"The webhook does not answer: {why}.") from None


class _NoWayRound(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the news would be left behind."""

    def redirect_request(self, *_: object) -> None:
        """Ask nobody else."""


@cache
def _straight() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoWayRound)
