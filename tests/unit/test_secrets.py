"""The watch for passwords sees them, where and however they are written."""

from pathlib import Path

from tests.fix_secrets import Secrets


def test_password_is_seen(tmp_path: Path) -> None:
    secrets = Secrets()
    secrets.remember("a b/c")
    secrets.look_at("nothing here", "quiet")
    secrets.look_at("postgresql://me:a b/c@host", "plain")
    secrets.look_at("postgresql://me:a%20b%2Fc@host", "quoted")
    (tmp_path / "worker.log").write_text("connecting with a b/c")
    (tmp_path / "snaptide.toml").write_text("password = 'a b/c'")
    secrets.look_through(tmp_path)
    assert secrets.seen == ["plain", "quoted", str(tmp_path / "worker.log")]
