"""A killed program takes over its durable subscription when it starts again: at once, and without a loss (B4, rule 4)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.access import users as users_files
from holdfast.destination import command
from holdfast.errors import Detached, SubscriptionInUse
from holdfast.event.position import Ranges
from holdfast.node.login.login import Login
from holdfast.node.login.passwords import hashed
from holdfast.node.node import Node
from holdfast.wire.frame import Answered, Attach, Credit, Deliver, Failed, ReceiverClosed, Settle
from tests.contract.places import CuttingProxy
from tests.raw_client import RawClient, batch_command
from tests.running_server import PATIENT, running
from tests.server_process import ServerProcess
from tests.waiting import until

# Prints the data of the first event, and then does nothing until it is killed.
HOLDING = """
import sys
from holdfast import blocking

with blocking.connect(sys.argv[1]) as client, client.subscribe("news", "audit") as incoming:
    print(incoming.next().data, flush=True)
    sys.stdin.read()
"""


def held_by_a_killed_program(url: str) -> bytes:
    """The data of the event that a program was handed, as a line, before it was killed."""
    program = subprocess.Popen([sys.executable, "-c", HOLDING, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    handed = program.stdout.readline()
    program.send_signal(signal.SIGKILL)
    program.communicate()
    return handed


async def test_a_killed_program_that_starts_again_has_its_subscription_at_once(tmp_path: Path) -> None:
    """The grace is longer than any test: the only way to the subscription is to take it over."""
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "600000") as server:
        async with holdfast.connect(server.url, timeout=20) as client:
            await client.create_topic("news")
            await client.create_subscription("news", "audit")
            await client.topic("news").send_many(["first", "second"])
            assert held_by_a_killed_program(server.url) == b"first\n"

            async with client.subscribe("news", "audit", take_over=True) as incoming:
                found = [await incoming.next(timeout=20) for _ in range(2)]
                for event in found:
                    await event.confirm()

            assert [(event.data, event.deliveries) for event in found] == [("first", 1), ("second", 0)]
            (left,) = await client.subscriptions("news")
            assert (left["waiting"], left["receivers"]) == (0, 0)


async def test_a_receiver_that_was_cut_off_hears_when_it_comes_back_that_another_took_over(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data", PATIENT) as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=30) as former,
        holdfast.connect(server.url) as client,
    ):
        cut_off = await former.subscribe("news", "audit").open()
        await client.topic("news").send(1)
        held = await cut_off.next(timeout=10)
        proxy.is_refusing = True
        proxy.cut()
        await until(
            lambda: any(each.away_since_ms for each in server.node.clients.sessions.values()), "the server knows of the lost link"
        )

        async with client.subscribe("news", "audit", take_over=True) as incoming:
            event = await incoming.next(timeout=10)
            proxy.is_refusing = False

            with pytest.raises(Detached, match="took this subscription over"):
                await cut_off.next(timeout=20)
            await held.confirm()
            with pytest.raises(Detached):
                await cut_off.settled()
            await event.confirm()
            await incoming.settled()
            assert (event.data, event.deliveries) == (1, 1)
        await cut_off.close()


async def test_two_programs_that_take_over_from_each_other_lose_nothing(tmp_path: Path) -> None:
    finished: set[int] = set()
    async with (
        running(tmp_path / "data", PATIENT) as server,
        holdfast.connect(server.url) as first,
        holdfast.connect(server.url) as second,
    ):
        await first.create_topic("news")
        await first.create_subscription("news", "audit")
        await first.topic("news").send_many(range(42))
        for turn in range(10):
            incoming = await (first, second)[turn % 2].subscribe("news", "audit", take_over=True).open()
            for at in range(6):
                event = await incoming.next(timeout=10)
                if at < 4:
                    await event.confirm()
                    finished.add(event.data)
            await incoming.settled()

        (left,) = await first.subscriptions("news")
        assert finished == set(range(40)), "each turn finishes the oldest four"
        assert left["waiting"] == 2


async def test_a_restarted_server_gives_the_subscription_to_whom_takes_over_before_the_former_receiver_is_back(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "600000") as server:
        async with holdfast.connect(server.url, timeout=20) as client:
            await client.ensure_subscription("news", "audit")
            await client.topic("news").send(1)
            assert held_by_a_killed_program(server.url) == b"1\n"
            server.kill()
            server.start()

            async with client.subscribe("news", "audit", take_over=True) as incoming:
                event = await incoming.next(timeout=20)
                await event.confirm()

        assert event.data == 1


# --- users, and what counts -----------------------------------------------------------------------------------------------

PASSWORD = "the same for all"


def users(*names: str) -> users_files.Users:
    secret = hashed(PASSWORD)
    made = [f'[users.{name}]\npassword = "{secret}"' for name in names]
    made += [f'[[access]]\nwho = "{name}"\ndestination = "news"\nactions = ["receive"]' for name in names if name != "stranger"]
    return users_files.read("\n".join(made))


async def raw(node: Node, user: str = "") -> RawClient:
    client = RawClient(node)
    await client.greet(user=user, password=PASSWORD if user else "")
    return client


async def fill(node: Node, events: int) -> None:
    await node.channel.append(command.encode(command.Create("news", "topic", is_implicit=True)))
    await node.channel.append(command.encode(command.Subscribe("news", "audit", True)))
    for _ in range(events):
        await node.channel.append(batch_command("", 0, "news"))


async def test_a_subscription_is_taken_over_by_its_own_user_alone_who_may_receive(tmp_path: Path) -> None:
    async with running(tmp_path / "data", PATIENT) as server:
        await fill(server.node, 1)
        server.node.clients.login = Login(users("eve", "mallory", "stranger"))
        former, other = await raw(server.node, "eve"), await raw(server.node, "mallory")
        stranger, again = await raw(server.node, "stranger"), await raw(server.node, "eve")
        asked = (1, "news", "topic", "audit")
        assert isinstance(await former.ask(Attach, *asked), Answered)

        refused = await other.ask(Attach, *asked, take_over=True)
        denied = await stranger.ask(Attach, *asked, take_over=True)
        assert isinstance(refused, Failed) and refused.code == SubscriptionInUse.code
        assert isinstance(denied, Failed) and denied.code == "access-denied"
        assert not former.of(ReceiverClosed)

        assert isinstance(await again.ask(Attach, *asked, take_over=True), Answered)
        (told,) = await former.hear(ReceiverClosed)
        assert (told.receiver, told.code) == (1, "detached")


async def test_what_counts_is_what_the_former_program_was_handed_and_the_next_one(tmp_path: Path) -> None:
    """Rule 5. It has handed out four of ten, and decided on the second."""
    async with running(tmp_path / "data", PATIENT) as server:
        await fill(server.node, 10)
        former, again = await raw(server.node), await raw(server.node)
        await former.ask(Attach, 1, "news", "topic", "audit")
        former.say(Credit(1, 100, 1 << 20))
        given = await handed(former, 10)
        former.say(Credit(1, 0, 0, given[3]))
        second = Ranges.of((given[1], given[1])).to_bytes()
        await former.ask(Settle, 1, "confirm", second, 0, 0, True, "", "", given[3])

        await again.ask(Attach, 1, "news", "topic", "audit", take_over=True)
        again.say(Credit(1, 100, 1 << 20))
        await handed(again, 9)

        counts = {each.first: each.deliveries for message in again.of(Deliver) for each in message.slices}
        assert [counts[each] for each in given if each != given[1]] == [1, 1, 1, 1, 0, 0, 0, 0, 0]
        late = await former.ask(Settle, 1, "confirm", Ranges.of((given[0], given[0])).to_bytes())
        assert isinstance(late, Failed) and late.code == "detached"


async def handed(client: RawClient, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        await client.hear(Deliver, len(client.of(Deliver)) + (1 if found or not client.of(Deliver) else 0))
        found = [each.first + at for message in client.of(Deliver) for each in message.slices for at in range(each.events)]
    return found
