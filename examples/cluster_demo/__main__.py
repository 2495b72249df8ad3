"""See a cluster work: three nodes and three NATS servers under load, and each kind of process killed in turn.

    python -m examples.cluster_demo            about a minute; exit code 1 if anything was lost
    python -m examples.cluster_demo --quick

Two producers send orders to a queue that two recipients share, a third sends prices to a topic with a durable subscription. All
of them know the cluster by the addresses of its nodes. A node that only serves clients is killed, then the primary, then the NATS
server that leads the others. In the end, what the producers had receipts for is compared with what the recipients confirmed."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import holdfast.blocking
from examples.cluster_demo.processes import Cluster, Watch
from examples.cluster_demo.screen import Blow, Screen
from examples.demo.account import Account, Log, Place
from examples.demo.interruption import INTERRUPTED, Interrupted, Interruption
from examples.demo.process import Worker

BETWEEN_KILLS_S, QUICK_S = 6.0, 1.0
LOOK_S = 0.1
# Events flow again, and what was killed is back, within this.
WHOLE_S_MAX = 60.0
# After the producers have stopped, everything must have been confirmed within this.
DRAIN_S_MAX = 60.0

ORDERS, AUDIT = "queue orders", "topic prices, audit"
PRODUCERS = {"shop-1": ("queue", "orders"), "shop-2": ("queue", "orders"), "market": ("topic", "prices")}
RECIPIENTS = {
    "packer-1": ("orders", "-", ORDERS),
    "packer-2": ("orders", "-", ORDERS),
    "auditor": ("prices", "audit", AUDIT),
}


class Demo:
    def __init__(self, folder: Path, screen: Screen, interruption: Interruption, pause_s: float) -> None:
        self._folder = folder
        self._interruption = interruption
        self._screen = screen
        self._pause_s = pause_s
        self._cluster = Cluster(folder)
        self._watch: Watch | None = None
        self._producers: dict[str, Worker] = {}
        self._recipients: dict[str, Worker] = {}
        self._places = {ORDERS: Place(ORDERS, ["shop-1", "shop-2"]), AUDIT: Place(AUDIT, ["market"])}
        self.account = Account(list(self._places.values()))
        self.blows: list[Blow] = []
        self._logs = {name: Log(folder / f"{name}.log") for name in (*PRODUCERS, *RECIPIENTS)}

    def run(self) -> None:
        self._screen.note("starting three NATS servers and three nodes")
        self._cluster.start()
        self._screen.note(f"the cluster is {self._cluster.url}")
        watch = self._watch = Watch(self._cluster.url)
        self._start_workers()
        self._until_flowing(watch)
        self._run_for(self._pause_s)
        self._kill("node3", "node3, a client manager", watch)
        primary = watch.primary or "node1"
        self._kill(primary, f"{primary}, the primary", watch)
        leading = self._cluster.leading_nats()
        self._kill(leading, f"{leading}, which leads NATS", watch)
        self._screen.note("producers stop; recipients finish what is left")
        for worker in self._producers.values():
            worker.ask_to_stop()
        for worker in self._producers.values():
            worker.wait(DRAIN_S_MAX)
        end = time.monotonic() + DRAIN_S_MAX
        self._look()
        while self.account.lost_count and time.monotonic() < end:
            time.sleep(LOOK_S)
            self._look()

    def _start_workers(self) -> None:
        url = self._cluster.url
        with holdfast.blocking.connect(url, name="demo", timeout=60) as client:
            client.ensure_topic("prices")
            client.ensure_subscription("prices", "audit")  # before the first price is sent, which it would miss
        for name, (destination, subscription, _) in RECIPIENTS.items():
            log = self._folder / f"{name}.log"
            self._recipients[name] = Worker("examples.demo.recipient", url, destination, subscription, name, log=log)
        for name, (kind, destination) in PRODUCERS.items():
            log = self._folder / f"{name}.log"
            self._producers[name] = Worker("examples.demo.producer", url, kind, destination, name, log=log)
        self._screen.note(f"{len(self._producers)} producers and {len(self._recipients)} recipients run")

    def _kill(self, name: str, what: str, watch: Watch) -> None:
        """Kill it under load, and let it run on until what was killed is back."""
        before, at = self._cluster.process_of(name), time.time()
        self._cluster.kill(name)
        self._screen.note(f"kill -9 of {what}")
        self._run_for(self._pause_s)
        self._until_flowing(watch)
        end = time.monotonic() + WHOLE_S_MAX
        while self._cluster.process_of(name) in (None, before) or not watch.is_whole:
            self._check_time(end, f"{name} to be back")
        self._screen.note(f"{name} is back")
        self.blows.append(Blow(what, at, time.time()))

    def _until_flowing(self, watch: Watch) -> None:
        """Until events are accepted from every producer, and confirmed at every place, and the cluster is whole."""
        accepted = {name: len(self.account.accepted.get(name, ())) for name in PRODUCERS}
        confirmed = {place.title: len(place.confirmed) for place in self.account.places}
        end = time.monotonic() + WHOLE_S_MAX
        while (
            any(len(self.account.accepted.get(name, ())) <= count for name, count in accepted.items())
            or any(len(self._places[title].confirmed) <= count for title, count in confirmed.items())
            or not watch.is_whole
        ):
            self._check_time(end, "events to flow")

    def _check_time(self, end: float, what: str) -> None:
        if time.monotonic() > end:
            raise RuntimeError(f"the demo waited {WHOLE_S_MAX:g} s for {what}")
        self._look()
        time.sleep(LOOK_S)

    def _run_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            time.sleep(LOOK_S)

    def _look(self) -> None:
        """Read what the processes wrote since the last look, and show it."""
        self._interruption.check()
        for name in PRODUCERS:
            for line in self._logs[name].new_lines():
                self.account.note_accepted(name, line)
        for name, (_, _, title) in RECIPIENTS.items():
            for line in self._logs[name].new_lines():
                self._places[title].note(line)
        nats = {name: self._cluster.process_of(name) is not None for name in self._cluster.nats}
        self._screen.show(self.account, self._watch.last if self._watch else None, nats)
        for name, worker in {**self._producers, **self._recipients}.items():
            if worker.has_failed:
                raise RuntimeError(f"{name} ended: {worker.last_words}")

    def close(self) -> None:
        """End all processes."""
        for worker in (*self._producers.values(), *self._recipients.values()):
            worker.kill()
        if self._watch is not None:
            self._watch.close()
        self._cluster.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster_demo", description="A cluster, its processes killed, and nothing lost.")
    parser.add_argument("--quick", action="store_true", help="let it run for a moment between two kills")
    pause_s = QUICK_S if parser.parse_args().quick else BETWEEN_KILLS_S
    logging.getLogger("holdfast").setLevel(logging.ERROR)  # lost links are what the screen shows
    interruption = Interruption()
    with tempfile.TemporaryDirectory(prefix="holdfast-cluster-") as folder, Screen() as screen:
        demo = Demo(Path(folder), screen, interruption, pause_s)
        try:
            demo.run()
        except Interrupted:
            return INTERRUPTED
        finally:
            demo.close()
    screen.conclude(demo.account, demo.blows)
    return 1 if demo.account.lost_count else 0


if __name__ == "__main__":
    sys.exit(main())
