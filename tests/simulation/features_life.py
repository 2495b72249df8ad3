"""A node's life that uses every feature, on a simulated disk, and the life after it that finds out what is left.

live     transactions over two queues and a topic; groups; priorities; large events, one broken off; delays; a selector; a
         pattern; a subscription made like another, one taken over, one removed past its limit; a queue
         purged; dead events sent again.
         Everything that the program was told goes to the checkers.
check    after a crash: the replayed state is that of a replica; then everything is received and confirmed; then no space is
         needed any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import holdfast
from holdfast.channel.channel import Channel
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.node.identity import Identity
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.simulation.checkers.account import Account
from holdfast.simulation.checkers.free_space import still_needed
from holdfast.simulation.checkers.group_order import GroupOrder
from holdfast.simulation.checkers.large_events import LargeEvents
from holdfast.simulation.checkers.replica import Replica
from holdfast.simulation.checkers.transfers import Transfers
from holdfast.simulation.simulated_disk import SimulatedDisk
from tests.client_of import client_of
from tests.simulation.test_node_crash_at_every_write import FOLDER, JOURNAL, KIB

SETTINGS = NodeSettings(journal=JOURNAL, start_grace_ms=1, session_grace_ms=20, snapshot_bytes=6 * KIB)
# So that a large event of some fragments fits the small journal.
FRAGMENT_BYTES = 2_000
CONTENT = hashlib.shake_128(b"content").digest(5_000)
SELECTOR = "level > 5"
# Those that keep the order of their one producer; the others go by priority, by group, or when their time has come.
IN_ORDER = ("pager", "all", "copy")
AUDIENCES = (*IN_ORDER, "ranked", "later", "sick")
# Of a node whose disk fails nothing is waited for; of any other as long as a busy machine may need.
TIMEOUT_S = 0.3
PATIENCE_S = 20.0
REMOVAL_LOOKS = 50

Before = Callable[[Node], Awaitable[None]]


class Story:
    """What the program did and was told, for every promise."""

    def __init__(self) -> None:
        self.account = Account(*AUDIENCES, "grouped")
        self.transfers = Transfers("in", "out", "audit")
        self.groups = GroupOrder()
        self.contents = LargeEvents()
        self.replica = Replica()
        self.is_purged = False
        self.is_over = False

    @contextlib.contextmanager
    def sending(self, audience: str, number: int, *meant: str) -> Iterator[None]:
        self.account.sent(audience, number)
        yield
        self.account.accepted(audience, number, *(meant or (audience,)))


@contextlib.asynccontextmanager
async def opened(disk: SimulatedDisk, before_claim: Before | None = None) -> AsyncIterator[tuple[Node, holdfast.Client]]:
    """A node on this disk, and its only client."""
    channel = await JournalChannel.open(FOLDER, JOURNAL, disk=disk)
    made: asyncio.Future[Node] = asyncio.get_running_loop().create_future()

    async def before(_: Channel) -> None:
        if before_claim is not None:
            await before_claim(await made)

    node = await Node.over(channel, Identity.in_memory(), SETTINGS, before_claim=before)
    made.set_result(node)
    client = await client_of(node, timeout=PATIENCE_S if disk.cut_at is None else TIMEOUT_S).open()
    try:
        yield node, client
    finally:
        await client.close()


async def live(disk: SimulatedDisk, story: Story) -> None:
    async with opened(disk) as (node, client):
        following = asyncio.create_task(story.replica.follow(node.channel))
        try:
            await use_everything(client, story)
            story.is_over = True
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def use_everything(client: holdfast.Client, story: Story) -> None:
    await subscribe(client)
    await send_plain(client, story)
    await copy_and_take_over(client, story)
    await remove_past_limit(client)
    await purge(client, story)
    await move(client, story)
    await send_groups(client, story)
    await send_large(client, story)
    await bury_and_replay(client, story)


async def subscribe(client: holdfast.Client) -> None:
    await client.create_subscription("alerts.*", "all")
    await client.create_topic("alerts.eu")
    await client.create_subscription("alerts.eu", "pager", selector=SELECTOR)
    await client.create_topic("audit")
    await client.create_subscription("audit", "audit")


async def send_plain(client: holdfast.Client, story: Story) -> None:
    for number, level in enumerate((1, 7, 9), 1):
        story.account.sent("alerts", number)
        await client.topic("alerts.eu").send(number, properties={"level": level})
        story.account.accepted("alerts", number, *(("pager", "all") if level > 5 else ("all",)))
    for number, priority in enumerate((4, 1, 8, 4), 1):
        with story.sending("ranked", number):
            await client.queue("ranked").send(number, priority=priority)
    for number, delay_ms in enumerate((0, 15, 1), 1):
        with story.sending("later", number):
            await client.queue("later").send(number, delay_ms=delay_ms)


async def copy_and_take_over(client: holdfast.Client, story: Story) -> None:
    """One subscription is made like another; one receiver takes over from another, which held everything."""
    await client.create_subscription("alerts.eu", "copy", like="pager")
    for number in (2, 3):
        story.account.accepted("alerts", number, *IN_ORDER)
    async with client.session() as former, client.session() as again:
        await (await former.subscribe("alerts.*", "all").open()).next()
        async with again.subscribe("alerts.*", "all", take_over=True) as incoming:
            event = await incoming.next()
            story.account.delivered("all", "first life", "alerts", event.data)
            await event.confirm()
            await incoming.settled()
            story.account.settled("all", "alerts", event.data)


async def remove_past_limit(client: holdfast.Client) -> None:
    """A subscription that nobody receives from passes its limit, and is gone soon; with a disk that fails, perhaps not."""
    await client.create_topic("ticks")
    await client.create_subscription("ticks", "away", remove_after_events=2)
    await client.topic("ticks").send_many(range(3))
    for _ in range(REMOVAL_LOOKS):
        if not await client.subscriptions("ticks"):
            return


async def purge(client: holdfast.Client, story: Story) -> None:
    """A queue is purged, with a large event in it; what was purged never comes back, and needs no space."""
    await client.queue("junk").send_many(range(2))
    await client.queue("junk").send_stream(CONTENT, properties={"name": "junk"})
    assert await client.purge("junk") == 3
    story.is_purged = True


async def move(client: holdfast.Client, story: Story) -> None:
    """Three are moved from one queue to another and a topic, all or nothing; the fourth is begun and rolled back."""
    story.transfers.sending(*range(4))
    await client.queue("in").send_many(range(4))
    story.transfers.sent(*range(4))
    async with client.queue("in").receive(credit=1) as incoming:
        for _ in range(3):
            event = await incoming.next()
            async with client.transaction() as tx:
                await move_in(tx, event)
            story.transfers.commit(event.data)
        event = await incoming.next()
        tx = client.transaction()
        await move_in(tx, event)
        await tx.rollback()
        story.transfers.rolled_back(event.data)


async def move_in(tx: Any, event: ReceivedEvent) -> None:
    await tx.queue("out").send(event.data, priority=event.data)
    await tx.queue("out.large").send_stream(CONTENT, properties={"name": f"moved-{event.data}"})
    await tx.topic("audit").send(event.data)
    await tx.confirm(event)


async def send_groups(client: holdfast.Client, story: Story) -> None:
    """Nine events of three groups; four are confirmed by two recipients."""
    for number in range(1, 10):
        story.account.sent("grouped", number)
    await client.queue("grouped").send_many([holdfast.Event(data=number, group=f"g{number % 3}") for number in range(1, 10)])
    for number in range(1, 10):
        story.account.accepted("grouped", number, "grouped")
    async with client.queue("grouped").receive(credit=2) as first, client.queue("grouped").receive(credit=2) as second:
        for _ in range(2):
            await work(first, "first", story)
            await work(second, "second", story)


async def work(incoming: Incoming, recipient: str, story: Story) -> None:
    event = await incoming.next()
    note_group(story, recipient, event.data)
    await event.confirm()
    await incoming.settled()
    story.account.settled("grouped", "grouped", event.data)
    story.groups.done(event.data % 3, recipient)


def note_group(story: Story, recipient: str, number: int) -> None:
    # What is first of three groups may be third of all: each recipient's order is that of its groups, not of the producer.
    story.account.delivered("grouped", (recipient, number), "grouped", number)
    story.groups.handed(number % 3, recipient, number)


async def send_large(client: holdfast.Client, story: Story) -> None:
    story.contents.sending("whole", CONTENT)
    await client.queue("large").send_stream(CONTENT, properties={"name": "whole"})
    story.contents.accepted("whole")

    def broken() -> Iterator[bytes]:
        yield CONTENT
        raise OSError("the source is gone")

    story.contents.sending("broken", CONTENT)
    with contextlib.suppress(OSError):
        await client.queue("large").send_stream(broken(), properties={"name": "broken"})
    story.contents.given_up("broken")


async def bury_and_replay(client: holdfast.Client, story: Story) -> None:
    async with client.queue("sick").receive() as incoming:
        for number in (1, 2):
            with story.sending("sick", number):
                await client.queue("sick").send(number)
            await (await incoming.next()).reject("not today")
        await incoming.settled()
    await client.dead.replay(everything=True)


# --- the life after it -----------------------------------------------------------------------------------------------


async def check(disk: SimulatedDisk, story: Story) -> None:
    story.groups.all_gone()
    problems: list[str] = []

    async def compare(node: Node) -> None:
        problems.extend(await differences(node, story.replica))

    async with opened(disk, compare) as (node, client):
        await node.messages.wait_until_primary()
        with contextlib.suppress(holdfast.errors.NoSuchDestination):  # the crash came before it was made
            await client.dead.replay(everything=True)
        await removed(node, client)
        taken = {key: [event async for event in everything(node, client, key)] for key in waiting(node)}
        await forgotten(node, client)
        problems += judged(story, taken)
        problems += still_needed(node.messages.directory)
    assert not problems, "; ".join(problems)


async def differences(node: Node, replica: Replica) -> list[str]:
    """How the state before the claim, replayed from a snapshot, differs from that of a replica that never saw one."""
    tail = node.channel.durable
    if tail < replica.newest:
        return [f"entry {replica.newest} was durable, and {tail} is the newest that is left"]
    await replica.follow(node.channel, tail)
    await node.messages.until_applied(tail)
    is_same = node.messages.directory.digest() == replica.state_at(tail).digest()
    return [] if is_same else [f"the state replayed up to entry {tail} is not that of a replica"]


async def removed(node: Node, client: holdfast.Client) -> None:
    """Return when the subscription past its limit is gone: the second life removes it too. One within its limit is deleted."""
    async with asyncio.timeout(5):
        while (found := node.messages.directory.catalog.queues.get(("ticks", "away"))) and found.backlog.waiting > 2:
            await client.status()
    await client.delete_subscription("ticks", "away", force=True, missing_ok=True)


def waiting(node: Node) -> list[tuple[str, str]]:
    return [key for key, backlog in node.messages.directory.backlogs().items() if backlog.waiting]


async def everything(node: Node, client: holdfast.Client, key: tuple[str, str]) -> AsyncIterator[tuple[str, int, Any]]:
    """Everything that waits in a backlog, confirmed: (audience, priority, data), the content in place of a large event's data."""
    topic = key[0].removeprefix("glob:")
    source = client.subscribe(topic, key[1], selector=SELECTOR if key[1] in ("pager", "copy") else None) if key[1] else None
    async with source or client.queue(key[0]).receive() as incoming:
        while node.messages.directory.backlog(key).waiting:
            event = await incoming.next(5)
            yield key[1] or key[0], event.priority, await content_of(event)
            await event.confirm()
            await incoming.settled()


