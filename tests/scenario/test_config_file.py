"""`holdfast serve --config`: everything that serve takes, in a file."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from holdfast.cli.main import app
from tests.server_process import ServerProcess

pytestmark = pytest.mark.slow

FILE = """
data = "journal"
journal-size = "256M"
create-on-use = false
session_grace_ms = 700
"""


def serve(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", *options],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "holdfast.toml").write_text(FILE)
    return tmp_path


def test_a_file_counts_after_the_environment_and_the_command_line(folder: Path) -> None:
    done = serve(folder, "--config", "etc/holdfast.toml", "--print-config", "--journal-size", "1G", HOLDFAST_LISTEN="127.0.0.1:9")

    shown = tomllib.loads(done.stdout)
    assert shown["data"] == str(folder / "etc" / "journal")  # from the folder of the file
    assert (shown["journal-size"], shown["create-on-use"], shown["session-grace-ms"]) == ("1G", False, 700)
    assert (shown["listen"], shown["reserve"]) == ("127.0.0.1:9", "16M")


def test_what_is_printed_can_be_read_again_and_has_every_option(folder: Path) -> None:
    printed = serve(folder, "--config", "etc/holdfast.toml", "--print-config").stdout
    (folder / "again.toml").write_text(printed)

    assert serve(folder, "--config", "again.toml", "--print-config").stdout == printed
    options = typer.main.get_command(app).commands["serve"].params  # type: ignore[attr-defined]  # a group has them
    for option in options:
        if option.name not in ("config", "print_config"):
            assert option.name.replace("_", "-") in printed


def test_a_server_runs_with_a_file(folder: Path) -> None:
    with ServerProcess(folder / "elsewhere", "--config", str(folder / "etc" / "holdfast.toml")) as server:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "send", "orders", "--data", "1", "--url", server.url],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    assert done.returncode == 1
    assert "orders" in done.stderr  # create-on-use = false


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('jornal-size = "1G"', "has the unknown key 'jornal-size'; did you mean journal-size?"),
        ("zzz = 1", "has the unknown key 'zzz'; there are"),
        ('create-on-use = "no"', "create-on-use = 'no' is not true or false"),
        ("name = true", "name = True is not a text or a number"),
        ("[data]", "data = {} is not a text or a number"),
        ("data", "is not TOML"),
        ('data = "d"\njournal-size = "big"', "'big' is not a size"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_a_sentence(folder: Path, text: str, sentence: str) -> None:
    (folder / "wrong.toml").write_text(text)

    done = serve(folder, "--config", "wrong.toml")

    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "d").exists()


def test_a_file_that_is_not_there_is_refused(folder: Path) -> None:
    done = serve(folder, "--config", "nowhere.toml")

    assert done.returncode == 1
    assert "nowhere.toml cannot be read: No such file or directory" in done.stderr
