"""B4, B11, B13, A7: SIGKILL of the server at random moments while transactions, groups, priorities, large events, a pattern and a
selector are in use at once. Each promise has its checker; all of them must be kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import HoldfastError, TimedOut
from holdfast.simulation.checkers.account import Account
from holdfast.simulation.checkers.group_order import GroupOrder
from holdfast.simulation.checkers.large_events import LargeEvents
from holdfast.simulation.checkers.transfers import Transfers
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import turn_loop, until

SEED = 20_261_117
KILLS = effort.rounds(short=5, long=30)
MOVED = effort.rounds(short=1_500, long=5_000)
GROUPS = 7
# Some four fragments.
LARGE_BYTES = 900_000
# Longer than all kills together: a session that is given up would hand its groups to others in the middle of its work.
OPTIONS = ("--journal-size", "512M", "--session-grace-ms", "60000")


class Load:
    """Programs that go on through every kill, and tell the checkers what they were told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_over = asyncio.Event()
        self.is_drained = asyncio.Event()
        self.transfers = Transfers("in", "out", "audit")
        self.groups = GroupOrder()
        self.contents = LargeEvents()
        self.account = Account("alerts")
        self.grouped = 0

    def connect(self, name: str) -> holdfast.Client:
        return holdfast.connect(self.url, name=name, timeout=60)

    async def prepare(self) -> None:
        async with self.connect("prepares") as client:
            await client.create_subscription("audit.*", "audit")
            await client.create_topic("audit.moves")
            await client.create_topic("alerts")
            await client.create_subscription("alerts", "alerts", selector="level > 5")
            self.transfers.sending(*range(MOVED))
            await client.queue("in").send_many(range(MOVED))
            self.transfers.sent(*range(MOVED))

    async def move(self) -> None:
        """Exactly once: what is taken from one queue is put into another, of any priority, and told to a topic."""
        async with self.connect("mover") as client:
            while not self.is_over.is_set():
                with contextlib.suppress(HoldfastError):  # aborted, or nobody knows: the count at the end decides
                    async with client.queue("in").receive(credit=10) as incoming:
                        while not self.is_over.is_set():
                            event = await incoming.next(1.0)
                            async with client.transaction() as tx:
                                await tx.queue("out").send(event.data, priority=event.data % 10)
                                await tx.topic("audit.moves").send(event.data)
                                await tx.confirm(event)
                            self.transfers.commit(event.data)

    async def send_groups(self) -> None:
        async with self.connect("sends groups") as client:
            while not self.is_over.is_set():
                numbers = range(self.grouped + 1, self.grouped + 1 + random.choice((1, 5, 40)))
                events = [holdfast.Event(data=number, group=f"g{number % GROUPS}") for number in numbers]
                await client.queue("grouped").send_many(events)
                self.grouped = numbers[-1]
                await asyncio.sleep(0.01)

    async def work_on_groups(self, recipient: str) -> None:
        async with self.connect(recipient) as client, client.queue("grouped").receive(credit=20) as incoming:
            while not self.is_drained.is_set():
                with contextlib.suppress(TimedOut):
                    event = await incoming.next(0.2)
                    group = event.data % GROUPS
                    self.groups.handed(group, recipient, event.data)
                    await turn_loop()  # the work: others have their turn meanwhile
                    self.groups.done(group, recipient)
                    await event.confirm()
            await incoming.settled(60)

    async def send_large(self) -> None:
        async with self.connect("sends large") as client:
            number = 0
            while not self.is_over.is_set():
                name, content = f"large-{number}", hashlib.shake_128(b"%d" % number).digest(LARGE_BYTES)
                self.contents.sending(name, content)
                await client.queue("large").send_stream(content, properties={"name": name})
                self.contents.accepted(name)
                number += 1

    async def read_large(self) -> None:
        async with self.connect("reads large") as client, client.queue("large").receive(credit=2) as incoming:
            while not self.is_drained.is_set():
                with contextlib.suppress(TimedOut):
                    event = await incoming.next(0.2)
                    async with event.open_stream() as stream:
                        self.contents.read(str(event.properties["name"]), await stream.read())
                    await event.confirm()

    async def send_alerts(self) -> None:
        async with self.connect("alarms") as client:
            number = 0
            while not self.is_over.is_set():
                number += 1
                level = number % 10
                self.account.sent("alerts", number)
                await client.topic("alerts").send(number, properties={"level": level})
                if level > 5:
                    self.account.accepted("alerts", number)
                await asyncio.sleep(0.002)

    async def read_alerts(self) -> None:
        async with self.connect("pager") as client, client.subscribe("alerts", "alerts", selector="level > 5") as incoming:
            while not self.is_drained.is_set():
                with contextlib.suppress(TimedOut):
                    event = await incoming.next(0.2)
                    assert event.properties["level"] in (6, 7, 8, 9)
                    self.account.delivered("alerts", "pager", "alerts", event.data)
                    await event.confirm()

    async def go_on(self) -> None:
        """Wait until each kind of work has made progress."""
        moved, grouped, large = len(self.transfers.committed), self.grouped, len(self.contents.seen)
        await until(
            lambda: (
                len(self.transfers.committed) > min(moved, MOVED - 1)
                and self.grouped > grouped
                and len(self.contents.seen) > large
            ),
            "the load goes on after a kill",
        )

    def is_all_here(self) -> bool:
        return self.groups.seen == self.grouped and not self.contents.missing and not self.account.missing()


