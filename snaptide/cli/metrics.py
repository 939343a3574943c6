"""`snaptide metrics`: serves figures without the console."""

from __future__ import annotations

from typing import Annotated

import typer

from sites.extras import require
from snaptide.cli.program import Program
from snaptide.cli.services import Format
from snaptide.cli.web import address_of, log_config


def metrics(
    program: Program,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where Prometheus reaches it.")
    ] = "127.0.0.1:9184",
    log_format: Format = None,
) -> None:
    """Serve figures of all sites to Prometheus.

    They are at /metrics; /healthz and /readyz answer probes. Whoever reaches the
    address may read names and counts, but no row. It stops with Ctrl-C.

    Example: snaptide metrics --listen 127.0.0.1:9184
    """
    require("web")
    import uvicorn

    from snaptide.web.console import Console
    from snaptide.web.figures import application

    address, port = address_of(listen)
    made = application(Console(sites=program.directory))
    typer.echo(f"Figures are at http://{listen}/metrics", err=True)
    uvicorn.run(
        made,
        host=address.strip("[]"),
        port=port,
        log_level=program.settings.worker.log_level,
        log_config=log_config(program, log_format),
        access_log=False,
        server_header=False,
    )
