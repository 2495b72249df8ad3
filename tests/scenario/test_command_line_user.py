"""`holdfast user` and the options of `holdfast serve` that protect it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.node.login import users_file
from holdfast.node.login.passwords import _is_right
from tests.scenario.command_line import Holdfast, holdfast, server

pytestmark = pytest.mark.slow

__all__ = ["holdfast", "server"]  # fixtures


def test_a_user_is_added_listed_given_another_password_and_removed(holdfast: Holdfast, tmp_path: Path) -> None:
    file = tmp_path / "users.toml"

    added = holdfast("user", "add", str(file), "alice", "--password-stdin", stdin="first\n")
    with_certificate = holdfast("user", "add", str(file), "robot", "--certificate", "robot.example.com", "--json")
    first = users_file.load(file).by_name["alice"].password
    changed = holdfast("user", "password", str(file), "alice", "--password-stdin", stdin="second\n")
    listed = holdfast("user", "list", str(file), "--json")
    removed = holdfast("user", "remove", str(file), "robot")

    assert [each.code for each in (added, with_certificate, changed, listed, removed)] == [0] * 5
    assert "[[access]]" in added.out
    assert listed.json() == [
        {"name": "alice", "password": True, "certificate": "", "groups": "", "rules": 0},
        {"name": "robot", "password": False, "certificate": "robot.example.com", "groups": "", "rules": 0},
    ]
    last = users_file.load(file).by_name
    assert list(last) == ["alice"]
    assert _is_right(first, "first")
    assert _is_right(last["alice"].password, "second")
    assert not _is_right(last["alice"].password, "first")


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["add", "FILE", "alice", "--password-stdin"], "x\n", "already"),
        (["add", "FILE", "a/b", "--password-stdin"], "x\n", "cannot name a user"),
        (["add", "FILE", "bob", "--password-stdin"], "\n", "1 to 1024 characters"),
        (["add", "FILE", "bob", "--password-stdin"], "x" * 2_000, "1 to 1024 characters"),
        (["password", "FILE", "bob", "--password-stdin"], "x\n", "no user 'bob'"),
        (["add", "FILE", "bob"], "x\nx\n", "give it with --password-stdin"),
        (["remove", "FILE", "bob"], "", "no user 'bob'"),
        (["list", "nowhere"], "", "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    holdfast: Holdfast, tmp_path: Path, arguments: list[str], stdin: str, said: str
) -> None:
    file = tmp_path / "users.toml"
    holdfast("user", "add", str(file), "alice", "--password-stdin", stdin="x\n")
    before = file.read_text()

    done = holdfast("user", *(str(file) if each == "FILE" else each for each in arguments), stdin=stdin)

    assert (done.code, said in done.err) == (1, True), done
    assert file.read_text() == before


def _read_until(terminal: int, ending: bytes) -> bytes:
    """What a program shows at its terminal, up to this; or up to its end, or for at most 20 seconds."""
    shown = b""
    while not shown.endswith(ending) and select.select([terminal], [], [], 20)[0]:
        try:
            shown += os.read(terminal, 1_000)
        except OSError:
            break  # the terminal is gone with the program
    return shown


def test_a_password_is_asked_for_twice_and_not_shown(tmp_path: Path) -> None:
    """At a terminal, as people do it."""
    file = tmp_path / "users.toml"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "holdfast", "user", "add", str(file), "alice"]
    process = subprocess.Popen(command, preexec_fn=lambda: os.login_tty(theirs))
    os.close(theirs)

    shown = b""
    for _ in range(2):
        shown += _read_until(ours, b": ")  # the space comes when nothing is echoed any more
        os.write(ours, b"n0t shown\n")
    shown += _read_until(ours, b"SIGHUP\r\n")

    try:
        assert process.wait(20) == 0, shown
    finally:
        process.kill()
        os.close(ours)
    assert b"n0t shown" not in shown
    assert _is_right(users_file.load(file).by_name["alice"].password, "n0t shown")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "0.0.0.0:0"], "--insecure"),
        (["--users", "nowhere.toml"], "holdfast user add"),
        (["--tls-certificate", "a.pem"], "--tls-key"),
        (["--tls-certificate", "a.pem", "--tls-key", "b.pem"], "cannot be used"),
        (["--require-certificate"], "--tls-client-ca"),
    ],
)
def test_a_server_that_would_not_be_safe_does_not_start(tmp_path: Path, options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "data"), *options]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert (done.returncode, said in done.stderr) == (1, True), done
    assert not (tmp_path / "data").exists()
