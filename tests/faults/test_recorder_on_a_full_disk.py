"""A6 on a really full file system: the recorder has its space already, and goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from holdfast.errors import Blocked, DiskFailed
from holdfast.recorder.recorder import Recorder

pytestmark = [pytest.mark.faults]

SIZE_BYTES = 1 << 20


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with a recorder in it and not a byte to spare."""
    place = tmp_path / "mounted"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode()}")
    try:
        Recorder(place / "recorder", SIZE_BYTES).close()
        with (place / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_recorder_opens_records_forwards_and_records_again_although_the_disk_is_full(full_disk: Path, tmp_path: Path) -> None:
    url = f"file:{tmp_path}/events"
    taken = 0
    for _ in range(2):
        with Recorder(full_disk / "recorder", SIZE_BYTES) as recorder, pytest.raises(Blocked):
            while True:
                recorder.record({"number": taken + 1, "filling": "x" * 1000}, "orders")
                taken += 1
        with Recorder(full_disk / "recorder", SIZE_BYTES) as recorder:
            recorder.forward(url)

    assert taken * 1000 > SIZE_BYTES
    with holdfast.blocking.connect(url) as client, client.queue("orders").receive(timeout=10) as incoming:
        numbers = []
        for _ in range(taken):
            event = incoming.next()
            numbers.append(event.data["number"])
            event.confirm()
    assert numbers == list(range(1, taken + 1))


def test_a_recorder_that_has_no_space_yet_says_so_on_a_full_disk_and_promises_nothing(full_disk: Path) -> None:
    with pytest.raises(DiskFailed, match="make room"):
        Recorder(full_disk / "another", SIZE_BYTES)
