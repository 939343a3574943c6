"""compose.yaml holds together: what it names exists, and Snaptide can read it.

That each key is a key of the compose specification is checked by `make check`, against
the specification's own schema.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from snaptide.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SETTINGS = ROOT / "docs" / "examples" / "compose.toml"


def used(kind: str) -> Iterator[str]:
    """The names of configs, secrets or volumes that the services ask for."""
    for service in SERVICES.values():
        for entry in service.get(kind, ()):
            yield entry["source"] if isinstance(entry, dict) else entry.split(":")[0]


@pytest.mark.parametrize("kind", ["configs", "secrets", "volumes"])
def test_what_is_used_is_defined_and_what_is_defined_is_used(kind: str) -> None:
    assert set(used(kind)) == set(COMPOSE[kind])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_dependencies_can_be_met(name: str) -> None:
    for other, terms in SERVICES[name].get("depends_on", {}).items():
        if terms["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert terms["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "no"


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"init"}))
def test_every_lasting_service_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_are_pinned_or_built_here(name: str) -> None:
    image = SERVICES[name]["image"]
    assert ":" in image or SERVICES[name]["build"] == "."


def test_files_exist() -> None:
    assert (ROOT / COMPOSE["configs"]["snaptide"]["file"]) == SETTINGS
    assert (ROOT / "Dockerfile").is_file()


def test_settings_name_services_and_secrets() -> None:
    settings = Settings.load(SETTINGS)
    assert settings.spark.master == "spark://spark:7077"
    written = tomllib.loads(SETTINGS.read_text())
    assert make_url(written["broker"]["url"]).host in SERVICES
    for site in written["sites"].values():
        url = make_url(site["url"])
        assert url.host is not None
        server = SERVICES[url.host]["environment"]
        assert server["POSTGRES_DB"] == url.database
        assert server["POSTGRES_USER"] == url.username
        assert server["POSTGRES_PASSWORD_FILE"] == site["password_file"]


def test_postgres_is_the_version_that_tests_run_on() -> None:
    for name in ("hq", "branch"):
        assert SERVICES[name]["image"].startswith("postgres:18.")


def test_no_password_is_written_down() -> None:
    assert all(set(secret) == {"environment"} for secret in COMPOSE["secrets"].values())
