"""Children of a server: started again with back-off, stopped with it, and told in its status."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast.cli.operations.status import for_people
from holdfast.cli.programs import child
from holdfast.cli.programs.child import ChildProgram, Children, environment_of, holdfast_command
from holdfast.client.description import Status
from tests.waiting import until


async def test_a_child_that_ends_is_started_again_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(child, "PAUSE_S", 0.001)
    shown: list[dict[str, object]] = []
    children = Children([ChildProgram("odd", holdfast_command("no-such-command"), dict(os.environ))])

    children.start(shown)
    await until(lambda: shown[0]["restarts"] == 3, "it is started again and again")
    await children.close()

    pauses = [record.args[2] for record in caplog.records if isinstance(record.args, tuple) and "started again" in record.msg]
    assert pauses[:3] == [0.001, 0.002, 0.004]
    assert shown == [{"program": "odd", "state": "stopped", "pid": None, "restarts": 3, "reason": "exit code 2"}]


async def test_a_child_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(child, "GRACE_S", 0.2)
    monkeypatch.chdir(tmp_path)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w').close(); signal.pause()"
    started = ChildProgram("deaf", [sys.executable, "-c", deaf], dict(os.environ))

    started.start()
    await until(lambda: Path("ready").exists(), "it hears no signal")
    pid = started.shown["pid"]
    await started.close()

    assert "does not stop, and is killed" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_finds_the_server_unless_its_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    assert environment_of("holdfast://127.0.0.1:1")["HOLDFAST_URL"] == "holdfast://127.0.0.1:1"

    monkeypatch.setenv("HOLDFAST_URL", "holdfast://user@host")
    assert environment_of("holdfast://127.0.0.1:1")["HOLDFAST_URL"] == "holdfast://user@host"


def test_the_status_tells_in_words_which_programs_run_beside_a_server() -> None:
    told: Status = {
        "blocked": [],
        "programs": [
            {"program": "actions", "state": "running", "pid": 7, "restarts": 0, "reason": ""},
            {"program": "relay", "state": "waiting", "pid": None, "restarts": 2, "reason": "exit code 3"},
        ],
    }

    assert for_people(told)["programs"] == (
        "actions is running, relay is waiting, started again 2 times, the last time after exit code 3"
    )
    assert for_people({"blocked": []})["programs"] == "none"
