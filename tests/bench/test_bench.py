"""The bench measures what it says, compares in turns, and a smoke run works: of a few measures, in a long run of all."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from examples.free_port import free_port
from tests import effort
from tests.bench.child import Child, accepts_connections
from tests.bench.end_to_end import Run
from tests.bench.peer import WAIT_SECONDS, CannotRun
from tests.bench.peers.holdfast import Embedded, Server
from tests.bench.peers.sqlite import Sqlite, SqliteClient
from tests.bench.results import Finding, Results, Target, best, in_turns, ratios
from tests.bench.scale import QUICK
from tests.bench.workshop import Workshop

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[2]


def test_repetitions_are_interleaved_so_that_drift_is_shared() -> None:
    order: list[str] = []

    def action(who: str) -> float:
        order.append(who)
        return float(len(order))

    samples = in_turns(4, {"A": lambda: action("A"), "B": lambda: action("B")})

    assert order == ["A", "B", "B", "A", "A", "B", "B", "A"]
    assert samples == {"A": [1, 4, 5, 8], "B": [2, 3, 6, 7]}


def test_a_ratio_is_taken_within_each_repetition() -> None:
    # Both became twice as slow in the second repetition: the ratio did not change.
    assert ratios([100, 50], [10, 5]) == [10, 10]


def test_the_best_party_is_the_one_with_the_highest_median_not_with_the_luckiest_run() -> None:
    assert best({"steady": [10, 11, 12], "lucky": [1, 2, 99]}) == "steady"


@pytest.mark.parametrize(
    ("target", "samples", "verdict"),
    [
        (Target(at_least=10), [9, 10, 30], "met"),
        (Target(at_least=10), [9, 9.9, 30], "missed"),
        (Target(at_most=2), [1, 2, 9], "met"),
        (Target(at_most=2), [1, 2.1, 9], "missed"),
        (None, [1], ""),
    ],
)
def test_the_verdict_goes_by_the_median(target: Target | None, samples: list[float], verdict: str) -> None:
    assert Finding("a", "something", "x", samples, target).verdict == verdict


class Broken:
    """A peer whose start fails after it has begun."""

    name = "broken"
    one_by_one_count = pipelined_count = 1
    is_broker = True
    is_stopped = False

    def start(self, folder: Path) -> None:
        raise CannotRun("no such program here")

    def connect(self) -> None: ...

    def stop(self) -> None:
        self.is_stopped = True


def test_a_peer_that_cannot_run_is_left_out_with_the_reason_and_stopped(tmp_path: Path) -> None:
    results, peer = Results(), Broken()

    with Workshop(QUICK, results, tmp_path, tell=lambda _: None) as workshop:
        workshop.start([peer])  # type: ignore[list-item]

    assert results.left_out == {"broken": "no such program here"}
    assert peer.is_stopped and not workshop.peers


def test_a_child_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", "print('the port is taken')"], tmp_path)

    with pytest.raises(CannotRun, match="the port is taken"):
        child.wait_until(lambda: False)


def test_a_child_is_gone_after_it_was_stopped(tmp_path: Path) -> None:
    port = free_port()
    child = Child([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], tmp_path)
    child.wait_until(lambda: accepts_connections(port))

    child.stop()

    assert not accepts_connections(port)


def test_what_made_a_sender_or_a_recipient_fail_is_told_by_the_run(tmp_path: Path) -> None:
    run = Run(partial(SqliteClient, tmp_path / "no such folder" / "events.sqlite"), rate=100, count=10)

    with pytest.raises(RuntimeError, match="unable to open database file"):
        run.latencies_ms()


def test_an_event_is_under_way_from_when_it_was_due_until_another_process_has_it(tmp_path: Path) -> None:
    server = Server()
    try:
        server.start(tmp_path)

        taken = Run(server.connect, rate=200, count=20).latencies_ms()

        assert len(taken) == 20
        assert all(0 < milliseconds < WAIT_SECONDS * 1e3 for milliseconds in taken)
    finally:
        server.stop()


def test_what_is_sent_in_atomic_batches_is_stored_whole_the_last_batch_too(tmp_path: Path) -> None:
    _need_clients()
    from tests.bench.peers.jetstream import BATCH_EVENTS, AtomicBatches

    peer, seen = AtomicBatches(), list[bytes]()
    try:
        peer.start(tmp_path)
        client = peer.connect()

        client.send_pipelined(b"body", 2 * BATCH_EVENTS + 1)
        client.receive_and_confirm(2 * BATCH_EVENTS + 1, seen.append)
        client.close()
    finally:
        peer.stop()

    assert seen == [b"body"] * (2 * BATCH_EVENTS + 1)


def test_a_peer_can_be_stopped_before_the_others(tmp_path: Path) -> None:
    with Workshop(QUICK, Results(), tmp_path, tell=lambda _: None) as workshop:
        workshop.start([Embedded(), Sqlite()])

        workshop.stop(Sqlite.name)
        workshop.stop("never started")

        assert list(workshop.peers) == [Embedded.name]
        workshop.client(Embedded.name).send_pipelined(b"body", 10)


def test_an_unknown_measure_is_refused_with_those_there_are() -> None:
    _need_clients()

    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--only", "a,z"], cwd=TOP, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "no such measure: z" in done.stderr


@pytest.mark.parametrize("measures", effort.cases(["ace"], long=["abcdefghijklo", "mn", "p", "qr", "s", "t"]))
def test_a_smoke_run_measures_what_it_is_asked_and_leaves_nothing_behind(measures: str, tmp_path: Path) -> None:
    _need_clients()
    results = tmp_path / "bench.json"

    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--only", ",".join(measures), "--json", str(results)],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(results.read_text())
    assert {figure["measure"] for figure in found["figures"]} == set(measures)
    assert all(sample > 0 for figure in found["figures"] for sample in figure["samples"] if figure["measure"] not in "hr")
    assert all(finding["verdict"] in ("met", "missed", "") for finding in found["findings"])
    assert results.with_suffix(".png").stat().st_size > 10_000
    assert not list((TOP / "bench-results").glob("work-*"))


def _need_clients() -> None:
    """The peers' own clients come with `make bench` and `make test`, not with `make check`."""
    for module in ("matplotlib", "pika", "redis", "nats"):
        pytest.importorskip(module)
