"""What is found by an id alone belongs to the user who made it: to have learned an id helps nobody else (E7).

A recorder's producer, the id a client says in its Hello, a temporary destination, a session that goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.access import users as users_files
from holdfast.channel.channel import AtOnce, Entry
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.errors import AccessDenied
from holdfast.event import identifier
from holdfast.event.position import Ranges
from holdfast.node.identity import Identity
from holdfast.node.login.login import Login
from holdfast.node.login.passwords import hashed
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.recorder.recorder import Recorder
from holdfast.wire.frame import (
    Answered,
    Attach,
    Commit,
    Credit,
    Deliver,
    Failed,
    Goodbye,
    Manage,
    OpenProducer,
    Part,
    Publish,
    Receipted,
    Send,
    SessionOpened,
    Settle,
)
from tests import running_server
from tests.raw_client import RawClient, batch_command
from tests.running_server import RunningServer
from tests.waiting import until

PASSWORD = "the same for both"
RULE = '[[access]]\nwho = "*"\ndestination = "**"\nactions = ["send", "receive", "browse", "manage"]\n'


def users(rules: str = RULE) -> users_files.Users:
    secret = hashed(PASSWORD)
    return users_files.read("".join(f'[users.{name}]\npassword = "{secret}"\n' for name in ("alice", "bob")) + rules)


@asynccontextmanager
async def serving(
    folder: Path, has_users: bool = True, is_killed: bool = False, settings: NodeSettings = running_server.SETTINGS
) -> AsyncIterator[RunningServer]:
    server = await running_server.start(folder / "data", settings)
    if has_users:
        server.node.clients.login = Login(users())
    try:
        yield server
    finally:
        await (server.crash() if is_killed else server.close())


async def linked(server: RunningServer, user: str = "", client: str = "") -> RawClient:
    made = RawClient(server.node)
    await made.greet("", user, PASSWORD if user else "", client)
    return made


def waiting(server: RunningServer, queue: str = "q") -> int:
    found = server.node.messages.directory.catalog.destinations.get(queue)
    return found.backlog.waiting if found is not None else 0  # type: ignore[union-attr]


async def send(client: RawClient, producer: str, sequence: int, queue: str = "q") -> None:
    client.say(Send(sequence), batch_command(producer, sequence, queue))
    await until(lambda: any(each.token == sequence for each in client.of(Receipted)), f"batch {sequence} is receipted")


# --- a durable producer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [True, False], ids=["from-the-journal", "from-a-snapshot"])
async def test_a_durable_producer_is_opened_by_no_other_user_also_after_a_restart(tmp_path: Path, is_killed: bool) -> None:
    async with serving(tmp_path, is_killed=is_killed) as server:
        alice = await linked(server, "alice")
        assert isinstance(await alice.ask(OpenProducer, "recorder-7", True), Answered)
        await send(alice, "recorder-7", 1)
        now = await (await linked(server, "bob")).ask(OpenProducer, "recorder-7", True)
    async with serving(tmp_path) as server:
        later = await (await linked(server, "bob")).ask(OpenProducer, "recorder-7", True)
        again = await (await linked(server, "alice")).ask(OpenProducer, "recorder-7", True)

    for refused in (now, later):
        assert isinstance(refused, Failed)
        assert (refused.code, "belongs to another user; send as that user" in refused.sentence) == ("access-denied", True)
    assert again.value["last_sequence"] == 1


async def test_nothing_is_sent_under_a_producer_whose_opening_was_refused_or_is_not_answered_yet(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        alice = await linked(server, "alice")
        await alice.ask(OpenProducer, "recorder-7", True)
        await send(alice, "recorder-7", 1)
        bob, hasty_bob = await linked(server, "bob"), await linked(server, "bob")

        await bob.ask(OpenProducer, "recorder-7", True)
        bob.say(Send(2), batch_command("recorder-7", 2))
        await bob.until_lost()
        hasty_bob.say(OpenProducer(1, "recorder-7", True))
        hasty_bob.say(Send(2), batch_command("recorder-7", 2))
        await hasty_bob.until_lost()
        await send(alice, "recorder-7", 2)

        await until(lambda: waiting(server) == 2, "what alice sent is placed, and nothing else")
    assert "was not opened" in bob.of(Goodbye)[0].sentence


async def test_what_a_recorder_holds_is_forwarded_by_its_own_user_and_refused_to_another_not_skipped(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        as_alice, as_bob = (
            f"holdfast://{user}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.port}" for user in ("alice", "bob")
        )
        with Recorder(tmp_path / "recorded") as recorder:
            recorder.record("first", "q")
            await asyncio.to_thread(recorder.forward, as_alice)
            recorder.record("second", "q")

            with pytest.raises(AccessDenied, match="belongs to another user; send as that user"):
                await asyncio.to_thread(recorder.forward, as_bob)
            held = recorder.held
            forwarded = await asyncio.to_thread(recorder.forward, as_alice)

        async with holdfast.connect(as_alice) as client, client.queue("q").receive() as incoming:
            received = [(await incoming.next(timeout=10)).data for _ in range(2)]

    assert held == 1
    assert (forwarded.count, forwarded.skipped) == (1, 0)
    assert received == ["first", "second"]


async def test_a_producer_from_before_there_were_users_goes_to_the_first_user_who_opens_it(tmp_path: Path) -> None:
    async with serving(tmp_path, has_users=False) as server:
        nobody = await linked(server)
        await nobody.ask(OpenProducer, "recorder-7", True)
        await send(nobody, "recorder-7", 1)
        another = await (await linked(server)).ask(OpenProducer, "recorder-7", True)
    async with serving(tmp_path) as server:
        alice = await (await linked(server, "alice")).ask(OpenProducer, "recorder-7", True)
        bob = await (await linked(server, "bob")).ask(OpenProducer, "recorder-7", True)

    assert another.value["last_sequence"] == alice.value["last_sequence"] == 1
    assert (type(bob), bob.code) == (Failed, "access-denied")


# --- the ids of events ---------------------------------------------------------------------------------------------------


async def in_a_batch(client: RawClient, number: int) -> None:
    producer = await client.open_producer()
    client.heard.clear()
    await send(client, producer, 1)


async def in_a_transaction(client: RawClient, number: int) -> None:
    client.heard.clear()
    client.say(Part(1), part(client.session, f"transaction-{number}"))
    await client.hear(Receipted)
    assert isinstance(await client.ask(Commit, f"transaction-{number}", 1), Answered)


async def in_a_stage(client: RawClient, number: int) -> None:
    client.heard.clear()
    client.say(Part(1), part(f"/{client.session.partition('/')[2]}", f"stage-{number}"))
    await client.hear(Receipted)
    assert isinstance(await client.ask(Publish, "scope", number, [(f"stage-{number}", 1)]), Answered)


def part(session: str, assembly: str) -> bytes:
    """The event that `batch_command` sends as number 1."""
    _, payload = command.decode(batch_command("", 1))
    return command.encode(command.Part(session, assembly, 1, "q"), bytes(payload))


@pytest.mark.parametrize("sent", [in_a_batch, in_a_transaction, in_a_stage])
async def test_nobody_has_the_events_of_another_user_dropped_by_sending_their_ids_first(
    tmp_path: Path, sent: Callable[[RawClient, int], Awaitable[None]]
) -> None:
    async with serving(tmp_path) as server:
        alice, bob = await linked(server, "alice"), await linked(server, "bob")
        await alice.ask(Manage, "create", {"name": "q", "kind": "queue", "deduplicate": 600})
        await in_a_batch(bob, 1)

        await sent(alice, 2)
        assert await applied(server) == 2
        await sent(alice, 3)
        await in_a_batch(alice, 4)  # in whatever way it is sent, it is the same event

        assert await applied(server) == 2


async def applied(server: RunningServer) -> int:
    """What waits, when everything is applied."""
    await until(lambda: server.node.messages.applied == server.node.channel.durable, "everything is applied")
    return waiting(server)


# --- the id of a client --------------------------------------------------------------------------------------------------


async def test_a_temporary_queue_is_received_from_by_no_other_user_who_says_the_id_of_its_client(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        alice = await linked(server, "alice", "the same id")
        name = (await alice.ask(Manage, "temporary", {"kind": "queue"})).value["name"]

        by_bob = await (await linked(server, "bob", "the same id")).ask(Attach, 1, name, "queue")
        deleted = await (await linked(server, "bob", "the same id")).ask(Manage, "delete", {"name": name, "force": True})
        by_alice = await (await linked(server, "alice", "the same id")).ask(Attach, 1, name, "queue")
        by_another_of_alice = await (await linked(server, "alice", "another")).ask(Attach, 1, name, "queue")

    assert [each.code for each in (by_bob, deleted, by_another_of_alice)] == ["access-denied"] * 3
    assert "received from by the client that made it, and by nobody else" in by_bob.sentence
    assert isinstance(by_alice, Answered)


async def test_the_name_of_a_temporary_queue_cannot_be_worked_out_from_another(tmp_path: Path) -> None:
    """Whoever was told it may send there: bob, who was not, would send alice replies to her requests."""
    async with serving(tmp_path) as server:
        alice, bob = await linked(server, "alice"), await linked(server, "bob")
        before = (await bob.ask(Manage, "temporary", {"kind": "queue"})).value["name"]
        of_alice = (await alice.ask(Manage, "temporary", {"kind": "queue"})).value["name"]
        producer = await bob.open_producer()

        known = before.removeprefix("_temporary.")
        guesses = [
            "_temporary." + identifier.to_text(identifier.from_text(known[:26]) + step) + known[26:] for step in range(1, 9)
        ]
        for sequence, guess in enumerate(guesses, 1):
            bob.say(Send(sequence), batch_command(producer, sequence, guess))
        refused = await bob.hear(Failed, len(guesses))

        assert {each.code for each in refused} == {"no-such-destination"}
        assert waiting(server, of_alice) == 0


class SlowChannel(MemoryChannel):
    """What is in it is applied when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_be_read = asyncio.Event()

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        async for entries in super().read(start, at_once):
            await self.may_be_read.wait()
            yield entries


