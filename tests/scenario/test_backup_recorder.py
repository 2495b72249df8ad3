"""A recorder, and a server restored from a backup: what that lost is forwarded again, or said to be missing (E8)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from holdfast.recorder.recorder import Recorder
from tests.restoring import backed_up, start_restored
from tests.server_process import ServerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as made:
        yield made


def record(recorder: Recorder, numbers: range, size: int = 0) -> None:
    for number in numbers:
        recorder.record({"number": number, "filler": "x" * size}, "orders")


def numbers_at(url: str, count: int) -> list[int]:
    with holdfast.blocking.connect(url) as client:
        assert client.describe("orders")["waiting"] == count
        with client.queue("orders").receive(timeout=20) as incoming:
            return [incoming.next().data["number"] for _ in range(count)]


def test_what_a_restored_server_lost_is_forwarded_again_once_and_in_order_e8(server: ServerProcess, tmp_path: Path) -> None:
    with Recorder(tmp_path / "recorder") as recorder:
        record(recorder, range(1, 11))
        recorder.forward(server.url)
        backed_up(server)
        record(recorder, range(11, 21))
        recorder.forward(server.url)
    start_restored(server)
    with Recorder(tmp_path / "recorder") as recorder:
        assert recorder.held == 0
        record(recorder, range(21, 24))

        done = recorder.forward(server.url)

        assert (done.count, done.skipped, done.missing) == (13, 10, 0)
        assert recorder.forward(server.url).count == 0
    assert numbers_at(server.url, 23) == list(range(1, 24))


def test_a_forwarder_that_has_nothing_to_do_notices_that_its_server_was_restored_e8(
    server: ServerProcess, tmp_path: Path
) -> None:
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.start_forwarding(server.url)
        record(recorder, range(1, 11))
        wait_until(lambda: not recorder.held, "the first ten are forwarded")
        backed_up(server)
        record(recorder, range(11, 21))
        wait_until(lambda: not recorder.held, "the next ten are forwarded")

        start_restored(server)

        with holdfast.blocking.connect(server.url) as client:
            wait_until(lambda: client.describe("orders")["waiting"] == 20, "what was lost is forwarded again")
    assert numbers_at(server.url, 20) == list(range(1, 21))


def test_what_is_lost_and_not_held_any_more_is_counted_and_said_never_skipped_silently_e8(
    server: ServerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Recorder(tmp_path / "recorder", 128 << 10) as recorder:
        record(recorder, range(1, 4))
        recorder.forward(server.url)
        backed_up(server)
        for start in range(4, 104, 10):
            record(recorder, range(start, start + 10), size=2_000)
            recorder.forward(server.url)
        start_restored(server)

        with caplog.at_level(logging.WARNING, "holdfast.recorder"):
            done = recorder.forward(server.url)

    assert done.missing > 50
    assert done.count + done.missing == 100
    assert f"has lost {done.missing} events" in caplog.text
    assert numbers_at(server.url, 3 + done.count) == [1, 2, 3, *range(104 - done.count, 104)]


def test_another_server_is_not_a_restored_one_and_gets_nothing_again_e8(server: ServerProcess, tmp_path: Path) -> None:
    with Recorder(tmp_path / "recorder") as recorder, ServerProcess(tmp_path / "second") as second:
        record(recorder, range(1, 11))
        recorder.forward(server.url)
        record(recorder, range(11, 13))

        done = recorder.forward(second.url)

        assert (done.count, done.missing) == (2, 0)


def test_a_boot_recorder_gives_a_restored_server_again_what_it_lost_e8(tmp_path: Path) -> None:
    boot = tmp_path / "boot"
    with ServerProcess(tmp_path / "data", "--boot-recorder", str(boot)) as server:
        backed_up(server)
        server.stop()
        with Recorder(boot) as recorder:
            record(recorder, range(1, 6))
        server.start()
        with holdfast.blocking.connect(server.url) as client:
            wait_until(lambda: client.describe("orders")["waiting"] == 5, "the boot recorder is taken")

        start_restored(server)

        assert numbers_at(server.url, 5) == [1, 2, 3, 4, 5]