async def drained(client: holdfast.Client, source: Any) -> list[tuple[int, int]]:
    """(priority, data) of everything that waits, confirmed."""
    found = []
    async with source as incoming:
        with contextlib.suppress(TimedOut):
            while True:
                event = await incoming.next(1.0)
                found.append((event.priority, event.data))
                await event.confirm()
        await incoming.settled()
    return found


@pytest.mark.slow
@pytest.mark.faults
async def test_killed_again_and_again_while_every_feature_is_in_use_each_keeps_its_promise(tmp_path: Path) -> None:
    random.seed(effort.seed(SEED))
    with ServerProcess(tmp_path / "data", *OPTIONS) as server:
        load = Load(server.url)
        await load.prepare()
        senders = [load.move(), load.move(), load.send_groups(), load.send_large(), load.send_alerts()]
        readers = [load.work_on_groups("ann"), load.work_on_groups("bob"), load.read_large(), load.read_alerts()]
        sending = [asyncio.create_task(each) for each in senders]
        reading = [asyncio.create_task(each) for each in readers]
        for _ in range(KILLS):
            await load.go_on()
            await asyncio.sleep(random.uniform(0.0, 0.5))  # the moment is part of what is tried
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            assert not any(each.done() for each in (*sending, *reading)), "a program gave up"
        load.is_over.set()
        await asyncio.wait_for(asyncio.gather(*sending), 60)
        await until(lambda: any(each.done() for each in reading) or load.is_all_here(), "everything has come", 120, 0.05)
        assert not any(each.done() for each in reading), "a reader gave up"
        load.is_drained.set()
        await asyncio.wait_for(asyncio.gather(*reading), 60)
        async with load.connect("counts") as client:
            left = await drained(client, client.queue("in").receive())
            out = await drained(client, client.queue("out").receive())
            audit = await drained(client, client.subscribe("audit.*", "audit"))

    found = {"in": left, "out": out, "audit": audit}
    problems = load.transfers.broken({place: [data for _, data in events] for place, events in found.items()})
    assert not problems + load.groups.problems + load.contents.broken()
    assert load.account.verdict().is_kept, str(load.account.verdict())
    assert [priority for priority, _ in out] == sorted((priority for priority, _ in out), reverse=True)
    print(Counter(moved=len(out), grouped=load.grouped, large=len(load.contents.seen)), load.account.verdict())
    assert len(load.transfers.committed) >= KILLS and load.grouped >= KILLS and len(load.contents.seen) >= KILLS
