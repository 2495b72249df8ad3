"""The command line used wrongly: every refusal is one sentence that says what to do, and an exit code; never a traceback, never
a wait without end (E4)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import crc32c
import pytest

from tests.scenario.command_line import Holdfast, holdfast, server
from tests.server_process import ServerProcess

pytestmark = pytest.mark.slow

__all__ = ["holdfast", "server"]

HUGE = "99999999999999999999999999"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["send", "a b"], 1, "contains ' '"),
        (["send", ""], 1, "is empty"),
        (["send", "x", "--type", ""], 1, "type is empty"),
        (["send", "x", "--url", "holdfast://127.0.0.1:no"], 1, "is not a port"),
        (["send", "x", "--url", "file:d?colour=red"], 1, "there are journal_size"),
        (["send", "x", "--property", f"n={HUGE}"], 1, "does not fit 64 bits"),
        (["send", "x", "--timeout", "-1"], 2, "--timeout"),
        (["send", "x", "--timeout", "nan"], 2, "--timeout"),
        (["receive", "x", "--count", "-1"], 2, "--count"),
        (["receive", "x", "--count", HUGE, "--timeout", "0.1"], 3, "0 of 99"),
        (["destination", "create", "x", "--redelivery-limit", "-1"], 2, "--redelivery-limit"),
        (["destination", "create", "x", "--redelivery-limit", HUGE], 1, "number of deliveries"),
        (["destination", "explode"], 2, "No such command 'explode'"),
        (["destination", "delete", "_DMQ"], 1, "reserved"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(holdfast: Holdfast, arguments: list[str], code: int, sentence: str) -> None:
    done = holdfast(*arguments)

    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert sentence in done.err


def test_an_event_that_is_too_large_is_refused_with_the_limit(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(2 << 20))

    done = holdfast("send", "large", "--data", f"@{tmp_path}/large")

    assert done.code == 1
    assert "over the limit of 1047552" in done.err


def test_a_topic_that_is_received_as_a_queue_is_refused_with_the_option_to_use(holdfast: Holdfast) -> None:
    holdfast("destination", "create", "a-topic", "--topic")
    holdfast("destination", "create", "a-queue")

    as_queue = holdfast("receive", "a-topic", "--timeout", "1")
    as_topic = holdfast("receive", "a-queue", "--topic", "--timeout", "1")

    assert (as_queue.code, as_topic.code) == (1, 1)
    assert "is a topic, not a queue" in as_queue.err
    assert "--topic" in as_queue.err
    assert "is a queue, not a topic" in as_topic.err


def test_what_is_not_text_is_sent_as_bytes(server: ServerProcess, holdfast: Holdfast) -> None:
    command = [sys.executable, "-m", "holdfast", "send", "bytes", "--url", server.url, "--data"]

    piped = subprocess.run([*command, "-"], input=b"\xff\xfe\nplain\n", capture_output=True, timeout=60)
    typed = subprocess.run([*command, b"\xff"], capture_output=True, timeout=60)

    assert (piped.returncode, typed.returncode) == (0, 0), piped.stderr + typed.stderr
    assert holdfast("receive", "bytes", "--count", "3").json() == ["//4=", "plain", "/w=="]


def test_a_property_is_a_number_only_if_json_says_so(holdfast: Holdfast) -> None:
    values = ["zip=01234", "word=nan", "more=1_000", "whole=-7", "part=1.5e3"]

    holdfast("send", "p", *[each for value in values for each in ("--property", value)])

    (event,) = holdfast("receive", "p", "--count", "1", "--json").json()
    assert event["properties"] == {"zip": "01234", "word": "nan", "more": "1_000", "whole": -7, "part": 1500.0}


# --- folders ---------------------------------------------------------------------------------------------------------


def _serve(folder: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", "serve", "--data", str(folder), "--listen", "127.0.0.1:0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def _refusal(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    assert (done.stdout, done.stderr.count("\n")) == ("", 1), done.stderr
    return done.returncode, done.stderr


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path, holdfast: Holdfast) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "letter.txt").write_text("mine")

    code, sentence = _refusal(_serve(tmp_path))
    verified = holdfast("journal", "verify", str(tmp_path))
    embedded = holdfast("send", "x", "--url", f"file:{tmp_path}")

    assert code == 1
    assert "letter.txt" in sentence
    assert (verified.code, embedded.code) == (1, 1)
    assert [each.name for each in (tmp_path / "journal").iterdir()] == ["letter.txt"]


def test_a_data_folder_that_is_a_file_or_cannot_be_made_is_named(tmp_path: Path, holdfast: Holdfast) -> None:
    """/proc takes no folders, whoever asks: also where the tests run as root, who may write everywhere else."""
    (tmp_path / "file").write_text("mine")

    for folder in (str(tmp_path / "file"), "/proc/holdfast"):
        code, sentence = _refusal(_serve(folder))
        embedded = holdfast("send", "x", "--url", f"file:{folder}")
        recorded = holdfast("record", folder, "x")

        assert (code, embedded.code, recorded.code) == (3, 3, 3)
        assert all(folder in each for each in (sentence, embedded.err, recorded.err))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_journal_of_a_newer_version_is_refused_as_such_and_not_touched(tmp_path: Path, holdfast: Holdfast) -> None:
    sent = holdfast("send", "x", "--url", f"file:{tmp_path}/data?segment_size=1M")
    assert sent.code == 0, sent.err
    for segment in (tmp_path / "data" / "journal").glob("segment-*"):
        _make_newer(segment)
    shutil.copytree(tmp_path / "data", tmp_path / "before")

    code, sentence = _refusal(_serve(tmp_path / "data"))
    verified = holdfast("journal", "verify", str(tmp_path / "data"))

    assert (code, verified.code) == (1, 1)
    assert "format version 2" in sentence
    assert "newer" in verified.err
    for segment in (tmp_path / "before" / "journal").glob("segment-*"):
        assert (tmp_path / "data" / "journal" / segment.name).read_bytes() == segment.read_bytes()


def _make_newer(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[8:12] = (2).to_bytes(4, "little")
    data[12:16] = crc32c.crc32c(bytes(data[:12])).to_bytes(4, "little")
    segment.write_bytes(data)


def test_a_folder_of_a_running_server_is_refused_to_an_embedded_client(server: ServerProcess, holdfast: Holdfast) -> None:
    done = holdfast("send", "x", "--url", f"file:{server.data}")

    assert done.code == 1
    assert str(server.pid) in done.err


def test_a_recorder_that_could_never_fit_the_disk_is_refused_at_once(holdfast: Holdfast, tmp_path: Path) -> None:
    done = holdfast("record", str(tmp_path / "r"), "x", "--size", "999999T")

    assert done.code == 3
    assert "does not fit the disk" in done.err
    assert not (tmp_path / "r").exists()


def test_a_boot_recorder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--boot-recorder", str(tmp_path / "missing")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on ")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert f"there is no recorder in {tmp_path / 'missing'}" in errors
    assert not (tmp_path / "missing").exists()


# --- being stopped ---------------------------------------------------------------------------------------------------


def test_receive_that_waits_is_ended_by_ctrl_c_without_a_traceback(server: ServerProcess) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "receive", "nothing-comes", "--url", server.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        _until_received_from(server, "nothing-comes")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)

    assert (process.returncode, out, errors) == (130, "", "")


def _until_received_from(server: ServerProcess, queue: str) -> None:
    import holdfast.blocking

    with holdfast.blocking.connect(server.url) as client:
        deadline = time.monotonic() + 30
        while not any(each["name"] == queue and each["receivers"] for each in client.destinations()):
            assert time.monotonic() < deadline, f"nobody receives from {queue}"
