"""See it work: producers and recipients as real processes, and a server that is killed again and again.

    python -m examples.demo            about half a minute; exit code 1 if anything was lost
    python -m examples.demo --kills 2

Two producers send orders to a queue that two recipients share, a third sends prices to a topic with two durable subscriptions.
The server is killed with SIGKILL and started again on the same folder. In the end, what the producers had receipts for is
compared with what the recipients had confirmed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import holdfast.blocking
from examples.demo.account import Account, Kill, Log, Place
from examples.demo.interruption import INTERRUPTED, Interrupted, Interruption
from examples.demo.process import Server, Worker
from examples.demo.screen import Screen

KILLS = 5
BETWEEN_KILLS_S = 3.0
LOOK_S = 0.1
# After the producers have stopped, everything must have been confirmed within this.
DRAIN_S_MAX = 15.0

ORDERS, AUDIT, DISPLAY = "queue orders", "topic prices, audit", "topic prices, display"
PRODUCERS = {"shop-1": ("queue", "orders"), "shop-2": ("queue", "orders"), "market": ("topic", "prices")}
RECIPIENTS = {
    "packer-1": ("orders", "-", ORDERS),
    "packer-2": ("orders", "-", ORDERS),
    "auditor": ("prices", "audit", AUDIT),
    "display": ("prices", "display", DISPLAY),
}


class Demo:
    def __init__(self, folder: Path, screen: Screen, interruption: Interruption) -> None:
        self._folder = folder
        self._interruption = interruption
        self._screen = screen
        self._server = Server(folder / "data", folder / "server.log")
        self._producers: dict[str, Worker] = {}
        self._recipients: dict[str, Worker] = {}
        shops = [name for name, (kind, _) in PRODUCERS.items() if kind == "queue"]
        self._places = {ORDERS: Place(ORDERS, shops), AUDIT: Place(AUDIT, ["market"]), DISPLAY: Place(DISPLAY, ["market"])}
        self.account = Account(list(self._places.values()))
        self._logs = {name: Log(folder / f"{name}.log") for name in (*PRODUCERS, *RECIPIENTS)}

    def run(self, kills: int) -> None:
        self._screen.note("starting a server")
        self._server.start()
        self._start_workers()
        self._watch(BETWEEN_KILLS_S)
        for _ in range(kills):
            self._kill_and_restart()
            self._watch(BETWEEN_KILLS_S)
        self._screen.note("producers stop; recipients finish what is left")
        for worker in self._producers.values():
            worker.ask_to_stop()
        for worker in self._producers.values():
            worker.wait()
        self._watch(DRAIN_S_MAX, until_drained=True)

    def _start_workers(self) -> None:
        url = f"holdfast://{self._server.address}"
        self._create_subscriptions(url)
        for name, (destination, subscription, _) in RECIPIENTS.items():
            self._recipients[name] = Worker(
                "examples.demo.recipient", url, destination, subscription, name, log=self._folder / f"{name}.log"
            )
        for name, (kind, destination) in PRODUCERS.items():
            self._producers[name] = Worker(
                "examples.demo.producer", url, kind, destination, name, log=self._folder / f"{name}.log"
            )
        self._screen.note(f"{len(self._producers)} producers and {len(self._recipients)} recipients run")

    def _create_subscriptions(self, url: str) -> None:
        """Create both subscriptions before the first price is sent: a topic keeps events for the subscriptions it has."""
        with holdfast.blocking.connect(url, name="demo") as client:
            client.ensure_topic("prices")
            for destination, subscription, _ in RECIPIENTS.values():
                if subscription != "-":
                    client.ensure_subscription(destination, subscription)

    def _kill_and_restart(self) -> None:
        killed_at = time.time()
        self._server.kill()
        self._screen.note(f"kill -9 of the server, number {len(self.account.kills) + 1}")
        self._look()
        self._server.start()
        self.account.kills.append(Kill(killed_at, time.time()))

    def _watch(self, seconds: float, *, until_drained: bool = False) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            if until_drained and not self.account.lost_count:
                return
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
        self._screen.show(self.account, self._server.is_up)
        for name, worker in {**self._producers, **self._recipients}.items():
            if worker.has_failed:
                raise RuntimeError(f"{name} ended: {worker.last_words}")

    def close(self) -> None:
        """End all processes."""
        for worker in (*self._producers.values(), *self._recipients.values()):
            worker.kill()
        self._server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description="Events, crashes, and nothing lost.")
    parser.add_argument("--kills", type=int, default=KILLS, help="how often the server is killed (default %(default)s)")
    kills = parser.parse_args().kills
    interruption = Interruption()
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder, Screen() as screen:
        demo = Demo(Path(folder), screen, interruption)
        try:
            demo.run(kills)
        except Interrupted:
            return INTERRUPTED
        finally:
            demo.close()
    screen.conclude(demo.account)
    return 1 if demo.account.lost_count else 0


if __name__ == "__main__":
    sys.exit(main())
