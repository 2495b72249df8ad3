"""Kills under load, and what must be so afterwards. Shared by the tests of the sinks."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from holdfast import blocking
from tests import effort
from tests.server_process import ServerProcess
from tests.spark.killed_query import SUBSCRIPTION, TOPICS
from tests.spark.lives import EXECUTOR, SOURCE, Life, kill
from tests.spark.producing import Producer

# Starting a driver takes as long as ten other kills.
KILLS = {
    "driver": effort.rounds(short=1, long=2),
    "executor": effort.rounds(short=2, long=8),
    "source": effort.rounds(short=1, long=3),
    "server": effort.rounds(short=2, long=7),
}
SEED = 20_261_117
BATCHES_BETWEEN = (1, 3)
MOMENT_S_MAX = 0.4
SERVER = ("--journal-size", "256M", "--session-grace-ms", "1000")


class Killing:
    """A query into `target` under load, whose parts die one after the other in random order."""

    def __init__(self, target: str, server: ServerProcess, folder: Path) -> None:
        self._target = target
        self._server = server
        self._folder = folder
        self._dice = random.Random(effort.seed(SEED))
        self._began = time.monotonic()

    def run(self) -> list[int]:
        """All kills; then everything that was receipted, after the last life of the query has caught up with it.

        The subscription is there before the producer: a topic keeps nothing for nobody.
        """
        with blocking.connect(self._server.url) as client:
            client.create_subscription(TOPICS, SUBSCRIPTION)
        with Producer(self._server.url, self._folder) as producer:
            victims = iter(self._victims())
            while True:
                with self._life() as life:
                    if not any(self._killed(life, victim) for victim in victims):
                        receipted = producer.end()
                        life.wait_until(lambda: is_confirmed_to_the_head(self._server), "everything is confirmed")
                        return receipted

    def _victims(self) -> list[str]:
        victims = [victim for victim, times in KILLS.items() for _ in range(times)]
        self._dice.shuffle(victims)
        return victims

    def _life(self) -> Life:
        return Life(self._target, self._server.url, self._folder, self._folder / "query.log", "on")

    def _killed(self, life: Life, victim: str) -> bool:
        """After some batches more, at some moment of the next one. Whether that ended this life."""
        life.wait_for(self._dice.randint(*BATCHES_BETWEEN))
        time.sleep(self._dice.random() * MOMENT_S_MAX)  # the moment is part of what is tried
        print(f"{time.monotonic() - self._began:5.1f} s, {life.batches()} batches: kill {victim}", flush=True)
        if victim == "driver":
            life.kill()
        elif victim == "server":
            self._server.kill()
            self._server.start()
        else:
            self._kill_one_of(life, EXECUTOR if victim == "executor" else SOURCE)
        return victim == "driver"

    def _kill_one_of(self, life: Life, purpose: str) -> None:
        """One that is alive: a worker that ended by itself meanwhile is no kill."""
        patience = time.monotonic() + 60
        while True:
            found = life.workers(purpose)
            if found and kill(self._dice.choice(found)):
                return
            assert time.monotonic() < patience, f"there is no {purpose} to kill:\n{life.log()}"


def check_each_once(found: Iterable[int], receipted: Iterable[int]) -> None:
    """Exactly what was receipted is there, each once; otherwise what is not."""
    held, wanted = Counter(found), set(receipted)
    missing = sorted(wanted - held.keys())
    unknown = sorted(held.keys() - wanted)
    several = sorted(number for number, times in held.items() if times > 1)
    assert not missing, f"{len(missing)} of {len(wanted)} are missing: {missing[:10]} … {missing[-1]}"
    assert not several, f"{len(several)} of {len(wanted)} are there more than once: {several[:10]} … {several[-1]}"
    assert not unknown, f"{len(unknown)} were never receipted: {unknown[:10]}"


def is_confirmed_to_the_head(server: ServerProcess) -> bool:
    with blocking.connect(server.url) as client:
        extent = client.reading(TOPICS, SUBSCRIPTION).extent()
    return (extent.confirmed, extent.events + extent.left) == (extent.newest, 0)
