"""A producer in a process of its own: it sends numbers to several topics, and writes down each that it has a receipt for.

    python -m tests.spark.producing URL FILE

It goes on until it is told to end (SIGTERM), and then ends with a receipt for everything it sent: what it wrote down is what must
have arrived, no more and no less.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import holdfast

TOPICS = ("plant.press", "plant.mill", "plant.store")
BURST_MAX = 100
# A load that Spark on two cores can keep up with, between kills.
PAUSE_S = 0.05
PATIENCE_S = 120


class Producer:
    """The test's end of it."""

    def __init__(self, url: str, folder: Path) -> None:
        self._record = folder / "receipted.txt"
        self._log = (folder / "producer.log").open("ab")
        command = [sys.executable, "-m", "tests.spark.producing", url, str(self._record)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def receipted(self) -> int:
        """How many it has receipts for by now."""
        return len(self._record.read_text().split()) if self._record.exists() else 0

    def end(self) -> list[int]:
        """Everything it has a receipt for, which is all it ever sent."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(PATIENCE_S) == 0, Path(self._log.name).read_text()[-3000:]
        return [int(each) for each in self._record.read_text().split()]


async def produce(url: str, record: Path, is_over: asyncio.Event) -> None:
    number = 0
    async with holdfast.connect(url, timeout=PATIENCE_S) as client:
        with record.open("a") as receipted:
            while not is_over.is_set():
                burst = range(number, number + random.randint(1, BURST_MAX))
                await client.topic(random.choice(TOPICS)).send_many([b"%d" % each for each in burst])
                receipted.write("".join(f"{each}\n" for each in burst))
                receipted.flush()
                number = burst.stop
                await asyncio.sleep(PAUSE_S)


async def main(url: str, record: str) -> None:
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)
    await produce(url, Path(record), is_over)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
