"""The commands of continuity: what they refuse before anything is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import run

ENGINE = ["engine", "--domain", "shop"]
LISTENER = ["listener", "--domain", "shop", "--name", "a", "--server", "http://127.0.0.1:9001"]


@pytest.mark.parametrize(("command", "package"), [(ENGINE, "uvicorn"), (LISTENER, "websockets")])
def test_without_the_packages_a_command_says_what_to_install(command: list[str], package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from holdfast.cli.main import main; main()"

    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert "pip install 'holdfast[continuity]'" in done.stderr


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ([*ENGINE, "--tls-client-ca", "ca.pem"], "--tls-certificate"),
        ([*ENGINE, "--tls-listener-ca", "ca.pem"], "--tls-certificate"),
        ([*LISTENER, "--tls-certificate", "a.pem"], "--tls-ca"),
        ([*LISTENER, "--egress-client-ca", "ca.pem"], "--egress-certificate"),
        ([*LISTENER, "--server-ca", "/nowhere.pem"], "authority /nowhere.pem cannot be used"),
        (["effects", "--domain", "shop", "--far", "x=https://x", "--far-ca", "/nowhere.pem"], "authority /nowhere.pem cannot"),
    ],
)
def test_options_of_tls_that_do_not_belong_together_or_cannot_be_read_are_refused(
    capsys: pytest.CaptureFixture[str], command: list[str], missing: str
) -> None:
    assert run(command) == 1
    assert missing in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ([*ENGINE, "--listen", "nonsense"], "--listen"),
        ([*ENGINE, "--answers", "nonsense"], "--answers"),
        ([*ENGINE, "--advertise", "foo"], "--advertise"),
        ([*LISTENER, "--egress", "nonsense"], "--egress"),
        (["store", "place", "files", "a", "--at", "a", "--listen", "nonsense"], "--listen"),
        (["store", "place", "files", "a", "--at", "a", "--advertise", "foo"], "--advertise"),
        (["store", "serve", "files", "--listen", "nonsense"], "--listen"),
    ],
)
def test_text_that_is_no_host_and_port_is_refused_before_anything_is_reached(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run([*command, "--url", f"file:{tmp_path}/events"]) == 1

    assert f"holdfast: {option} " in (told := capsys.readouterr().err)
    assert "write HOST:PORT" in told
    assert not list(tmp_path.iterdir())


def test_a_listener_that_is_to_ask_a_probe_needs_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LISTENER, "--in-doubt", "ask"]) == 1
    assert "--in-doubt ask needs --probe" in capsys.readouterr().err
