"""What needs no rule is bounded: whoever has logged in, and may do nothing, takes no memory and nobody's time (E7).

Temporary destinations, durable producers, bodies bound for nowhere, long names, and many questions at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from argon2 import PasswordHasher

from holdfast.access import users as users_files
from holdfast.channel.channel import Pressure
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.destination.directory import Directory
from holdfast.destination.snapshots import snapshot
from holdfast.errors import Blocked
from holdfast.node.identity import Identity
from holdfast.node.login import allowance
from holdfast.node.login.login import Login
from holdfast.node.messages import bus_listener
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.session.session import NAME_LENGTH_MAX
from holdfast.wire import frame
from tests.raw_client import RawClient, batch_command
from tests.waiting import turn_loop, until

PASSWORD = "the same for both"
RULE = '[[access]]\nwho = "bob"\ndestination = "**"\nactions = ["send", "receive", "browse", "manage"]\n'
SETTINGS = NodeSettings(session_temporaries_max=3, user_temporaries_max=5, user_producers_max=4)


@asynccontextmanager
async def serving(settings: NodeSettings = SETTINGS) -> AsyncIterator[Node]:
    """A node with two users: alice may do nothing, and bob everything."""
    secret = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    node = await Node.over(MemoryChannel(), Identity.in_memory(), settings)
    node.clients.login = Login(
        users_files.read("".join(f'[users.{name}]\npassword = "{secret}"\n' for name in ("alice", "bob")) + RULE)
    )
    await node.messages.wait_until_primary()
    try:
        yield node
    finally:
        await node.close()


async def logged_in(node: Node, user: str = "alice") -> RawClient:
    client = RawClient(node)
    await client.greet(user=user, password=PASSWORD)
    return client


def codes(answers: list[Any]) -> list[str]:
    return [answer.code if isinstance(answer, frame.Failed) else "" for answer in answers]


async def answers_to(client: RawClient, questions: list[frame.Message]) -> list[Any]:
    """The answers to questions that are asked at once, each with its place as its token."""
    client.heard.clear()
    for question in questions:
        client.say(question)
    await until(lambda: len(client.heard) >= len(questions), "all are answered")
    return sorted(client.heard, key=lambda answer: getattr(answer, "token", 0))


async def temporaries(client: RawClient, count: int) -> list[Any]:
    return await answers_to(client, [frame.Manage(token, "temporary", {"kind": "queue"}) for token in range(count)])


async def test_a_session_makes_so_many_temporary_destinations_and_no_more_however_many_are_asked_for_at_once() -> None:
    async with serving() as node:
        client = await logged_in(node)

        answers = await temporaries(client, 10)

        assert codes(answers) == [""] * 3 + ["blocked"] * 7
        assert "delete some" in answers[-1].sentence

        await client.ask(frame.Manage, "delete", {"name": answers[0].value["name"]})
        assert codes(await temporaries(client, 2)) == ["", "blocked"]


async def test_the_temporary_destinations_of_all_sessions_of_a_user_are_counted_and_those_of_others_are_not() -> None:
    async with serving() as node:
        first, second, other = await logged_in(node), await logged_in(node), await logged_in(node, "bob")

        await temporaries(first, 3)
        answers = await temporaries(second, 3)

        assert codes(answers) == ["", "", "blocked"]
        assert codes(await temporaries(other, 3)) == [""] * 3

        await first.ask(frame.CloseSession)
        assert codes(await temporaries(second, 1)) == [""]


async def test_a_user_has_so_many_durable_producers_and_no_more_and_opens_those_there_are_again() -> None:
    async with serving() as node:
        client = await logged_in(node)

        answers = await answers_to(client, [frame.OpenProducer(token, f"recorder-{token}", True) for token in range(6)])

        assert codes(answers) == [""] * 4 + ["blocked"] * 2
        assert codes([await client.ask(frame.OpenProducer, "recorder-5", False)]) == [""]
        again = await logged_in(node)
        assert codes([await again.ask(frame.OpenProducer, "recorder-2", True)]) == [""]
        await again.ask(frame.ForgetProducer, "recorder-2")
        assert codes([await again.ask(frame.OpenProducer, "recorder-7", True)]) == [""]
        assert codes([await again.ask(frame.OpenProducer, "recorder-8", True)]) == ["blocked"]


async def test_what_is_counted_is_counted_again_from_a_snapshot() -> None:
    async with serving() as node:
        client = await logged_in(node)
        await temporaries(client, 2)
        await client.ask(frame.OpenProducer, "recorder", True)

        restored = Directory.restore(snapshot.chunks(node.messages.directory))

        assert restored.catalog.temporaries_of("alice") == 2
        assert restored.producers.durable_of("alice") == 1


async def test_a_temporary_topic_has_so_many_subscriptions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "SUBSCRIPTIONS_MAX", 2)
    async with serving() as node:
        client = await logged_in(node)
        topic = (await client.ask(frame.Manage, "temporary", {"kind": "topic"})).value["name"]

        answers = [await client.ask(frame.Attach, number, topic, "topic") for number in (1, 2, 3)]

        assert codes(answers) == ["", "", "blocked"]


async def test_a_session_has_so_many_receivers_on_temporary_destinations_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "RECEIVERS_MAX", 2)
    async with serving() as node:
        client = await logged_in(node)
        queue = (await client.ask(frame.Manage, "temporary", {"kind": "queue"})).value["name"]

        answers = [await client.ask(frame.Attach, number, queue, "queue") for number in (1, 2, 3, 2)]

        assert codes(answers) == ["", "", "blocked", ""]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_body_that_is_bound_for_nowhere_takes_no_space(number: int) -> None:
    async with serving() as node:
        client = await logged_in(node)
        before = node.channel.durable

        client.say(frame.Part(1), command.encode(command.Part(client.session, "large", number, ""), b"x" * 1_000))

        (failed,) = await client.hear(frame.Failed)
        assert "bound for" in failed.sentence
        assert node.channel.durable == before


async def test_a_long_name_of_a_session_is_not_kept() -> None:
    async with serving() as node:
        client = await logged_in(node)

        client.say(frame.OpenSession(7, "x" * 1_000_000), session=2)
        opened = (await client.hear(frame.SessionOpened, 2))[-1]

        assert len(node.clients.sessions[opened.session].name) == NAME_LENGTH_MAX


async def test_a_refusal_repeats_no_more_of_a_name_than_a_name_can_have(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as node:
        client = await logged_in(node)
        producer = await client.open_producer()

        client.say(frame.Send(1), batch_command(producer, 1, "x" * 60_000))

        (failed,) = await client.hear(frame.Failed)
        assert failed.code == "access-denied"
        assert max(map(len, [failed.sentence, failed.fields["destination"], caplog.text])) < 1_000


async def test_while_the_journal_is_nearly_full_a_temporary_queue_takes_no_more_than_is_received() -> None:
    half, nearly_full = (Pressure(0, 0, 0, False, used_bytes=used, ordinary_bytes=100) for used in (50, 81))
    async with serving() as node:
        messages = node.clients.managers[""].messages
        (made,) = await temporaries(await logged_in(node), 1)
        queue = made.value["name"]
        allowance.check_room(messages, queue, nearly_full)

        for _ in range(allowance.WAITING_MAX + 1):
            receipt = await node.channel.append(batch_command("", 0, queue))
        await node.messages.until_applied(receipt.entry)

        allowance.check_room(messages, queue, half)
        with pytest.raises(Blocked, match=f"over 80 % full, and 11 events wait in temporary queue '{queue}'"):
            allowance.check_room(messages, queue, nearly_full)


async def passes(work: Awaitable[Any]) -> int:
    """How often everyone else had a turn while this was done."""
    task, count = asyncio.ensure_future(work), 0
    while not task.done():
        await turn_loop()
        count += 1
    await task
    return count


async def seconds(work: Awaitable[Any]) -> float:
    """Of work: another process may have the machine meanwhile."""
    began = time.process_time()
    await work
    return time.process_time() - began


async def with_queues(node: Node, count: int) -> None:
    """So many queues, in each of which an event waits."""
    for number in range(count):
        node.channel.append(command.encode(command.Create(f"q.{number}", "queue")))
        node.channel.append(batch_command("", 0, f"q.{number}"))
    await node.channel.append(batch_command("", 0, "q.0"))
    await node.messages.until_applied(node.channel.durable)


async def test_many_pages_that_are_asked_for_at_once_leave_everyone_else_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_listener, "TURN_S", -1.0)  # every page takes too long
    async with serving() as node:
        client = await logged_in(node, "bob")
        asked = [frame.Manage(token, "list", {}) for token in range(100)]

        async def ask() -> None:
            for question in asked:
                client.say(question)
            await client.hear(frame.Answered, len(asked))

        assert await passes(ask()) >= len(asked)


async def test_many_who_ask_for_the_status_at_once_share_what_is_looked_at() -> None:
    async with serving() as node:
        await with_queues(node, 2_000)
        client = await logged_in(node)
        asked: list[frame.Message] = [frame.Manage(token, "status", {}) for token in range(100)]
        for_one = await seconds(answers_to(client, asked[:1]))

        for_all = await seconds(answers_to(client, asked))

        assert for_all < 30 * for_one