async def test_whose_a_temporary_queue_is_is_asked_also_while_the_journal_is_being_replayed() -> None:
    channel, name = SlowChannel(), "_temporary.of-alice"
    await channel.append(command.encode(command.Create(name, "queue", session="former/alice")))
    node = await Node.over(channel, Identity.in_memory(), running_server.SETTINGS)
    node.clients.login = Login(users())
    attaching, deleting = RawClient(node), RawClient(node)
    for client in (attaching, deleting):
        await client.greet(user="bob", password=PASSWORD, client="the same id")

    attaching.say(Attach(1, 1, name, "queue"))
    deleting.say(Manage(1, "delete", {"name": name, "force": True}))
    for client in (attaching, deleting):  # what is asked after it, and needs no replay, is answered before it
        await client.open_producer()
        assert not client.of(Failed)
    channel.may_be_read.set()

    assert [(await client.hear(Failed))[0].code for client in (attaching, deleting)] == ["access-denied"] * 2
    assert name in node.messages.directory.catalog.destinations
    await node.close()


async def test_what_another_user_sends_with_the_id_of_a_client_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """Otherwise bob could keep what he sends from a subscription that leaves out its own client's events."""
    async with serving(tmp_path) as server:
        alice, bob = await linked(server, "alice", "the same id"), await linked(server, "bob", "the same id")
        await alice.ask(Manage, "create", {"name": "t", "kind": "topic"})
        await alice.ask(Attach, 1, "t", "topic", "audit", b"", "", "name", True, False, True)
        alice.say(Credit(1, 10, 1 << 20))
        for client in (alice, bob):
            producer = await client.open_producer()
            client.say(Send(1, "topic"), batch_command(producer, 1, "t"))
        (delivered,) = await alice.hear(Deliver)

    assert sum(each.events for each in delivered.slices) == 1


