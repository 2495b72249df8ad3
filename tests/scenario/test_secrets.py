"""Nothing secret in logs, errors or reprs (E7): everything that can go wrong with a password is done, then searched for."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.main import run
from holdfast.errors import HoldfastError
from holdfast.node.login import users_file
from holdfast.node.login.passwords import hashed
from holdfast.recorder.recorder import Recorder
from holdfast.wire.frame import MAGIC, Frame, Hello
from tests.protected_server import ALICE, BOB, ProtectedServer

WRONG = "n0t-the-secret"
CHANGED = "ch4nged-secret"
TYPED_AS_NAME = "typed-1nto-the-wrong-field"


async def _try(url: str, tell: list[str], password: str | None = None) -> None:
    """Do a little of everything, and keep whatever can be shown of it."""
    try:
        client = holdfast.connect(url, timeout=2, password=password)
        tell += [repr(client), client.url, repr(vars(client))]
        async with client:
            tell.append(repr(vars(client._connection)))
            await client.queue("orders.new").send("one")
            await client.queue("bills").send("denied")
    except HoldfastError as problem:
        tell += [str(problem), repr(problem), repr(problem.fields), repr(problem.__cause__)]


async def _everything(server: ProtectedServer, folder: Path) -> list[str]:
    told: list[str] = []
    await _try(server.alice, told)
    await _try(server.url("bob"), told, BOB)
    await _try(server.url("robot", certificate=server.robot), told)
    await _try(server.alice.replace("holdfasts", "holdfast").partition("?")[0], told)
    await _try(server.alice.partition("?")[0], told)
    await _try(server.alice + "&unknown=1", told)
    await _try(server.alice.replace("%40", "@").replace("%2F", "/"), told)
    await asyncio.gather(
        _try(server.url("alice", WRONG), told),
        _try(server.url(TYPED_AS_NAME, WRONG), told),
        _try(server.url("alice"), told, WRONG),
    )
    with Recorder(folder / "recorder", size_bytes=1 << 20) as recorder:
        recorder.record("one", "bills")
        for url in (server.alice, server.url("alice", WRONG)):
            try:
                await asyncio.to_thread(recorder.forward, url, 2)
            except HoldfastError as problem:
                told += [str(problem), repr(problem)]
    users_file.change_password(server.users, "alice", hashed(CHANGED))
    server.process.signal(signal.SIGHUP)
    await _try(server.url("alice", CHANGED), told)
    server.users.write_text(server.users.read_text() + "broken = 1\n")
    server.process.signal(signal.SIGHUP)
    while "not reloaded" not in server.process.log:
        await _try(server.bob, told)
    return told


def _secrets(server: ProtectedServer) -> list[str]:
    hashes = re.findall(r"\$argon2id\$[^\"]+", server.users.read_text())
    parts = [part for each in hashes for part in each.split("$")[-2:]]
    return [ALICE, BOB, WRONG, CHANGED, "s3cret", "argon2id$", "PRIVATE KEY", *parts]


@pytest.mark.slow
async def test_no_password_and_no_hash_is_in_the_log_in_an_error_or_in_a_repr(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ProtectedServer(tmp_path, "--log-level", "debug") as server:
        secrets = _secrets(server)
        told = await _everything(server, tmp_path)
        secrets += _secrets(server)
        seen = {"the server's output": server.process.log, "errors and reprs": "\n".join(told), "our log": caplog.text}

    assert all(len(each) > 100 for each in (seen["the server's output"], seen["errors and reprs"]))
    assert "login of alice" in seen["the server's output"]
    assert "login of somebody unknown" in seen["the server's output"]
    assert TYPED_AS_NAME not in seen["the server's output"]
    assert {secret: where for where, text in seen.items() for secret in secrets if secret in text} == {}


def test_what_the_command_line_prints_has_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
    with ProtectedServer(tmp_path) as server:
        with Recorder(tmp_path / "recorder", size_bytes=1 << 20) as recorder:
            recorder.record("one", "orders.new")
        codes = [
            run(["forward", str(tmp_path / "recorder"), "--url", server.alice]),
            run(["forward", str(tmp_path / "recorder"), "--url", server.alice, "--json"]),
            run(["send", "orders.new", "--url", server.alice]),
            run(["send", "bills", "--url", server.alice, "--json"]),
            run(["send", "orders.new", "--url", server.url("alice", WRONG)]),
            run(["status", "--url", server.alice + "&unknown=1"]),
        ]
    out, err = capsys.readouterr()

    assert codes == [0, 0, 0, 1, 1, 1]
    assert "alice:***@127.0.0.1" in out + err
    assert not any(secret in out + err for secret in (ALICE, WRONG, "s3cret"))


def test_a_greeting_is_shown_without_its_password() -> None:
    hello = Hello(MAGIC, [1], "program", "alice", ALICE)

    assert "alice" in repr(hello)
    assert "s3cret" not in f"{hello!r} {hello} {Frame(0, hello)}"
