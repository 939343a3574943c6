"""Serves figures for Prometheus, and answers probes: /metrics, /healthz, /readyz."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sites import Site
from snaptide.asking import asking
from snaptide.figures import FIGURES, Kind
from snaptide.status import SiteStatus
from snaptide.totals import StepTimes
from snaptide.web import visit as visits
from snaptide.web.console import Console
from snaptide.web.questions import Answer

_WHO = {"WWW-Authenticate": 'Basic realm="snaptide"'}


class Figures(Collector):
    """Reads the figures of all sites when they are asked for."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def collect(self) -> Iterable[Metric]:
        """Ask all sites at once, each for two seconds at most."""
        states = [
            _state(name, answer) for name, answer in self._console.states().items()
        ]
        for figure in FIGURES:
            family = _FAMILIES[figure.kind](
                figure.name, figure.help, labels=("site", *figure.labels)
            )
            for state in states:
                for labels, value in figure.of(state):
                    family.add_metric((state.site, *labels), *_told(value))
            yield family


_FAMILIES: Mapping[Kind, Any] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _told(value: float | StepTimes) -> tuple[Any, ...]:
    """A value as its family takes it."""
    if isinstance(value, StepTimes):
        return [*value.at_most.items()], value.seconds
    return (value,)


def routes(console: Console, *, protected: bool) -> Iterator[Route]:
    """The addresses that a monitoring system asks.

    Parameters:
        protected: figures are for users only, where the console has users.
    """
    registry = CollectorRegistry(auto_describe=False)
    figures = Figures(console)

    def metrics(request: Request) -> Response:
        if protected and not _is_user(console, request):
            return PlainTextResponse("Who are you?\n", 401, _WHO)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=kind)

    def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_: Request) -> Response:
        if not console.sites or _any_answers(console):
            return PlainTextResponse("ok\n")
        return PlainTextResponse("no site answers\n", 503)

    registry.register(figures)
    yield Route("/metrics", metrics, methods=["GET"])
    yield Route("/healthz", healthz, methods=["GET"])
    yield Route("/readyz", readyz, methods=["GET"])


def application(console: Console) -> Starlette:
    """Figures and probes alone, as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        console.close()

    return Starlette(routes=list(routes(console, protected=False)), lifespan=lifespan)


def _state(site: str, answer: Answer[SiteStatus]) -> SiteStatus:
    if answer.value is not None:
        return answer.value
    why = answer.error.message if answer.error else ""
    return SiteStatus(site=site, reachable=not answer.away, error=why)


def _any_answers(console: Console) -> bool:
    answers = console.questions.ask_all(console.sites, "ready", _answers)
    return any(not answer.away for answer in answers.values())


def _answers(site: Site) -> bool:
    with asking(site):
        return True


def _is_user(console: Console, request: Request) -> bool:
    """Whether a user asks: logged in, named by the proxy, or by name and password."""
    return visits.begin(console, request) is not None or _has_password(console, request)


def _has_password(console: Console, request: Request) -> bool:
    name, password = _basic(request.headers.get("authorization", ""))
    address = request.client.host if request.client else ""
    if not name or console.users is None or console.attempts.wait(name, address):
        return False
    began = console.attempts.begin(name, address)
    if console.users.check(name, password) is None:
        return False
    console.attempts.succeeded(name, address, began)
    return True


def _basic(header: str) -> tuple[str, str]:
    """Name and password of HTTP's basic authentication; empty if there are none."""
    scheme, _, coded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(coded, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password
