"""A disk of its own for a test: an ext4 file system in a file, which can be copied as a power cut would leave it.

writes ─▶ memory of the kernel ─▶ the file        on a sync, or when the kernel finds the time
                                  └▶ its copy     what was not written down is not in it, and the journal may be open
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MIB = 1 << 20
SIZE = 192 * MIB
# The journal is written down when somebody syncs, not every five seconds: nothing survives by luck.
OPTIONS = "loop,commit=600"
COPIES_MAX = 20


class OwnDisk:
    """Mounted while it is used as `with`. Skips the test where file systems cannot be made or mounted."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image = image
        self.place = place

    @classmethod
    def new(cls, image: Path, place: Path) -> OwnDisk:
        with image.open("wb") as file:
            file.truncate(SIZE)
        _run_or_skip("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        return cls(image, place)

    def __enter__(self) -> OwnDisk:
        self.place.mkdir(exist_ok=True)
        _run_or_skip("mount", "-o", OPTIONS, str(self._image), str(self.place))
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=True)

    def copied(self, image: Path) -> None:
        """What is on the disk at one moment: copied again if anything was written meanwhile."""
        written = self._device() / "stat"
        for _ in range(COPIES_MAX):
            before = written.read_text().split()
            shutil.copyfile(self._image, image)
            if _writes(before) == _writes(written.read_text().split()):
                return
        pytest.fail(f"something is written to {self.place} all the time")

    def _device(self) -> Path:
        mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
        return Path("/sys/block") / next(Path(device).name for device, place, *_ in mounts if place == str(self.place))


def _writes(stat: list[str]) -> list[str]:
    """Of a block device's statistics: writes, discards and flushes, and what is under way."""
    return [*stat[4:7], stat[8], *stat[11:14], *stat[15:16]]


def _run_or_skip(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"{command[0]} is not to be had here")
    if done.returncode:
        pytest.skip(f"{command[0]} is not permitted here: {done.stderr.decode().strip()}")
