"""What `packaging/` holds works: the unit of systemd, the steps of the Containerfile, their configurations."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PACKAGING = TOP / "packaging"


def test_a_service_manager_is_told_when_clients_can_connect_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(tmp_path / "notify"))
        notices.settimeout(60)
        command = [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
        with subprocess.Popen(
            [*command, "--journal-size", "128M"],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            ready = notices.recv(4096).decode()
            server.send_signal(signal.SIGTERM)
            stopping = notices.recv(4096).decode()
            server.communicate(timeout=60)

    assert re.fullmatch(r"READY=1\nSTATUS=listening on 127\.0\.0\.1:\d+", ready)
    assert stopping == "STOPPING=1"
    assert server.returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = (PACKAGING / "systemd" / "holdfast.service").read_text().replace("/opt/holdfast/bin/holdfast", sys.executable)
    (tmp_path / "holdfast.service").write_text(unit)

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "holdfast.service")], capture_output=True, text=True, timeout=60
    )

    complaints = [line for line in done.stderr.splitlines() if "holdfast.service" in line and "user" not in line.lower()]
    assert complaints == []


def test_the_unit_s_command_and_every_configuration_are_ones_that_serve_takes(tmp_path: Path) -> None:
    unit = (PACKAGING / "systemd" / "holdfast.service").read_text()
    command = re.search(r"^ExecStart=\S+ (.+)$", unit, re.MULTILINE)
    assert command is not None

    for file in sorted(PACKAGING.glob("*/holdfast.toml")):
        words = command[1].replace("/etc/holdfast/holdfast.toml", str(file)).split()
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words, "--print-config"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert tomllib.loads(done.stdout).items() >= tomllib.loads(file.read_text()).items()


@pytest.mark.slow
def test_the_steps_of_the_containerfile_make_a_command_that_serves(tmp_path: Path) -> None:
    """Where no container can be built, its steps are taken in a plain environment: the wheel, its dependencies, the command."""
    uv, there = str(Path(sys.executable).parent / "uv"), tmp_path / "there"

    _run(uv, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "dist"), str(TOP))
    _run(uv, "venv", "--quiet", "--python", sys.executable, str(there))
    _run(uv, "pip", "install", "--quiet", "--python", str(there), *map(str, (tmp_path / "dist").glob("holdfast-*.whl")))

    (entry,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]', (PACKAGING / "Containerfile").read_text(), re.MULTILINE)
    assert re.search(r"\d+\.\d+\.\d+", _run(str(there / "bin" / entry), "--version"))


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
