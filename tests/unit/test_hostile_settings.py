"""Settings files that are wrong on purpose: refused with a reason, no secret shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from snaptide.cli import app
from tests.fix_secrets import watched

SECRET = "tiger-7c1"

_SITE = '[sites.hq]\nurl = "postgresql://127.0.0.1:1/d"\n'


def _site(url: str) -> str:
    return f'[sites.hq]\nurl = "{url}"\n'


def _broker(url: str) -> str:
    return f'{_SITE}[broker]\nurl = "{url}"\n'


HOSTILE = {
    "a port that is none": _site(f"postgresql://u:{SECRET}@h:port/d"),
    "a password in its place": _site(f"postgresql://u:p@h:{SECRET}/d"),
    "a second @": _site(f"postgresql://u:a@{SECRET}@h/d"),
    "half an address": _site(f"postgresql://u:{SECRET}@[::1/d"),
    "another driver": _site(f"postgresql+os.system://u:{SECRET}@h/d"),
    "a module for a driver": _site(f"os.path:join://u:{SECRET}@h/d"),
    "another database": _site(f"mysql://u:{SECRET}@h/d"),
    "an unknown option": _site(
        f"postgresql://u:{SECRET}@127.0.0.1:1/d?nosuch={SECRET}"
    ),
    "quotes left open": f'[sites.hq]\npassword = "{SECRET}\n',
    "no quotes": f"[sites.hq]\npassword = {SECRET}\n",
    "given twice": f'[sites.hq]\npassword = "{SECRET}"\npassword = "{SECRET}"\n',
    "a list": f'{_SITE}password = ["{SECRET}"]\n',
    "a folder": f'{_SITE}password_file = "."\n',
    "no text": f'{_SITE}password_file = "binary"\n',
    "no path": f'{_SITE}password_file = "a\\u0000b"\n',
    "a name that is SQL": f'[sites."hq; DROP"]\nurl = "postgresql://u:{SECRET}@h/d"\n',
    "nested without end": "a = " + "[" * 5000 + "]" * 5000 + "\n",
    "a very large number": "[worker]\nconcurrency = " + "9" * 5000 + "\n",
    "a variable without name": _site("${}"),
    "a broker's port": _broker(f"redis://:{SECRET}@h:port/0"),
    "a broker's database": _broker(f"redis://:{SECRET}@h/{SECRET}"),
    "a broker's certificates": _broker(f"rediss://:{SECRET}@h/0?ssl_cert_reqs=x"),
    "files for a broker": _broker(f"filesystem://{SECRET}"),
    "a module for a broker": _broker(f"os.path:join://:{SECRET}@h/0"),
    "code": f"{_SITE}[resolution.routines]\na = \"os:system('touch done')\"\n",
    "no function": f'{_SITE}[resolution.routines]\na = "os"\n',
    "code for a hook": f"{_SITE}[notification.hooks]\na = \"os:mkdir('done')\"\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_settings(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.remember(SECRET)
    monkeypatch.chdir(tmp_path)
    Path("snaptide.toml").write_text(HOSTILE[what])
    Path("binary").write_bytes(b"\xff\xfe\x00")
    listed = CliRunner().invoke(app, ["site", "list"])
    pushed = CliRunner().invoke(app, ["push", "hq", "--json"])
    assert SECRET not in listed.output + listed.stderr + pushed.output + pushed.stderr
    assert not Path("done").exists()
    assert pushed.exit_code in (1, 4)
    error = json.loads(pushed.stderr.splitlines()[-1])["error"]
    assert error["code"] in REASONS, error
    assert error["hint"]


#: A site that cannot be reached or is not supported; settings, secrets and routines
#: that are wrong.
REASONS = ("SNP-002", "SNP-006", "SNP-012", "SNP-013", "SNP-014", "SNP-128", "SNP-403")
