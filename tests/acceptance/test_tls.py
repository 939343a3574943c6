"""Lines to PostgreSQL and Redis through TLS, with certificates that are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import deferred
import snapshots
from sites import Directory, Site
from sites.errors import SiteUnreachable
from snaptide.embedded import RedisServer
from tests.fix_sites import log
from tests.fix_tls import HOST, Authority, TlsEndpoint
from tests.fix_worker import Services, WriteSettings, eventually
from tests.linked_table import queued, run
from tests.stories import assert_equal_to_master

pytestmark = pytest.mark.usefixtures("spark")

MakeEndpoint = Callable[..., TlsEndpoint]


def through(site: Site, endpoint: TlsEndpoint, trusted: Path, mode: str) -> str:
    """The URL of a site that leads through TLS."""
    url = site.url.set(drivername="postgresql", host=HOST, port=endpoint.port)
    query = {"sslmode": mode, "sslrootcert": str(trusted)}
    return url.update_query_dict(query).render_as_string(hide_password=False)


@pytest.fixture
def far(
    sites: Directory, make_endpoint: MakeEndpoint, authority: Authority
) -> Directory:
    """The two sites through TLS, the master's name in the certificate checked."""
    endpoint = make_endpoint(
        sites["hq"].url.render_as_string(hide_password=False), asks_first=True
    )
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, v int)",
        "INSERT INTO public.t SELECT i, i FROM generate_series(1, 50) i",
    )
    log(sites["hq"], "t")
    return Directory(
        {
            name: through(site, endpoint, authority.file, "verify-full")
            for name, site in sites.items()
        }
    )


def test_load_push_and_refresh(
    far: Directory, sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All drivers: the pool's, COPY's, and those of Spark's tasks."""
    monkeypatch.setattr("snapshots.differences.comparison.SMALL_WINDOW", 10)
    jfk = far["jfk"]
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")
    run(sites["jfk"], "UPDATE public.t SET v = -v WHERE id < 20")
    run(sites["hq"], "UPDATE public.t SET v = 100 + v WHERE id > 20")
    snapshots.refresh(jfk, "t")
    assert_equal_to_master(jfk)
    with jfk.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        assert driver.pgconn.ssl_in_use
    far.close()


def test_unknown_authority_and_wrong_name_are_refused(
    sites: Directory,
    make_endpoint: MakeEndpoint,
    authority: Authority,
    stranger: Path,
) -> None:
    hq = sites["hq"]
    plain = hq.url.render_as_string(hide_password=False)
    endpoint = make_endpoint(plain, asks_first=True)
    wrong_name = through(hq, endpoint, authority.file, "verify-full")
    for url in (
        through(hq, endpoint, stranger, "verify-full"),
        wrong_name.replace(f"@{HOST}:", "@127.0.0.1:"),
    ):
        with pytest.raises(SiteUnreachable, match="certificate"):
            deferred.push(Directory({"hq": url})["hq"])


def test_worker_and_its_broker(
    far: Directory,
    sites: Directory,
    redis_server: RedisServer,
    make_endpoint: MakeEndpoint,
    authority: Authority,
    write_settings: WriteSettings,
) -> None:
    endpoint = make_endpoint(redis_server.url(), asks_first=False)
    broker = (
        f"rediss://{HOST}:{endpoint.port}/9"
        f"?ssl_cert_reqs=required&ssl_ca_certs={authority.file}"
    )
    services = Services(write_settings(far, broker))
    jfk = sites["jfk"]
    try:
        snapshots.create(far["jfk"], "t", master="hq", updatable=True)
        snapshots.refresh(far["jfk"], "t")
        services.worker()
        services.beat()
        run(jfk, "UPDATE public.t SET v = 7 WHERE id = 1")
        eventually(lambda: not queued(jfk), what="the push")
    finally:
        services.stop()
    assert endpoint.encrypted > 1
    far.close()


def test_broker_with_an_unknown_authority_is_refused(
    sites: Directory,
    redis_server: RedisServer,
    make_endpoint: MakeEndpoint,
    stranger: Path,
    write_settings: WriteSettings,
) -> None:
    endpoint = make_endpoint(redis_server.url(), asks_first=False)
    broker = (
        f"rediss://{HOST}:{endpoint.port}/9"
        f"?ssl_cert_reqs=required&ssl_ca_certs={stranger}"
    )
    services = Services(write_settings(sites, broker))
    try:
        worker = services.snaptide("worker")
        worker.wait_for_line("CERTIFICATE_VERIFY_FAILED")
    finally:
        services.stop()
