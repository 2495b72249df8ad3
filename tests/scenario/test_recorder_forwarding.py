"""From a recorder to a server: each event once and in order, whoever is killed at whichever moment (A6, A7, rule 6)."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import BadUrl, Damaged, TimedOut, Unreachable, WrongKind
from holdfast.recorder.recorder import Recorder
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

KILLS = effort.rounds(short=3, long=12)
RECORD_FOR_EVER = """
import sys
from holdfast.recorder.recorder import Recorder
recorder = Recorder(sys.argv[1])
while True:
    made = recorder.record({"number": recorder.last + 1}, "orders")
    sys.stdout.write(f"{made.sequence}\\n")
    sys.stdout.flush()
"""
FORWARD_FOR_EVER = """
import sys, time
from holdfast.recorder.recorder import Recorder
recorder = Recorder(sys.argv[1])
recorder.start_forwarding(sys.argv[2])
while True:
    recorder.record({"number": recorder.last + 1}, "orders")
    time.sleep(0.0005)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as made:
        yield made


def _record(folder: Path, count: int, destination: str = "orders") -> None:
    with Recorder(folder) as recorder:
        for _ in range(count):
            recorder.record({"number": recorder.last + 1}, destination)


def _received(url: str, count: int, destination: str = "orders") -> list[int]:
    """The next events of a queue, confirmed; and that no more come."""
    with holdfast.blocking.connect(url) as client, client.queue(destination).receive(timeout=20) as incoming:
        numbers = []
        for _ in range(count):
            event = incoming.next()
            numbers.append(event.data["number"])
            event.confirm()
        with pytest.raises(TimedOut):
            numbers.append(incoming.next(timeout=0.3).data["number"])
    return numbers


def test_an_event_recorded_before_the_server_exists_is_delivered_once_it_does(tmp_path: Path) -> None:
    _record(tmp_path / "recorder", 3)

    with ServerProcess(tmp_path / "data") as server, Recorder(tmp_path / "recorder") as recorder:
        done = recorder.forward(server.url)
        again = recorder.forward(server.url)

        assert (done.count, again.count, recorder.held) == (3, 0, 0)
        assert _received(server.url, 3) == [1, 2, 3]


def test_events_forwarded_again_after_the_mark_was_lost_arrive_once(tmp_path: Path, server: ServerProcess) -> None:
    _record(tmp_path / "recorder", 5)
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.forward(server.url)
    (tmp_path / "recorder" / "forwarded").unlink()

    _record(tmp_path / "recorder", 2)
    with Recorder(tmp_path / "recorder") as recorder:
        done = recorder.forward(server.url)

    assert (done.count, done.skipped) == (2, 5)
    assert _received(server.url, 7) == list(range(1, 8))


def test_forwarding_into_a_folder_needs_no_server_at_all(tmp_path: Path) -> None:
    _record(tmp_path / "recorder", 100)

    with Recorder(tmp_path / "recorder") as recorder:
        recorder.forward(f"file:{tmp_path}/events")

    assert _received(f"file:{tmp_path}/events", 100) == list(range(1, 101))


