"""Measures a, b and c: how many 256-byte events a second, sent pipelined, sent one by one, received and confirmed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from itertools import repeat
from typing import cast

from tests.bench.peers.bare_disk import BareDisk
from tests.bench.peers.holdfast import HoldfastClient
from tests.bench.peers.jetstream import AtomicBatches
from tests.bench.results import Target, best, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

ONE_BY_ONE = "send one by one"
PIPELINED = "send pipelined"
RECEIVE = "receive + confirm"
BY_BATCHES = "receive + confirm by batches"
# What a receiver had before its credit followed the pace of its program.
FIXED_CREDIT = 4_000
OF_FIXED_CREDIT = f"credit of {FIXED_CREDIT:,}"
DEFAULT_CREDIT = "default credit"
BY_CREDIT = "receive + confirm by credit"
OURS = "Holdfast"
EMBEDDED = "Holdfast embedded"
SQLITE = "SQLite WAL"
BARE_WRITES = 200
BARE_BYTES = 4_096


def measure(workshop: Workshop, wanted: Collection[str]) -> None:
    if "b" in wanted:
        _measure_one_by_one(workshop)
        _find_one_by_one(workshop)
    if {"a", "c"} & set(wanted):
        workshop.start([AtomicBatches()])  # only here: one by one and end to end it is JetStream as it is measured already
        _measure_in_bulk(workshop)
        if "a" in wanted:
            _find_pipelined(workshop)
        if "c" in wanted:
            _find_receiving(workshop)
        workshop.stop(AtomicBatches.name)


def _measure_one_by_one(workshop: Workshop) -> None:
    body = os.urandom(EVENT_BYTES)
    bare = BareDisk(workshop.folder("bare"))

    def rate(who: str) -> float:
        workshop.tell(f"{who}: {ONE_BY_ONE}")
        count = workshop.scale.count(workshop.peers[who].one_by_one_count)
        taken = seconds(lambda: workshop.client(who).send_one_by_one(repeat(body, count)))
        workshop.client(who).receive_and_confirm(count, len)
        return count / taken

    def bare_rate() -> float:
        count = workshop.scale.count(BARE_WRITES)
        return count / seconds(lambda: bare.write_and_sync(BARE_BYTES, count))

    try:
        actions = {who: partial(rate, who) for who in workshop.peers if who not in (OURS, EMBEDDED)}
        for who in (OURS, bare.name, EMBEDDED):  # side by side: their ratios are the narrowest
            if who == bare.name or who in workshop.peers:
                actions[who] = partial(bare_rate) if who == bare.name else partial(rate, who)
        workshop.results.note("b", ONE_BY_ONE, "events/s", in_turns(workshop.scale.rounds, actions))
    finally:
        bare.close()


def _measure_in_bulk(workshop: Workshop) -> None:
    body = os.urandom(EVENT_BYTES)
    received: dict[str, list[float]] = {who: [] for who in workshop.peers}

    def rate(who: str) -> float:
        workshop.tell(f"{who}: {PIPELINED}, then {RECEIVE}")
        client, count = workshop.client(who), workshop.scale.count(workshop.peers[who].pipelined_count)
        taken = seconds(lambda: client.send_pipelined(body, count))
        received[who].append(count / seconds(lambda: client.receive_and_confirm(count, len)))
        return count / taken

    actions = {who: partial(rate, who) for who in workshop.peers}
    workshop.results.note("a", PIPELINED, "events/s", in_turns(workshop.scale.repetitions, actions))
    workshop.results.note("c", RECEIVE, "events/s", received)
    if OURS in workshop.peers:
        _measure_by_batches(workshop, body)


def _measure_by_batches(workshop: Workshop, body: bytes) -> None:
    """Our own, one by one and by batches, then with the default and a fixed credit, in turns: the ratios are those of one run."""
    client, count = cast("HoldfastClient", workshop.client(OURS)), workshop.scale.count(workshop.peers[OURS].pipelined_count)

    def rate(receive: Callable[[int, Callable[[bytes], object]], None]) -> float:
        client.send_pipelined(body, count)
        return count / seconds(lambda: receive(count, len))

    workshop.tell(f"{OURS}: {BY_BATCHES}")
    ways = {"one by one": client.receive_and_confirm, "by batches": client.receive_and_confirm_by_batches}
    actions = {way: partial(rate, receive) for way, receive in ways.items()}
    workshop.results.note("c", BY_BATCHES, "events/s", in_turns(workshop.scale.repetitions, actions))
    workshop.tell(f"{OURS}: {BY_CREDIT}")
    fixed = partial(client.receive_and_confirm_with_credit, FIXED_CREDIT)
    actions = {DEFAULT_CREDIT: partial(rate, client.receive_and_confirm), OF_FIXED_CREDIT: partial(rate, fixed)}
    workshop.results.note("c", BY_CREDIT, "events/s", in_turns(workshop.scale.pairs, actions))


def _compare_with_brokers(workshop: Workshop, measure: str, what: str, at_least: float) -> None:
    samples = workshop.results.samples(measure, what)
    brokers = {who: samples[who] for who, peer in workshop.peers.items() if peer.is_broker and who != OURS}
    if OURS not in samples or not brokers:
        return
    for who, theirs in brokers.items():
        target = Target(at_least=at_least) if who == best(brokers) else None
        note = ", the best broker" if target else ""
        workshop.results.find(measure, f"{what}: Holdfast / {who}{note}", ratios(samples[OURS], theirs), target)


def _find_pipelined(workshop: Workshop) -> None:
    _compare_with_brokers(workshop, "a", PIPELINED, at_least=10)
    samples = workshop.results.samples("a", PIPELINED)
    if OURS in samples and SQLITE in samples:
        compared = ratios(samples[OURS], samples[SQLITE])
        workshop.results.find("a", f"{PIPELINED}: Holdfast / SQLite committing every 1,000", compared, Target(at_least=1))


def _find_receiving(workshop: Workshop) -> None:
    _compare_with_brokers(workshop, "c", RECEIVE, at_least=5)
    if OURS in workshop.peers:
        samples = workshop.results.samples("c", BY_BATCHES)
        compared = ratios(samples["by batches"], samples["one by one"])
        workshop.results.find("c", f"{RECEIVE}: Holdfast by batches / one by one", compared, None)
        samples = workshop.results.samples("c", BY_CREDIT)
        compared = ratios(samples[DEFAULT_CREDIT], samples[OF_FIXED_CREDIT])
        what = f"{RECEIVE}: Holdfast, {DEFAULT_CREDIT} / {OF_FIXED_CREDIT}"
        workshop.results.find("c", what, compared, Target(at_least=0.95))


def _find_one_by_one(workshop: Workshop) -> None:
    _compare_with_brokers(workshop, "b", ONE_BY_ONE, at_least=1)
    samples = workshop.results.samples("b", ONE_BY_ONE)
    for who, at_most in ((OURS, 3.5), (EMBEDDED, 2.0)):
        if who in samples:
            times = ratios(samples[BareDisk.name], samples[who])
            workshop.results.find("b", f"time of one send: {who} / bare 4 KiB write + fdatasync", times, Target(at_most=at_most))
