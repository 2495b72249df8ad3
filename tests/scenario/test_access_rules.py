"""What each user may do to each destination, on a real server: every action allowed, every action denied (E7, B1)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.errors import AccessDenied, NoSuchDestination, TransactionAborted
from holdfast.wire import tcp, tls
from holdfast.wire.frame import MAGIC, Frame, Hello, Message, OpenProducer, OpenSession, SessionOpened, Welcome
from tests.protected_server import ALICE, BOB, ProtectedServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedServer]:
    with ProtectedServer(tmp_path_factory.mktemp("protected")) as made:
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[ProtectedServer]:
    with ProtectedServer(tmp_path, "--session-grace-ms", "60000") as made:
        yield made


async def _receive(client: Client, destination: str) -> None:
    async with client.queue(destination).receive():
        pass


async def _subscribe(client: Client, topic: str, name: str | None = "pager") -> None:
    async with client.subscribe(topic, name):
        pass


async def _own(client: Client, topic: str) -> None:
    """Everything an owner does."""
    reading = client.reading(topic, "lake")
    async with reading.owner():
        await reading.confirm_up_to((await reading.extent()).end)


async def _read(client: Client, topic: str) -> None:
    assert [slice async for slice in client.reading(topic, "lake").slices(0, 1)] == []


Doing = Callable[[Client], Awaitable[Any]]


@pytest.mark.parametrize(
    ("action", "destination", "do"),
    [
        ("send", "bills", lambda client: client.queue("bills").send("one")),
        ("send", "orders", lambda client: client.queue("orders").send("one")),
        ("send", "orders.a.b", lambda client: client.topic("orders.a.b").send("one")),
        ("receive", "bills", lambda client: _receive(client, "bills")),
        ("receive", "orders.secret", lambda client: _receive(client, "orders.secret")),
        ("receive", "_DMQ", lambda client: _receive(client, "_DMQ")),
        ("receive", "news", lambda client: _subscribe(client, "news")),
        ("manage", "orders.new", lambda client: client.create_queue("orders.new")),
        ("manage", "orders.new", lambda client: client.delete("orders.new")),
        ("manage", "orders.topic", lambda client: client.create_subscription("orders.topic", "pager")),
        ("manage", "orders.topic", lambda client: client.delete_subscription("orders.topic", "pager")),
        ("manage", "orders.*", lambda client: client.create_subscription("orders.*", "pager")),
        ("manage", "orders.*", lambda client: client.delete_subscription("orders.*", "pager")),
        ("browse", "**", lambda client: client.subscriptions("**")),
        ("browse", "bills", lambda client: client.queue("bills").browse().__aenter__()),
        ("browse", "bills.*", lambda client: client.browse("bills.*", "pager").__aenter__()),
        ("browse", "bills", lambda client: client.describe("bills")),
        ("browse", "bills", lambda client: client.subscriptions("bills")),
        ("browse", "orders.topic", lambda client: client.reading("orders.topic", "lake").extent()),
        ("browse", "orders.topic", lambda client: client.reading("orders.topic", "lake").more(0, 0)),
        ("browse", "orders.topic", lambda client: _read(client, "orders.topic")),
        ("browse", "bills", lambda client: _own(client, "bills")),
        ("browse", "bills.*", lambda client: _own(client, "bills.*")),
        ("receive", "bills", lambda client: client._manage("confirm_up_to", None, topic="bills", subscription="lake", place=0)),
    ],
)
async def test_what_no_rule_allows_is_denied_naming_user_action_and_destination(
    server: ProtectedServer, action: str, destination: str, do: Doing
) -> None:
    async with holdfast.connect(server.alice) as client:
        with pytest.raises(AccessDenied) as denied:
            await do(client)

        assert denied.value.fields == {"user": "alice", "action": action, "destination": destination}
        assert f"user 'alice' may not {action} '{destination}'" in denied.value.sentence
        await client.queue("orders.new").send("the link goes on")


@pytest.mark.parametrize(
    "do",
    [
        lambda client: client.queue("orders.new").send("one"),
        lambda client: _receive(client, "orders.new"),
        lambda client: client.create_queue("made.queue"),
        lambda client: client.delete("made.queue"),
        lambda client: client.create_topic("made.topic"),
        lambda client: client.create_subscription("made.topic", "pager"),
        lambda client: _subscribe(client, "made.topic"),
        lambda client: _subscribe(client, "made.topic", None),
        lambda client: client.describe("made.topic"),
        lambda client: _own(client, "made.topic"),
        lambda client: _read(client, "made.topic"),
        lambda client: client.delete_subscription("made.topic", "pager"),
        lambda client: client.status(),
    ],
)
async def test_what_a_rule_allows_is_done(server: ProtectedServer, do: Doing) -> None:
    async with holdfast.connect(server.alice) as client:
        await do(client)


async def test_what_was_denied_was_not_created_on_the_way(server: ProtectedServer) -> None:
    async with holdfast.connect(server.alice) as client:
        with pytest.raises(AccessDenied):
            await client.queue("orders.secret").send("may be sent")
            await _receive(client, "orders.secret")
        with pytest.raises(AccessDenied):
            await client.queue("sneaked.in").send("one")
    with server.users.open("a") as file:
        file.write('[[access]]\nwho = "robot"\ndestination = "**"\nactions = ["browse"]\n')
    server.process.signal(signal.SIGHUP)
    async with holdfast.connect(server.url(certificate=server.robot)) as robot:
        while "reloaded" not in server.process.log:
            await robot.status()
    async with holdfast.connect(server.url(certificate=server.robot)) as robot:
        names = {each["name"] for each in await robot.destinations()}
        with pytest.raises(NoSuchDestination):
            await robot.describe("sneaked.in")

    assert "orders.secret" in names
    assert "sneaked.in" not in names


async def test_a_list_shows_only_what_the_user_may_do_anything_to(server: ProtectedServer) -> None:
    async with holdfast.connect(server.alice) as client:
        await client.queue("orders.seen").send("one")
        await client.create_queue("made.seen")
        names = {each["name"] for each in await client.destinations()}
    async with holdfast.connect(server.bob) as client:
        names_of_bob = {each["name"] for each in await client.destinations()}

    assert {"orders.seen", "made.seen"} <= names
    assert "_DMQ" not in names
    assert "orders.seen" in names_of_bob
    assert not any(name.startswith("made.") for name in names_of_bob)


async def test_one_denied_event_in_a_pipeline_does_not_take_the_others_with_it(server: ProtectedServer) -> None:
    async with holdfast.connect(server.alice) as client:
        before = await client.queue("orders.pipeline").send("before")
        with pytest.raises(AccessDenied):
            await client.queue("bills").send("denied")
        after = await client.queue("orders.pipeline").send_many(["after", "that"])

    assert before.position < after[0].position


@asynccontextmanager
async def cut_off(server: ProtectedServer) -> AsyncIterator[tuple[Client, str]]:
    """A client of alice's that holds an event, whose session goes on without its link; and the session's id."""
    client = await holdfast.connect(server.alice).open()
    await client.queue("orders.held").send("held")
    incoming = await client.queue("orders.held").receive().__aenter__()
    await incoming.next(timeout=5)
    assert client._connection is not None
    yield client, client._connection.session.id
    await client.close()


async def _opened(server: ProtectedServer, user: str, password: str, resume: str) -> SessionOpened:
    """Log in, and ask for a session by its id, frame by frame."""
    heard: asyncio.Queue[Message] = asyncio.Queue()
    lost = asyncio.get_running_loop().create_future()
    link = await tcp.dial(("127.0.0.1", server.process.port), 10, tls.client_context(server.authority.file))
    link.received, link.lost = lambda frame: heard.put_nowait(frame.message), lost.set_result
    async with asyncio.timeout(20):
        link.send(Frame(0, Hello(MAGIC, [1], "", user, password)))
        assert isinstance(await heard.get(), Welcome)
        link.send(Frame(1, OpenSession(1, "", resume)))
        opened = await heard.get()
        link.close()
        await lost
    assert isinstance(opened, SessionOpened)
    return opened


async def test_a_session_is_resumed_only_by_its_own_user_also_after_a_restart(fresh: ProtectedServer) -> None:
    async with cut_off(fresh) as (_, stolen):
        by_bob = await _opened(fresh, "bob", BOB, stolen)
        fresh.process.kill()
        fresh.process.start()
        by_bob_later = await _opened(fresh, "bob", BOB, stolen)
        by_alice = await _opened(fresh, "alice", ALICE, stolen)

    assert (by_bob.is_resumed, by_bob_later.is_resumed, by_alice.is_resumed) == (False, False, True)
    assert by_bob.session != stolen
    assert by_alice.session == stolen


async def test_a_producer_of_another_user_cannot_be_opened(server: ProtectedServer) -> None:
    async with holdfast.connect(server.alice) as alice, holdfast.connect(server.bob) as bob:
        await alice.queue("orders.new").send("one")
        assert alice._connection is not None and bob._connection is not None
        stolen = alice._connection.session.producer._numbers.producer
        session = bob._connection.session
        with pytest.raises(AccessDenied, match="belongs to another user"):
            await session.ask_now(lambda token: OpenProducer(token, stolen), bob._connection.deadline(5), session.number)


async def test_rules_that_change_hold_for_those_who_are_in_and_what_they_held_goes_to_others(fresh: ProtectedServer) -> None:
    async with holdfast.connect(fresh.alice) as alice, holdfast.connect(fresh.bob) as bob:
        await alice.queue("orders.new").send("one")
        held = await bob.queue("orders.new").receive().__aenter__()
        event = await held.next(timeout=5)
        assert event is not None
        fresh.users.write_text(fresh.users.read_text().replace('readers = ["bob", "robot"]', 'readers = ["robot"]'))

        fresh.process.signal(signal.SIGHUP)

        with pytest.raises(AccessDenied, match="'bob' may not receive"):
            await held.next(timeout=10)
        async with alice.queue("orders.new").receive() as incoming:
            again = await incoming.next(timeout=10)
            assert again is not None
            assert again.data == "one"
            await again.confirm()


async def test_a_change_for_one_user_does_not_disturb_another(fresh: ProtectedServer) -> None:
    async with holdfast.connect(fresh.alice) as alice, alice.queue("orders.new").receive() as incoming:
        fresh.users.write_text(fresh.users.read_text().replace('readers = ["bob", "robot"]', 'readers = ["robot"]'))
        fresh.process.signal(signal.SIGHUP)
        while "reloaded" not in fresh.process.log:
            await alice.status()
        await alice.queue("orders.new").send("one")
        event = await incoming.next(timeout=5)
        assert event is not None
        await event.confirm()

    assert fresh.process.log.count("alice logged in") == 1


async def test_a_transaction_or_a_large_event_does_not_lead_around_the_rules(server: ProtectedServer) -> None:
    async with holdfast.connect(server.alice) as client:
        with pytest.raises(TransactionAborted, match="user 'alice' may not send 'bills'"):
            async with client.transaction() as transaction:
                await transaction.queue("orders.new").send("with it")
                await transaction.queue("bills").send("one")
        with pytest.raises(AccessDenied, match="user 'alice' may not send 'bills'"):
            await client.queue("bills").send_stream(bytes(1_000_000))
        async with client.transaction() as transaction:
            await transaction.queue("orders.new").send("the link goes on")
