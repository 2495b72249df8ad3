"""What a recipient releases goes to the next one, once: also when the release is said twice, or while a node is starting."""

from __future__ import annotations

import asyncio

from holdfast.channel.channel import Channel
from holdfast.event import position
from holdfast.event.position import Ranges
from holdfast.wire.frame import Answered, Attach, Credit, Deliver, Settle
from tests.raw_client import RawClient, failing_node, fill


def positions(client: RawClient) -> list[int]:
    return [each.first for message in client.of(Deliver) for each in message.slices]


async def test_a_release_that_is_sent_again_after_a_lost_link_takes_nothing_from_its_next_holder() -> None:
    """Clients repeat verdicts that were not answered; meanwhile the event may be with somebody else, who will confirm it (P7)."""
    node, _ = await failing_node()
    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    await fill(node, 1)
    first, second = RawClient(node), RawClient(node)
    await first.greet()
    await second.greet()
    await first.receive(credit=1)
    await first.hear(Deliver)
    released = Ranges.of((positions(first)[0],) * 2).to_bytes()
    assert isinstance(await first.ask(Settle, 1, "release", released), Answered)
    await second.receive()
    await second.hear(Deliver)

    assert isinstance(await first.ask(Settle, 1, "release", released), Answered)
    await fill(node, 1)
    await second.hear(Deliver, 2)

    assert positions(second)[0] == positions(first)[0]
    assert len(set(positions(second))) == 2
    await node.close()


async def test_what_is_released_while_a_node_is_starting_is_delivered_when_it_has_started() -> None:
    """A recipient that comes back during a replay says what it holds, and may release it before there is a primary."""
    may_claim = asyncio.Event()

    async def wait(_: Channel) -> None:
        await may_claim.wait()

    node, _ = await failing_node(wait)
    await fill(node, 1)
    client = RawClient(node)
    await client.greet()
    held = position.of(2)
    ranges = Ranges.of((held, held)).to_bytes()
    assert isinstance(await client.ask(Attach, 1, "q", "queue", "", ranges), Answered)
    assert isinstance(await client.ask(Settle, 1, "release", ranges), Answered)

    may_claim.set()
    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    client.say(Credit(1, 10, 1 << 20))
    await client.hear(Deliver)

    assert positions(client) == [held]
    await node.close()