async def content_of(event: ReceivedEvent) -> Any:
    if not event.is_large:
        return event.data
    async with event.open_stream() as stream:
        return event.properties["name"], await stream.read()


async def forgotten(node: Node, client: holdfast.Client) -> None:
    """Return when the sessions of the former life are given up, and the clients' own questions answered."""
    async with asyncio.timeout(5):
        while len([each for each in node.messages.directory.sessions() if not each.startswith("_")]) > 1:
            await client.status()


def judged(story: Story, taken: dict[tuple[str, str], list[tuple[str, int, Any]]]) -> list[str]:
    """Which promises are broken by what was found."""
    found: dict[str, list[Any]] = {place: [] for place in ("in", "out", "audit", "out.large")}
    problems = []
    for (destination, _), events in taken.items():
        priorities = [priority for audience, priority, _ in events if audience in ("ranked", "out")]
        if priorities != sorted(priorities, reverse=True):
            problems.append(f"{destination}: priorities come as {priorities}")
        for audience, _, data in events:
            if audience in found:
                found[audience].append(data)
            elif audience == "junk":
                problems += ["what was purged came back"] if story.is_purged else []
            elif audience == "large":
                story.contents.read(*data)
            elif audience == "grouped":
                note_group(story, "second life", data)
                story.groups.done(data % 3, "second life")
            else:
                producer = "alerts" if audience in IN_ORDER else audience
                recipient = "second life" if audience in IN_ORDER else data
                story.account.delivered(audience, recipient, producer, data)
    moved = found.pop("out.large")
    if sorted(moved) != sorted((f"moved-{number}", CONTENT) for number in found["out"]):
        problems.append(f"{len(moved)} large events were moved with {len(found['out'])} small ones, or harmed")
    problems += story.transfers.broken(found) + story.groups.problems + story.contents.broken()
    verdict = story.account.verdict()
    return problems if verdict.is_kept else [*problems, str(verdict)]
