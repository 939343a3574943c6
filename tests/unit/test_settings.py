"""What snaptide.toml may say, and what Snaptide says when it is wrong."""

import os
from pathlib import Path

import pytest

from masters.resolution import routines
from sites.configured import configured, executor_connections
from snaptide.errors import (
    BadSettings,
    SettingsNotFound,
    UnreadableSecret,
    UnsetVariable,
)
from snaptide.settings import Settings

HQ = '[sites.hq]\nurl = "postgresql://snaptide@hq.example/hq"\n'


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SNAPTIDE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "snaptide.toml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS", "redis.example")
    write(
        HQ
        + """
[broker]
url = "redis://${REDIS}/0"
[spark]
master = "sc://spark.example"
[spark.conf]
spark.driver.memory = "2g"
"spark.ui.enabled" = false
[resolution]
routines = { mine = "os.path:join" }
[worker]
pool = "solo"
concurrency = 1
"""
    )
    settings = Settings.load()
    assert list(settings.sites) == ["hq"]
    assert settings.broker is not None
    assert settings.broker.url.get_secret_value() == "redis://redis.example/0"
    assert settings.spark.conf == {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
    }
    assert settings.worker.pool == "solo"


def test_install_leaves_them_to_the_process() -> None:
    write(HQ + '[spark]\nmaster = "local[1]"\nconnections = 3\n')
    directory = Settings.load().install()
    assert configured().directory is directory
    assert configured().spark_master == "local[1]"
    assert executor_connections() == 3


def test_a_program_gets_its_custom_routines_with_its_sites() -> None:
    write(HQ + '[resolution]\nroutines = { joined = "os.path:join" }\n')
    Settings.load().install()
    found: object = routines.find("joined")
    assert found is os.path.join
    routines.REGISTRY.forget("joined")


def test_the_file_is_named_by_option_then_variable_then_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(HQ)
    write(HQ.replace("hq", "two"), "two.toml")
    write(HQ.replace("hq", "three"), "three.toml")
    assert list(Settings.load().sites) == ["hq"]
    monkeypatch.setenv("SNAPTIDE_CONFIG", "two.toml")
    assert list(Settings.load().sites) == ["two"]
    assert list(Settings.load(Path("three.toml")).sites) == ["three"]


def test_no_file() -> None:
    with pytest.raises(SettingsNotFound, match=r"no file snaptide\.toml"):
        Settings.load()


def test_the_environment_goes_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write(HQ + '[worker]\npool = "solo"\n')
    monkeypatch.setenv("SNAPTIDE_WORKER__POOL", "threads")
    assert Settings.load().worker.pool == "threads"


@pytest.mark.parametrize(
    ("variables", "password", "master"),
    [
        # It would be a number as JSON.
        ({"SNAPTIDE_SITES__HQ__PASSWORD": "12345"}, "12345", "local[1]"),
        ({"snaptide_sites__hq__password": '{"a"'}, '{"a"', "local[1]"),
        ({"SNAPTIDE_SPARK": '{"conf": {"a": "b"}}'}, None, "local[1]"),
        ({"SNAPTIDE_SPARK": "{}", "SNAPTIDE_SPARK__MASTER": "yarn"}, None, "yarn"),
        (
            {"SNAPTIDE_PUSH__ONE_BY_ONE": '["t"]', "SNAPTIDE_ELSE": "x"},
            None,
            "local[1]",
        ),
    ],
)
def test_variables_change_what_they_name(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    password: str | None,
    master: str,
) -> None:
    write(HQ + '[spark]\nmaster = "local[1]"\n')
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    loaded = Settings.load()
    given = loaded.sites["hq"].password
    assert (given and given.get_secret_value()) == password
    assert loaded.spark.master == master
    assert loaded.spark.conf == ({"a": "b"} if "conf" in str(variables) else {})
    assert loaded.push.one_by_one == (["t"] if "ONE_BY" in str(variables) else [])


def test_variable_for_a_table_that_is_not_json(monkeypatch: pytest.MonkeyPatch) -> None:
    write(HQ)
    monkeypatch.setenv("SNAPTIDE_SPARK", "yarn")
    with pytest.raises(BadSettings, match=r"is not JSON: .*spark"):
        Settings.load()


def test_unset_variable() -> None:
    write('[sites.hq]\nurl = "${NOWHERE_SET}"\n')
    with pytest.raises(UnsetVariable, match=r"sites\.hq\.url names .* NOWHERE_SET"):
        Settings.load()


def test_a_doubled_dollar_is_text() -> None:
    write('[resolution]\nroutines = { a = "$${b}:c" }\n')
    assert Settings.load().resolution.routines == {"a": "${b}:c"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[brokr]\n", "no setting brokr. Did you mean broker?"),
        (HQ + 'pasword = "x"\n', "no setting sites.hq.pasword. Did you mean password?"),
        ("[worker]\nzzz = 1\n", "The settings here are: pool, concurrency, log_level"),
        ("[sites.hq]\n", "sites.hq.url is missing"),
        ('[worker]\npool = "prefork"\n', "worker.pool must be 'threads' or 'solo'."),
        ('[sites."a b"]\nurl = "x"\n', "sites.a b"),
        ("[sites", "is not TOML"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    write(text)
    with pytest.raises(BadSettings) as refused:
        Settings.load()
    assert said in refused.value.message


def test_all_mistakes_at_once() -> None:
    write("[brokr]\n[wrker]\n")
    with pytest.raises(BadSettings) as refused:
        Settings.load()
    assert "brokr" in refused.value.message
    assert "wrker" in refused.value.message


def test_password_beside_the_url_is_taken_as_it_is() -> None:
    write(HQ + "password = 'p@ss/w:rd%'\n")
    assert Settings.load().install()["hq"].url.password == "p@ss/w:rd%"


def test_password_file_lies_beside_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "secret").write_text("tiger\n")
    path = write(HQ + 'password_file = "secret"\n', "etc/snaptide.toml")
    assert Settings.load(path).install()["hq"].url.password == "tiger"


def test_password_file_is_missing() -> None:
    write(HQ + 'password_file = "secret"\n')
    with pytest.raises(UnreadableSecret, match="password file of site hq"):
        Settings.load().install()


def test_password_given_twice() -> None:
    write(HQ + 'password = "a"\npassword_file = "b"\n')
    with pytest.raises(BadSettings, match="both password and password_file"):
        Settings.load().install()


def test_nothing_prints_a_password() -> None:
    write(
        '[sites.hq]\nurl = "postgresql://u:tiger@h/d"\n'
        '[sites.jfk]\nurl = "postgresql://u@h/d"\npassword = "tiger"\n'
        '[broker]\nurl = "redis://:tiger@h/0"\n'
    )
    settings = Settings.load()
    shown = [repr(settings), str(settings), settings.model_dump_json()]
    shown += [repr(settings.install()), repr(settings.install()["hq"])]
    assert "tiger" not in " ".join(shown)


def test_mistakes_do_not_print_a_password() -> None:
    write('[sites.hq]\nurl = ["tiger"]\n[broker]\nurl = { a = "tiger" }\n')
    with pytest.raises(BadSettings) as refused:
        Settings.load()
    assert "tiger" not in repr(refused.value)
    write('[sites.hq]\nurl = "tiger"\n')
    with pytest.raises(BadSettings) as refused:
        Settings.load().install()
    assert "tiger" not in repr(refused.value)