# --- a session that goes on ----------------------------------------------------------------------------------------------


async def test_a_session_that_goes_on_under_other_rules_decides_on_nothing_they_do_not_allow(tmp_path: Path) -> None:
    async with serving(tmp_path, settings=running_server.PATIENT) as server:
        bob = await linked(server, "bob")
        producer = await bob.open_producer()
        await send(bob, producer, 1)
        await bob.receive("q")
        (delivered,) = await bob.hear(Deliver)
        server.node.clients.use_users(users(RULE.replace('"receive", ', "")))
        await bob.until_lost()

        again = RawClient(server.node)
        opened: SessionOpened = await again.greet(bob.session, "bob", PASSWORD)
        taken = delivered.slices[0].first
        settled = await again.ask(Settle, 1, "confirm", Ranges.of((taken, taken)).to_bytes(), taken)

        assert opened.is_resumed
        assert (type(settled), settled.code) == (Failed, "detached")
        assert waiting(server) == 1


async def test_rules_that_change_while_a_subscription_is_being_made_hold_for_its_receiver() -> None:
    channel = SlowChannel()
    channel.may_be_read.set()
    node = await Node.over(channel, Identity.in_memory(), running_server.PATIENT)
    await node.messages.wait_until_primary()
    node.clients.login = Login(users())
    bob = RawClient(node)
    await bob.greet(user="bob", password=PASSWORD)
    await bob.ask(Manage, "create", {"name": "t", "kind": "topic"})
    channel.may_be_read.clear()
    durable = channel.durable
    bob.say(Attach(1, 1, "t", "topic", "s"))
    await until(lambda: channel.durable > durable, "the subscription is on its way")

    node.clients.use_users(users(RULE.replace('"receive", ', "")))
    await bob.until_lost()
    again = RawClient(node)
    resumed = await again.greet(bob.session, "bob", PASSWORD)
    channel.may_be_read.set()
    status = await again.ask(Manage, "status", {})

    queue = node.messages.directory.catalog.queue("t", "s")
    assert (resumed.is_resumed, type(status)) == (True, Answered)
    assert not len(queue.receivers)
    assert not node.clients.sessions[bob.session].receivers
    await node.close()
