"""What the console refuses: writes without session, role or token, and attacks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from typer.testing import CliRunner

from sites import Directory
from snaptide.cli import app
from snaptide.web import figures, pages
from snaptide.web.application import application
from snaptide.web.attempts import OF_ADDRESS, OF_BOTH, OF_NAME, Attempts
from snaptide.web.console import Console
from snaptide.web.sessions import IDLE, LONGEST, Sessions
from snaptide.web.users import Role, Users, delete_user, read, set_user
from tests.console import PASSWORD, Browser, Searched, console
from tests.fix_worker import WriteSettings
from tests.linked_table import scalar

HERE = ("127.0.0.1", 5000)


@pytest.fixture
def made(sites: Directory, tmp_path: Path) -> Console:
    return console(sites, tmp_path)


def address(path: str) -> str:
    """A path with something in its places."""
    return path.replace("{site}", "hq").replace("{id:int}", "1")


WRITES = [address(action.path) for action in pages.ACTIONS]
READS = [address(page.path) for page in pages.PAGES]


def untouched(made: Console) -> bool:
    count = "SELECT count(*) FROM snaptide.operator_action"
    return bool(scalar(made.sites["hq"], count) == 0)


def test_nothing_is_shown_before_the_login(made: Console) -> None:
    browser = Browser(made, None)
    for path in READS:
        answer = browser.client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    for path in WRITES:
        answer = browser.client.post(path, data={"token": "x", "id": "1"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert untouched(made)


@pytest.mark.parametrize("token", ["", "wrong", "\u00e9"])
def test_no_write_without_the_token_of_the_session(made: Console, token: str) -> None:
    browser = Browser(made)
    other = Browser(made).token("/")
    for path in WRITES:
        for sent in (token, other):
            answer = browser.client.post(path, data={"token": sent, "id": "1"})
            assert answer.status_code == 403
    assert untouched(made)


def test_no_write_by_a_viewer_or_by_get(made: Console) -> None:
    viewer, operator = Browser(made, "viewer"), Browser(made)
    for path in WRITES:
        assert viewer.send(path, {"id": "1"}).status_code == 403
        assert operator.client.get(path).status_code in (404, 405)
    assert untouched(made)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_no_write_from_another_sites_page(made: Console, headers: Any) -> None:
    browser = Browser(made)
    data = {"token": browser.token("/"), "id": "1"}
    for path in (*WRITES, "/login", "/logout"):
        answer = browser.client.post(path, data=data, headers=headers)
        assert answer.status_code == 403
    assert untouched(made)
    assert browser.client.get("/").status_code == 200


def test_a_console_without_users_is_read_only(sites: Directory) -> None:
    browser = Browser(Console(sites=sites), None)
    assert "read-only" in browser.get("/")
    for path in WRITES:
        assert browser.client.post(path, data={"id": "1"}).status_code == 403
    assert '<form method="post"' not in browser.get("/sites/hq/errors")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8400", "localhost.evil.example", "hq"]
)
def test_only_hosts_that_are_ours(made: Console, host: str) -> None:
    for path in ("/login", "/static/console.css", "/"):
        answer = Browser(made, None).client.get(path, headers={"Host": host})
        assert answer.status_code == 400


def test_ours_are_all_names_of_this_machine(made: Console) -> None:
    for host in ("localhost:8400", "127.0.0.1:8400", "[::1]:8400"):
        answer = Browser(made, None).client.get("/login", headers={"Host": host})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../application.py",
        "/static/..%2fapplication.py",
        "/static/%2e%2e/users.py",
        "/static//etc/passwd",
        "/static/..\\application.py",
        "/sites/..%2f/errors",
        "/sites/nowhere/errors",
        "/sites/hq%00/errors",
        "/sites/hq/errors/99999999999999999999",
        "/sites/hq/errors?page=0",
        "/sites/hq/errors?page=1e9",
        "/sites/hq/errors/1?after=-1",
    ],
)
def test_paths_lead_nowhere_else(made: Console, path: str) -> None:
    answer = Browser(made).client.get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_every_answer_has_its_headers(made: Console) -> None:
    client = Browser(made).client
    for path in (*READS, "/login", "/nowhere", "/static/console.css"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        cached = path.startswith("/static/")
        assert ("no-store" in headers["cache-control"]) is not cached


def test_cookies_are_closed_to_scripts_and_other_sites(made: Console) -> None:
    browser = Browser(made, None)
    cookie = browser.log_in("operator").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    client = TestClient(Searched(application(made)), base_url="https://localhost")
    answer = client.get("/login")
    assert "secure" in answer.headers["set-cookie"].lower()


def test_a_login_begins_a_new_session_and_a_logout_ends_it(made: Console) -> None:
    browser = Browser(made)
    first = browser.client.cookies["snaptide_session"]
    assert "operator (operator)" in browser.get("/")
    browser.log_in("operator")
    assert browser.client.cookies["snaptide_session"] != first
    assert made.sessions.find(first) is None
    secret = browser.client.cookies["snaptide_session"]
    assert browser.send("/logout", {}).status_code == 303
    assert made.sessions.find(secret) is None
    assert browser.client.get("/").status_code == 303


def test_a_login_needs_the_form_of_this_browser(made: Console) -> None:
    token = Browser(made, None).token("/login")
    browser = Browser(made, None)
    data = {"token": token, "name": "operator", "password": PASSWORD}
    assert browser.client.post("/login", data=data).status_code == 403
    browser.token("/login")
    assert browser.client.post("/login", data=data).status_code == 403


def test_logins_are_limited(made: Console, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser = Browser(made, None)
    for _ in range(OF_BOTH):
        answer = browser.log_in("operator", "wrong, and long enough")
        assert answer.status_code == 401
        assert "name or the password is wrong" in answer.text
    assert browser.log_in("operator").status_code == 429
    assert browser.log_in("viewer").status_code == 303
    assert PASSWORD not in caplog.text
    assert "wrong, and long" not in caplog.text


def test_attempts_are_forgotten_after_a_while() -> None:
    now = [0.0]
    attempts = Attempts(clock=lambda: now[0])
    for _ in range(OF_BOTH):
        attempts.begin("anna", "10.0.0.1")
    assert attempts.wait("anna", "10.0.0.1") > 0
    assert attempts.wait("anna", "10.0.0.2") == 0
    now[0] = 301
    assert attempts.wait("anna", "10.0.0.1") == 0


def test_right_passwords_do_not_count_and_hide_no_wrong_ones() -> None:
    now = [0.0]
    attempts = Attempts(clock=lambda: now[0])

    def log_in(name: str, address: str, *, right: bool) -> bool:
        now[0] += 1
        if attempts.wait(name, address):
            return False
        began = attempts.begin(name, address)
        if right:
            attempts.succeeded(name, address, began)
        return True

    # One address and one name, oftener than either may fail.
    assert all(log_in("anna", "10.0.0.1", right=True) for _ in range(60))
    # Guesses with names that change, and right passwords between them.
    guessed = [log_in(f"u{n}", "10.0.0.1", right=False) for n in range(OF_ADDRESS - 1)]
    assert all(guessed)
    assert log_in("anna", "10.0.0.1", right=True)
    assert log_in("last", "10.0.0.1", right=False)
    assert not log_in("anna", "10.0.0.1", right=True)
    # Guesses for one name, from addresses that change.
    for number in range(OF_NAME - 1):
        assert log_in("berta", f"10.1.0.{number}", right=False)
    assert log_in("berta", "10.2.0.1", right=True)
    assert log_in("berta", "10.2.0.1", right=False)
    assert not log_in("berta", "10.2.0.2", right=True)


def test_sessions_end() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    idle, _ = sessions.begin("anna")
    now[0] = IDLE + 1
    assert sessions.find(idle) is None
    busy, _ = sessions.begin("anna")
    for at in range(0, LONGEST + 2 * IDLE, IDLE):
        now[0] = IDLE + 1 + at
        found = sessions.find(busy)
    assert found is None


def test_a_page_that_renews_itself_keeps_no_session() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    left, _ = sessions.begin("anna")
    now[0] = IDLE - 1
    assert sessions.find(left, polled=True) is not None
    now[0] = IDLE + 1
    assert sessions.find(left, polled=True) is None


def test_who_is_removed_or_changed_is_so_at_once(made: Console, tmp_path: Path) -> None:
    browser = Browser(made)
    path = tmp_path / "users-password"
    set_user(path, "operator", Role.VIEWER, PASSWORD)
    assert "operator (viewer)" in browser.get("/")
    delete_user(path, "operator")
    assert browser.client.get("/").headers["location"] == "/login"


def test_a_large_body_is_refused(made: Console) -> None:
    browser = Browser(made)
    answer = browser.send("/sites/hq/errors/retry", {"id": "1" * 2_000_000})
    assert answer.status_code in (400, 413)
    files = {"id": ("name", b"content")}
    sent = browser.client.post("/sites/hq/errors/retry", files=files)
    assert sent.status_code == 400
    assert untouched(made)


def behind_proxy(made: Console, client: tuple[str, int]) -> TestClient:
    made.proxy_header = "X-Remote-User"
    answers = Searched(application(made))
    return TestClient(answers, base_url="http://localhost", client=client)


def by_proxy(made: Console, client: tuple[str, int], **headers: str) -> Any:
    return behind_proxy(made, client).get("/", headers=headers)


def test_a_proxy_says_who_it_is(made: Console) -> None:
    said = {"X-Remote-User": "administrator"}
    assert "administrator (administrator)" in by_proxy(made, HERE, **said).text
    assert by_proxy(made, ("10.0.0.9", 5000), **said).status_code == 403
    assert by_proxy(made, HERE, **{"X-Remote-User": "mallory"}).status_code == 403
    assert by_proxy(made, HERE).status_code == 403


@pytest.mark.parametrize("other", ["viewer", "administrator"])
def test_a_proxy_that_says_it_twice_is_not_believed(made: Console, other: str) -> None:
    said = [("X-Remote-User", "administrator"), ("x-remote-user", other)]
    answer = behind_proxy(made, HERE).get("/", headers=said)
    assert answer.status_code == 403


def test_hashes_and_addresses_of_databases_are_nowhere(made: Console) -> None:
    browser = Browser(made, "administrator")
    for path in READS:
        text = browser.client.get(path).text
        assert "argon2" not in text
        assert "postgresql://" not in text


# --- the commands ------------------------------------------------------------


def test_users_are_made_listed_and_removed(
    sites: Directory, write_settings: WriteSettings
) -> None:
    config = write_settings(sites)

    def run(*words: str, given: str | None = None) -> Any:
        return CliRunner().invoke(
            app, ["--config", str(config), "user", *words], input=given
        )

    assert "SNP-431" in run("set", "anna", "--role", "operator", given="short\n").stderr
    assert "SNP-431" in run("set", "a:b", "--role", "viewer", given=PASSWORD).stderr
    assert (
        run("set", "anna", "--role", "operator", given=f"{PASSWORD}\n").exit_code == 0
    )
    path = config.parent / "snaptide.users"
    assert path.stat().st_mode & 0o077 == 0
    assert PASSWORD not in path.read_text()
    assert Users(path).check("anna", PASSWORD)
    assert not Users(path).check("anna", f"{PASSWORD}.")
    assert not Users(path).check("berta", PASSWORD)
    assert "operator" in run("list").stdout
    assert run("delete", "anna", "--yes").exit_code == 0
    assert read(path) == {}
    assert "SNP-432" in run("delete", "anna", "--yes").stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--listen", "0.0.0.0:8400"], "SNP-433"),
        (["--listen", "8400"], "SNP-404"),
        (["--proxy-header", "X-User"], "SNP-404"),
        (["--users", "nowhere"], "SNP-430"),
    ],
)
def test_the_console_does_not_open_itself(
    sites: Directory, write_settings: WriteSettings, words: list[str], code: str
) -> None:
    config = str(write_settings(sites))
    found = CliRunner().invoke(app, ["--config", config, "web", *words])
    assert code in found.stderr


def test_all_routes_are_pages_actions_figures_or_the_login(made: Console) -> None:
    routes = [r for r in application(made).routes if isinstance(r, Route)]
    known = {p.path for p in pages.PAGES} | {a.path for a in pages.ACTIONS}
    asked = {r.path: r.methods for r in figures.routes(made, protected=True)}
    assert set(asked) == {"/metrics", "/healthz", "/readyz"}
    assert all(methods == {"GET", "HEAD"} for methods in asked.values())
    assert {r.path for r in routes} - known - set(asked) == {"/login", "/logout"}
