"""E6: `holdfast top` and `holdfast status --watch` show a server again and again."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import blocking
from holdfast.cli.main import run
from tests.scenario.command_line import Holdfast, holdfast, server  # noqa: F401 (fixtures)
from tests.server_process import ServerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def test_top_shows_destinations_rates_and_links(server: ServerProcess, holdfast: Holdfast) -> None:  # noqa: F811
    assert holdfast("send", "orders", "--data", "1").code == 0

    done = holdfast("top", "--count", "2", "--interval", "0.05")

    assert done.code == 0
    assert done.out.count(": 1 links, ") == 2
    (row,) = {line.strip() for line in done.out.splitlines() if line.startswith("orders ")}
    assert row.split() == ["orders", "queue", "1", "0", "0", "0", "0", "0", "stands", "still"]


def test_top_for_programs_is_a_line_of_json_for_each_look(server: ServerProcess, holdfast: Holdfast) -> None:  # noqa: F811
    holdfast("send", "counted", "--data", "1")

    looks = holdfast("top", "--count", "3", "--interval", "0.05", "--json").json()

    assert len(looks) == 3
    assert {"links", "sessions", "waiting", "blocked"} <= looks[0]["status"].keys()
    rows = {row["destination"]: row for row in looks[2]["destinations"]}
    assert (rows["counted"]["waiting"], rows["counted"]["behind_seconds"]) == (1, None)


def test_top_shows_only_so_many_rows(server: ServerProcess, holdfast: Holdfast) -> None:  # noqa: F811
    (look,) = holdfast("top", "--count", "1", "--rows", "1", "--json").json()

    assert len(look["destinations"]) == 1


def test_status_is_shown_again_and_again(server: ServerProcess, holdfast: Holdfast) -> None:  # noqa: F811
    looks = holdfast("status", "--watch", "--count", "3", "--interval", "0.05", "--json").json()
    for_people = holdfast("status", "--watch", "--count", "2", "--interval", "0.05")

    assert [look["is_primary"] for look in looks] == [True] * 3
    assert for_people.out.count("of 128M used") == 2
    assert holdfast("status", "--count", "3").code == 1


def test_a_server_that_cannot_be_reached_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--url", "holdfast://127.0.0.1:1", "--timeout", "0.2"]) == 3
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_on_a_terminal_top_is_a_live_screen_that_outlives_a_restart_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as own:
        with blocking.connect(own.url) as client:
            client.queue("orders").send(1)
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "holdfast", "top", "--interval", "0.1", "--timeout", "0.3", "--url", own.url]
        shown = bytearray()
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as top:
            os.close(theirs)
            os.set_blocking(ours, False)
            wait_until(lambda: b"orders" in _more(ours, shown), "the screen shows the queue")
            own.stop()
            wait_until(lambda: b"no answer" in _more(ours, shown), "the screen says that nobody answers")
            own.start()
            shown.clear()
            wait_until(lambda: b"orders" in _more(ours, shown), "the screen shows the queue again")
            top.send_signal(signal.SIGINT)
            wait_until(lambda: _more(ours, shown) is not None and top.poll() is not None, "it ends")
        os.close(ours)

    assert top.returncode == 130
    assert b"\x1b[?1049h" in shown or b"\x1b[?1049l" in shown  # the screen of the terminal is given back
    assert b"Traceback" not in shown


def _more(terminal: int, shown: bytearray) -> bytearray:
    try:
        shown += os.read(terminal, 1 << 16)
    except OSError:  # nothing new, or the other end is closed
        pass
    return shown
