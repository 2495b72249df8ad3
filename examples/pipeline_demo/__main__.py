"""See the pipelines work: events into tables, statistics and alerts, while the server and Spark are killed.

    python -m examples.pipeline_demo               about a minute and a half; exit code 1 if anything was lost or is there twice
    python -m examples.pipeline_demo --quick       without pauses, and one kill: of the server
    python -m examples.pipeline_demo --keep        leave tables, checkpoints and logs where they are

Two producers send orders and payments, and write down what they are receipted. Three pipelines follow: archive, statistics and
alerts, all in one Spark driver. The server is killed with SIGKILL, then the driver with its Java and all its workers, and the
server again while the driver starts. In the end the audit holds what the producers were told against what the table has. Needs
Java and `holdfast[spark]`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import holdfast.blocking
from examples.demo.account import Log
from examples.demo.interruption import INTERRUPTED, Interrupted, Interruption
from examples.demo.process import Server, Worker
from examples.pipeline_demo import places
from examples.pipeline_demo.outcome import Outcome, Told
from examples.pipeline_demo.picture import draw
from examples.pipeline_demo.screen import Screen
from examples.pipeline_demo.story import DRIVER, SERVER, Kill, Story
from holdfast.errors import Refused
from holdfast.spark.java import find_java
from holdfast.spark.pipelines.auditing.page import page
from holdfast.spark.pipelines.auditing.report import Report

RESULTS = Path("build/pipeline-demo")
LOOK_S = 0.1
# Between two kills, so that one can see that it goes on.
QUIET_S = 4.0
# A machine that has much else to do takes minutes to start a driver.
PATIENCE_S = 600.0


class Demo:
    def __init__(self, folder: Path, screen: Screen, interruption: Interruption, *, is_quick: bool) -> None:
        self._folder = folder
        self._is_quick = is_quick
        self._screen = screen
        self._interruption = interruption
        self._server = Server(folder / "data", folder / "server.log")
        self._shops: dict[str, Worker] = {}
        self._receipts = {topic: Log(file) for topic, file in places.receipts(folder).items()}
        self._driver: Worker | None = None
        self._told: Log | None = None
        self._lives = 0
        self.story = Story()

    # --- the story ----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self._screen.note("a server is started, and two producers; everything they are receipted is written down")
        self._start_server()
        self._make_subscriptions()
        self._start_shops()
        self._start_driver("Spark is started, with three pipelines: archive, statistics, alerts")
        self._wait_for_batches("every pipeline has written a batch")
        self._kill_server()
        self._wait_for_batches("the pipelines go on")
        if not self._is_quick:
            self._kill_driver()
            self._watch(QUIET_S)
            self._kill_server()
            self._wait_for_batches("every pipeline goes on where it was")
        return self._finish()

    def _finish(self) -> Outcome:
        for worker in self._shops.values():
            worker.ask_to_stop()
        for worker in self._shops.values():
            worker.wait()
        self._screen.note("the producers stop; the pipelines take what is left, then the audit holds receipts against the table")
        assert self._driver is not None
        self._driver.ask_to_stop()
        file = self._folder / places.OUTCOME
        self._watch(PATIENCE_S, until=file.exists, wanted="an account")
        self._driver.wait(PATIENCE_S)
        self._look()
        return msgspec.json.decode(file.read_bytes(), type=Outcome)

    # --- who takes part -----------------------------------------------------------------------------------------------

    @property
    def _url(self) -> str:
        return f"holdfast://{self._server.address}"

    def _start_server(self) -> None:
        self._server.start()
        self.story.is_server_up = True

    def _make_subscriptions(self) -> None:
        """Create all subscriptions before the first event is sent: a topic keeps events for the subscriptions it has."""
        with holdfast.blocking.connect(self._url, name="demo") as client:
            for name in places.PIPELINES:
                client.ensure_subscription(places.TOPICS, name)
            client.ensure_topic(places.ALERTS)
            client.ensure_subscription(places.ALERTS, places.DUTY)

    def _start_shops(self) -> None:
        for topic, file in places.receipts(self._folder).items():
            self._shops[topic] = Worker("examples.pipeline_demo.shop", self._url, topic, log=file)

    def _start_driver(self, sentence: str) -> None:
        self._screen.note(sentence)
        self._lives += 1
        log = self._folder / f"driver-{self._lives}.jsonl"
        self._driver = Worker("examples.pipeline_demo.driver", self._url, str(self._folder), log=log)
        self._told = Log(log)
        self.story.spark = "is starting"

    def _kill_server(self) -> None:
        self._server.kill()
        self._note_kill(SERVER, "kill -9 of the server; it is started again on the same folder")
        self.story.is_server_up = False
        self._look()
        self._start_server()

    def _kill_driver(self) -> None:
        assert self._driver is not None
        self._driver.kill()
        self._driver = None
        self._note_kill(DRIVER, "kill -9 of the Spark driver, its Java and its workers; the producers go on")
        self.story.spark = "dead"
        self._look()
        self._start_driver("the driver is started again, with the same checkpoints")

    def _note_kill(self, victim: str, sentence: str) -> None:
        self.story.kills.append(Kill(time.time(), victim))
        self._screen.note(sentence)

    # --- watching -----------------------------------------------------------------------------------------------------

    def _wait_for_batches(self, sentence: str) -> None:
        """Wait until every pipeline has written something new."""
        before = {name: each.batches for name, each in self.story.pipelines.items()}
        self._watch(
            PATIENCE_S,
            until=lambda: all(each.batches > before[name] for name, each in self.story.pipelines.items()),
            wanted="a batch of every pipeline",
        )
        self.story.spark = "runs"
        self._screen.note(sentence)
        self._watch(0 if self._is_quick else QUIET_S)

    def _watch(self, seconds: float, *, until: Callable[[], bool] = lambda: False, wanted: str = "") -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            if until():
                return
            time.sleep(LOOK_S)
        if wanted:
            raise RuntimeError(f"{wanted} did not come within {seconds:.0f} s; start with --keep, and see the logs")

    def _look(self) -> None:
        """Read what the processes wrote since the last look, and show it."""
        self._interruption.check()
        for topic, log in self._receipts.items():
            self.story.receipted[topic] += len(log.new_lines())
        for line in self._told.new_lines() if self._told is not None else ():
            self.story.note(msgspec.convert(line, Told))
        self._screen.show(self.story)
        for worker in (*self._shops.values(), *([self._driver] if self._driver is not None else [])):
            if worker.has_failed:
                raise RuntimeError(f"a process of the demo ended: {worker.last_words}")

    def close(self) -> None:
        """End all processes."""
        for worker in (*self._shops.values(), *([self._driver] if self._driver is not None else [])):
            worker.kill()
        self._server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="pipeline_demo", description="Events into tables, crashes, and each event once.")
    parser.add_argument("--quick", action="store_true", help="without pauses, and with one kill: of the server")
    parser.add_argument("--keep", action="store_true", help="leave tables, checkpoints and logs, and say where")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the plot and the page go (default %(default)s)")
    arguments = parser.parse_args()
    try:
        find_java()
    except Refused as problem:
        print(problem)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pipelines-"))
    try:
        return _run(folder, arguments.results, is_quick=arguments.quick)
    finally:
        if arguments.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder)


def _run(folder: Path, results: Path, *, is_quick: bool) -> int:
    interruption = Interruption()
    with Screen() as screen:
        demo = Demo(folder, screen, interruption, is_quick=is_quick)
        try:
            outcome = demo.run()
        except Interrupted:
            return INTERRUPTED
        finally:
            demo.close()
    screen.conclude(demo.story, outcome)
    results.mkdir(parents=True, exist_ok=True)
    draw(demo.story, outcome, results / "pipeline-demo.png")
    (results / "audit.html").write_text(page(msgspec.convert(outcome.report, Report)), encoding="utf-8")
    print(f"plot: {results / 'pipeline-demo.png'}\npage: {results / 'audit.html'}")
    return 0 if outcome.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
