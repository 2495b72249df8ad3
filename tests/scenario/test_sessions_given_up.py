"""What a session held when it was given up goes to others (rule 4), however much it is and whatever fails meanwhile."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.channel.channel import Channel
from holdfast.destination import command
from holdfast.destination.settings import Settings
from holdfast.errors import Blocked
from holdfast.event.position import Ranges
from holdfast.node.node import Node
from holdfast.wire.frame import (
    MAGIC,
    VERSIONS,
    Answered,
    Attach,
    Credit,
    Deliver,
    Failed,
    ForgetProducer,
    Goodbye,
    Hello,
    Manage,
    OpenSession,
    Send,
    SessionOpened,
    Settle,
)
from tests.raw_client import FailingChannel, RawClient, batch_command, failing_node, fill

MANY = 5_000


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Node, FailingChannel]]:
    node, channel = await failing_node()
    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    try:
        yield node, channel
    finally:
        await node.close()


async def greeted(node: Node, resume: str = "") -> RawClient:
    client = RawClient(node)
    await client.greet(resume)
    return client


def positions(client: RawClient) -> list[int]:
    return [each.first for message in client.of(Deliver) for each in message.slices]


async def until_handed(client: RawClient, count: int) -> None:
    async with asyncio.timeout(10):
        while len(positions(client)) < count:
            await client.hear(Deliver, len(client.of(Deliver)) + 1)


async def test_what_a_dead_recipient_held_of_many_small_batches_goes_to_another() -> None:
    async with running() as (node, _):
        await fill(node, MANY)
        dying, other = await greeted(node), await greeted(node)
        await dying.receive()
        await until_handed(dying, MANY)

        dying.cut()
        await other.receive()
        await until_handed(other, MANY)

        assert sorted(positions(other)) == sorted(positions(dying))


def counts(client: RawClient) -> dict[int, int]:
    return {
        each.first + at: each.deliveries for message in client.of(Deliver) for each in message.slices for at in range(each.events)
    }


async def test_of_what_a_dead_recipient_held_that_counts_which_its_program_was_handed_and_the_next_one() -> None:
    """Rule 5. It has handed out four, and decided on the second."""
    async with running() as (node, _):
        await fill(node, 10)
        dying, other = await greeted(node), await greeted(node)
        await dying.ask(Attach, 1, "q", "queue")
        dying.say(Credit(1, 100, 1 << 20))
        await until_handed(dying, 10)
        given = positions(dying)
        dying.say(Credit(1, 0, 0, given[3]))
        await dying.ask(Settle, 1, "confirm", Ranges.of((given[1], given[1])).to_bytes(), 0, 0, True, "", "", given[3])

        dying.cut()
        await other.receive()
        await until_handed(other, 9)

        assert [counts(other)[each] for each in given if each != given[1]] == [1, 1, 1, 1, 0, 0, 0, 0, 0]


async def test_an_older_client_has_handed_out_what_it_decided_on_and_the_next_one_counts() -> None:
    async with running() as (node, _):
        await fill(node, 6)
        dying, other = await greeted(node), await greeted(node)
        await dying.receive()
        await until_handed(dying, 6)
        given = positions(dying)
        await dying.ask(Settle, 1, "confirm", Ranges.of((given[2], given[2])).to_bytes())

        dying.cut()
        await other.receive()
        await until_handed(other, 5)

        assert [counts(other)[each] for each in given if each != given[2]] == [1, 1, 1, 0, 0]


async def test_who_comes_back_says_anew_how_far_it_has_handed_out_in_an_order_of_its_own() -> None:
    async with running() as (node, _):
        await fill(node, 6)
        dying, other = await greeted(node), await greeted(node)
        await dying.receive()
        await until_handed(dying, 6)
        given = positions(dying)
        held = Ranges.gather((each, each) for each in given).to_bytes()
        ahead = array("Q", [end for each in (given[5], given[1], given[3]) for end in (each, each)]).tobytes()
        back = await greeted(node, dying.session)
        await back.ask(Attach, 1, "q", "queue", "", held, "", "name", True, False, False, False, False, ahead)
        back.say(Credit(1, 0, 0, given[5]))
        await back.ask(Settle, 1, "release", Ranges.of((given[0], given[0])).to_bytes(), 0, 0, False, "", "", given[5])

        back.cut()
        await other.receive()
        await until_handed(other, 6)

        assert [counts(other)[each] for each in given] == [0, 1, 1, 0, 1, 1]


async def test_what_was_counted_when_a_session_was_given_up_is_counted_once_however_often_that_is_tried() -> None:
    async with running() as (node, channel):
        await fill(node, 10)
        dying, other = await greeted(node), await greeted(node)
        await dying.receive()
        await until_handed(dying, 10)
        channel.refused = {command.Detach}
        dying.cut()
        await channel.until_refused(command.Detach, 2)

        channel.refused = set()
        await other.receive()
        await until_handed(other, 10)

        assert list(counts(other).values()) == [1] + [0] * 9


async def test_a_client_that_never_says_how_far_it_is_costs_no_memory_for_what_is_finished() -> None:
    async with running() as (node, _):
        await fill(node, 0)
        client = await greeted(node)
        await client.receive()
        for turn in range(1, 6):
            await fill(node, 1_000)
            await until_handed(client, turn * 1_000)
            held = Ranges.of((positions(client)[0], positions(client)[-1])).to_bytes()
            await client.ask(Settle, 1, "confirm", held, 0, 0, True, "", "", 1)

        delivery = node.messages.deliverer.deliveries["q", ""]

        assert len(delivery._receivers[client.session, 1].prefetched) <= 2_000


async def test_a_session_whose_giving_up_found_no_room_is_given_up_when_there_is_some() -> None:
    async with running() as (node, channel):
        await fill(node, 10)
        dying, other = await greeted(node), await greeted(node)
        await dying.receive()
        await until_handed(dying, 10)
        channel.refused = {command.Detach, command.Release}
        dying.cut()
        await channel.until_refused(command.Detach, 3)

        channel.refused = set()
        await other.receive()

        await until_handed(other, 10)


async def test_a_session_that_comes_back_while_it_is_being_given_up_is_told_so() -> None:
    """It must not be told that it is resumed and then lose what it holds behind its back."""
    async with running() as (node, channel):
        await fill(node, 1)
        dying = await greeted(node)
        await dying.receive()
        await until_handed(dying, 1)
        channel.refused = {command.Detach}
        dying.cut()
        await channel.until_refused(command.Detach)

        opened = await RawClient(node).greet(dying.session)

        assert not opened.is_resumed and opened.session != dying.session


async def test_thousands_of_events_that_were_redelivered_too_often_are_buried() -> None:
    async with running() as (node, _):
        node.channel.append(command.encode(command.Create("q", "queue", Settings(redelivery_limit=1))))
        await fill(node, MANY)
        client = await greeted(node)
        await client.receive()
        for turn in (1, 2):
            await until_handed(client, turn * MANY)
            held = Ranges.gather((each, each) for each in positions(client)[-MANY:])
            for part in held.portions(command.RANGES_MAX):
                await client.ask(Settle, 1, "release", part.to_bytes())

        heir = await greeted(node)
        await heir.receive("_DMQ")
        await until_handed(heir, MANY)


async def test_a_session_resumed_beside_its_half_open_link_is_handed_nothing_before_it_says_what_it_holds() -> None:
    """What was on its way over the old link is not part of it, and comes again: never twice over the new one."""
    async with running() as (node, _):
        await fill(node, 0)
        old = await greeted(node)
        await old.receive(credit=10)

        new = await greeted(node, old.session)
        await fill(node, 3)
        answer = await new.ask(Attach, 1, "q", "queue")
        new.say(Credit(1, 10, 1 << 20))
        await until_handed(new, 3)

        assert isinstance(answer, Answered)
        assert new.heard.index(answer) < new.heard.index(new.of(Deliver)[0])
        assert len(positions(new)) == len(set(positions(new))) == 3
        assert positions(old) == []


async def test_a_batch_that_was_moved_while_it_was_being_fetched_is_delivered_all_the_same() -> None:
    """Stragglers are carried forward at any moment (rule 9)."""
    async with running() as (node, channel):
        await fill(node, 3)
        client = await greeted(node)
        channel.blind = 2

        await client.receive(credit=3)
        await until_handed(client, 3)
        assert len(positions(client)) == 3

        await fill(node, 1)
        client.say(Credit(1, 1, 1))
        await until_handed(client, 4)


async def test_what_cannot_be_imported_at_the_start_does_not_keep_a_node_from_delivering() -> None:
    async def import_recorded(_: Channel) -> None:
        raise Blocked("no room for what was recorded")

    node, _ = await failing_node(import_recorded)
    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    await node.close()


async def test_a_claim_that_found_no_room_is_made_again() -> None:
    node, channel = await failing_node(refused=[command.Claim])
    await channel.until_refused(command.Claim)
    channel.refused = set()

    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    await node.close()


async def test_a_producer_is_forgotten_as_often_as_it_is_asked_for() -> None:
    """Its client repeats the question when a link was lost before the answer."""
    async with running() as (node, channel):
        client = await greeted(node)
        producer = await client.open_producer()
        channel.refused = {command.ForgetProducer}
        assert isinstance(await client.ask(ForgetProducer, producer), Failed)
        channel.refused = set()

        for _ in range(2):
            assert isinstance(await client.ask(ForgetProducer, producer), Answered)

        assert node.messages.directory.producers.find(producer) is None


async def test_a_number_no_batch_can_have_ends_the_link_and_is_not_accepted() -> None:
    async with running() as (node, _):
        client = await greeted(node)
        producer = await client.open_producer()
        durable = node.channel.durable

        client.say(Send((1 << 64) - 1), batch_command(producer, (1 << 64) - 1))
        await client.until_lost()

        assert client.of(Goodbye)[0].code == "protocol-error"
        assert node.channel.durable == durable


async def test_a_delay_beyond_all_time_is_refused() -> None:
    async with running() as (node, _):
        await fill(node, 1)
        client = await greeted(node)
        await client.receive()
        await until_handed(client, 1)
        held = Ranges.of((positions(client)[0],) * 2).to_bytes()

        client.say(Settle(7, 1, "release", held, 0, (1 << 64) - 1))
        await client.until_lost()

        assert client.of(Goodbye)[0].code == "protocol-error"


async def test_a_name_longer_than_a_command_is_refused_and_the_link_goes_on() -> None:
    async with running() as (node, _):
        client = await greeted(node)

        refusal = await client.ask(Manage, "create", {"name": "n" * 70_000, "kind": "queue"})

        assert isinstance(refusal, Failed) and refusal.code in ("bad-name", "too-large")
        assert isinstance(await client.ask(Manage, "list", {}), Answered)


async def test_a_queue_that_is_being_created_is_no_topic() -> None:
    """Events for a queue would be given to a topic without subscriptions, and so to nobody."""
    async with running() as (node, _):
        client = await greeted(node)
        producer = await client.open_producer()

        client.say(Send(1, "topic"), batch_command(producer, 1, "new"))
        client.say(Send(2, "queue"), batch_command(producer, 2, "new"))
        (refusal,) = await client.hear(Failed)

        assert (refusal.token, refusal.code) == (2, "wrong-kind")


async def test_a_session_that_is_not_resumable_is_given_up_with_its_link_and_what_it_held_goes_to_another_at_once() -> None:
    async with running() as (node, _):
        await fill(node, 3)
        other = await greeted(node)
        passing = RawClient(node)
        passing.say(Hello(MAGIC, list(VERSIONS)), session=0)
        opened = await passing.ask(OpenSession, "passing", "", False)
        await passing.receive()
        await until_handed(passing, 3)
        node.clients.unclaimed.stop()  # nobody looks for sessions that are overdue
        passing.cut()

        await other.receive()
        await until_handed(other, 3)
        again = await greeted(node)
        assert not (await resumed(again, opened.session)).is_resumed


async def resumed(client: RawClient, session: str) -> SessionOpened:
    client.say(OpenSession(1 << 50, "again", session), session=2)
    opened: list[SessionOpened] = await client.hear(SessionOpened, 2)
    return next(each for each in opened if each.token == 1 << 50)