def test_queue_and_topic_travel_with_each_event(tmp_path: Path, server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_topic("prices")
        client.create_subscription("prices", "display")
        with Recorder(tmp_path / "recorder") as recorder:
            recorder.record({"number": 1}, "orders")
            recorder.record({"number": 2}, "prices", "topic", type="price", properties={"a": 1})
            recorder.forward(server.url)

        with client.subscribe("prices", "display", timeout=10) as incoming:
            event = incoming.next()
            event.confirm()

    assert (event.data, event.type, event.properties) == ({"number": 2}, "price", {"a": 1})
    assert _received(server.url, 1) == [1]


def test_without_a_server_forwarding_says_so_and_keeps_everything(tmp_path: Path) -> None:
    _record(tmp_path / "recorder", 3)

    with Recorder(tmp_path / "recorder") as recorder:
        with pytest.raises(Unreachable, match="is the server running"):
            recorder.forward("holdfast://127.0.0.1:1", timeout=0.5)
        with pytest.raises(BadUrl):
            recorder.start_forwarding("http://127.0.0.1")

        assert recorder.held == 3


def test_a_refused_event_stops_the_forwarding_and_nothing_is_lost_or_overtaken(tmp_path: Path, server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_topic("orders")
        _record(tmp_path / "recorder", 2, "alarms")
        _record(tmp_path / "recorder", 3, "orders")
        with Recorder(tmp_path / "recorder") as recorder:
            with pytest.raises(WrongKind, match="orders"):
                recorder.forward(server.url)
            assert recorder.held == 3

            client.delete("orders")
            recorder.forward(server.url)

    assert _received(server.url, 2, "alarms") == [1, 2]
    assert _received(server.url, 3, "orders") == [3, 4, 5]


def test_a_recorder_that_was_forwarded_to_one_server_goes_on_at_another(tmp_path: Path, server: ServerProcess) -> None:
    _record(tmp_path / "recorder", 100)
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.forward(server.url)

    with ServerProcess(tmp_path / "other") as other:
        for _ in range(2):
            _record(tmp_path / "recorder", 3)
            with Recorder(tmp_path / "recorder") as recorder:
                assert recorder.forward(other.url).count == 3

        assert _received(other.url, 6) == list(range(101, 107))
    _record(tmp_path / "recorder", 1)
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.forward(server.url)
    assert _received(server.url, 101) == [*range(1, 101), 107]


def test_an_old_copy_of_a_recorder_is_refused_before_its_new_events_are_taken_for_old_ones(
    tmp_path: Path, server: ServerProcess
) -> None:
    _record(tmp_path / "recorder", 1)
    shutil.copytree(tmp_path / "recorder", tmp_path / "copy")
    _record(tmp_path / "recorder", 4)
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.forward(server.url)

    _record(tmp_path / "copy", 1)
    with Recorder(tmp_path / "copy") as recorder:
        with pytest.raises(Damaged, match="old copy"):
            recorder.forward(server.url)
        assert recorder.held == 2


def test_the_background_forwarder_sends_what_is_recorded_and_waits_for_a_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.kill()
        with Recorder(tmp_path / "recorder") as recorder:
            recorder.start_forwarding(server.url)
            for number in range(1, 51):
                recorder.record({"number": number}, "orders")
            server.start()
            wait_until(lambda: recorder.held == 0, "everything is forwarded")
            recorder.record({"number": 51}, "orders")
            wait_until(lambda: recorder.held == 0, "everything is forwarded")

        assert _received(server.url, 51) == list(range(1, 52))


@pytest.mark.faults
def test_what_record_returned_for_is_there_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(7))
    said = 0
    for _ in range(effort.rounds(short=4, long=30)):
        with subprocess.Popen(
            [sys.executable, "-c", RECORD_FOR_EVER, str(tmp_path / "recorder")], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(dice.randrange(1, 60)):
                said = int(process.stdout.readline())
            process.kill()
            said = max([said, *(int(line) for line in process.stdout if line.endswith("\n"))])

        with Recorder(tmp_path / "recorder") as recorder:
            assert recorder.last - said in (0, 1)  # the one it was killed in may have been recorded
            assert [each.sequence for each in recorder.read(1, 10)] == list(range(1, min(recorder.last, 10) + 1))


@pytest.mark.faults
def test_a_forwarder_killed_at_random_moments_delivers_each_event_once_in_order(tmp_path: Path, server: ServerProcess) -> None:
    dice = random.Random(effort.seed(11))
    for _ in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", FORWARD_FOR_EVER, str(tmp_path / "recorder"), server.url]) as process:
            try:
                waiting = _waiting(server)
                wait_until(lambda: _waiting(server) > waiting, "more is forwarded")  # noqa: B023  # used at once
                time.sleep(dice.random() * 0.2)  # the moment is part of what is tried
            finally:
                process.kill()

    with Recorder(tmp_path / "recorder") as recorder:
        recorder.forward(server.url)
        count = recorder.last
    assert count >= KILLS
    assert _received(server.url, count) == list(range(1, count + 1))


def _waiting(server: ServerProcess) -> int:
    """How many events wait at the server."""
    with holdfast.blocking.connect(server.url) as client:
        return sum(each["waiting"] for each in client.destinations())


@pytest.mark.faults
def test_a_server_killed_while_it_is_forwarded_to_has_each_event_once_in_order(tmp_path: Path, server: ServerProcess) -> None:
    dice = random.Random(effort.seed(13))
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.start_forwarding(server.url)
        for _ in range(effort.rounds(short=2, long=8)):
            for _ in range(dice.randrange(200, 500)):
                recorder.record({"number": recorder.last + 1}, "orders")
            server.kill()
            server.start()
        wait_until(lambda: recorder.held == 0, "everything is forwarded")
        count = recorder.last

    assert _received(server.url, count) == list(range(1, count + 1))


def test_what_was_recorded_before_a_start_is_delivered_first_then_what_was_unfinished_then_what_is_new(tmp_path: Path) -> None:
    """A7. The server is killed between taking the recorder's events and serving them, too: they count once."""
    boot = ("--boot-recorder", str(tmp_path / "recorder"))
    with ServerProcess(tmp_path / "data", *boot) as server:
        with holdfast.blocking.connect(server.url) as client:
            client.queue("orders").send_many([{"number": number} for number in (10, 11)])
        server.kill()
        _record(tmp_path / "recorder", 3)
        server.start()
        with holdfast.blocking.connect(server.url) as client:
            client.queue("orders").send({"number": 20})

        assert _received(server.url, 6) == [1, 2, 3, 10, 11, 20]
        server.kill()
        (tmp_path / "recorder" / "forwarded").unlink()
        server.start()
        assert _received(server.url, 0) == []
