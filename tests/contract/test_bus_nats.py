"""What only a bus between processes meets: peers that are slow, gone or deposed, servers that end, strangers on its subjects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.bus.bus import NODES, message_manager_subject
from holdfast.bus.link.frame import BODY, decode
from holdfast.bus.link.link import GRANTS_BYTES
from holdfast.bus.message import (
    CopyState,
    Delivered,
    DeliveredSlice,
    Heartbeat,
    LinkDown,
    LinkEnded,
    LinkMade,
    NewerEpoch,
    PeerCongested,
)
from holdfast.bus.nats.connection import Connection, NatsConnection, OnData
from holdfast.bus.nats.linked_peers import MESSAGE_BYTES_MAX
from holdfast.bus.nats.nats_bus import NatsBus
from holdfast.errors import TooLarge, Unreachable
from tests import effort
from tests.contract.buses import CODEC, EPOCH, MANAGER, OnBadNetwork, OnNats, linked, new_name
from tests.nats_server import NatsServer
from tests.waiting import until

SUBJECT = message_manager_subject(MANAGER)
Kind = TypeVar("Kind")


def of(kind: type[Kind], heard: list[object]) -> list[Kind]:
    return [each for each in heard if isinstance(each, kind)]


def large(number: int, size: int = 200_000) -> Delivered:
    return Delivered(str(number), 1, [DeliveredSlice(number << 16, 1, 0, False, bytes(size))])


class HeldConnection:
    """Hands over nothing that comes while it is held, as a process does that is stopped or busy."""

    def __init__(self, connection: Connection) -> None:
        self.is_held = False
        self.published: list[bytes] = []
        self._held: list[tuple[OnData, bytes]] = []
        self._connection = connection

    def publish(self, subject: str, data: bytes) -> None:
        self.published.append(data)
        self._connection.publish(subject, data)

    def subscribe(self, subject: str, on_data: OnData) -> Callable[[], None]:
        return self._connection.subscribe(subject, lambda data: self._take(on_data, data))

    def _take(self, on_data: OnData, data: bytes) -> None:
        if self.is_held:
            self._held.append((on_data, data))
        else:
            on_data(data)

    def release(self) -> None:
        self.is_held = False
        held, self._held = self._held, []
        for on_data, data in held:
            on_data(data)

    async def flush(self) -> None:
        await self._connection.flush()

    async def close(self) -> None:
        await self._connection.close()


async def test_a_client_manager_that_takes_nothing_is_told_as_congested_and_gets_everything_when_it_goes_on(
    nats_server: NatsServer,
) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    held = HeldConnection(await kind.connect())
    slow, node = NatsBus(held, cluster, new_name(), CODEC), await kind.bus(cluster)
    other = await kind.bus(cluster)
    sides = await linked(slow, node)
    beside = await linked(other, node)
    at_manager, at_slow, at_other = list[object](), list[object](), list[object]()
    sides.manager.listen(SUBJECT, at_manager.append)
    slow.listen(slow.subject, at_slow.append)
    other.listen(other.subject, at_other.append)

    held.is_held = True
    said = [large(number) for number in range(90)]
    for message in said[:60]:
        sides.manager.publish(sides.client_subject, message)
    await until(lambda: PeerCongested(slow.subject, True) in at_manager, "the slow one is congested")
    links = node.manager(MANAGER).links
    assert links is not None and links.unacknowledged_bytes <= GRANTS_BYTES
    sides.manager.publish(beside.client_subject, LinkDown("beside"))
    await until(lambda: LinkDown("beside") in at_other, "others are served all the same")

    held.release()
    await until(lambda: PeerCongested(slow.subject, False) in at_manager, "it takes again")
    for message in said[60:]:
        sides.manager.publish(sides.client_subject, message)
    await until(lambda: len(of(Delivered, at_slow)) == len(said), "all has come")

    assert of(Delivered, at_slow) == said
    assert of(LinkMade, at_slow) == []
    for bus in (slow, other, node):
        await bus.close()


async def test_a_link_on_which_too_much_waits_is_given_up_and_both_sides_hear_of_the_next(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    held = HeldConnection(await kind.connect())
    slow, node = NatsBus(held, cluster, new_name(), CODEC), await kind.bus(cluster)
    sides = await linked(slow, node)
    at_manager, at_slow = list[object](), list[object]()
    sides.manager.listen(SUBJECT, at_manager.append)
    slow.listen(slow.subject, at_slow.append)

    held.is_held = True
    for number in range(100):
        sides.manager.publish(sides.client_subject, large(number))
    await until(lambda: of(LinkEnded, at_manager), "the link is given up")
    held.release()
    await until(lambda: of(LinkMade, at_slow) and of(LinkMade, at_manager), "both hear of the next")
    last = len(at_slow)
    sides.manager.publish(sides.client_subject, LinkDown("after"))
    await until(lambda: LinkDown("after") in at_slow, "it carries messages")

    assert at_slow[last:] == [LinkDown("after")]
    numbers = [int(each.session) for each in of(Delivered, at_slow)]
    assert numbers == list(range(len(numbers)))
    for bus in (slow, node):
        await bus.close()


async def test_a_link_outlives_the_end_of_a_server(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        kind, heard, events = OnNats(server), list[object](), list[object]()
        async with kind.open() as sides:
            sides.manager.listen(sides.manager_subject, heard.append)
            sides.client.listen(sides.client_subject, events.append)
            said = [LinkDown(str(number)) for number in range(300)]

            for number, message in enumerate(said):
                sides.client.publish(sides.manager_subject, message)
                if number == 100:
                    await until(lambda: heard, "some have come")
                    server.kill()
                elif number == 200:
                    server.start()
                await until(lambda: True, "others have a turn")
            await until(lambda: len(heard) >= len(said), "all has come")

            assert heard == said
            assert events == []


async def test_a_link_outlives_a_server_that_stands_still(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        heard, events = list[object](), list[object]()
        async with OnNats(server).open() as sides:
            sides.manager.listen(sides.manager_subject, heard.append)
            sides.client.listen(sides.client_subject, events.append)
            assert isinstance(sides.client, NatsBus) and isinstance(sides.client.endpoint.connection, NatsConnection)
            connection = sides.client.endpoint.connection

            server.pause()
            for number in range(100):
                sides.client.publish(sides.manager_subject, LinkDown(str(number)))
            await until(lambda: not connection.is_connected, "the connection is given up")
            server.resume()
            await until(lambda: len(heard) >= 100, "all has come")

            assert heard == [LinkDown(str(number)) for number in range(100)]
            assert events == []


async def test_a_new_primary_is_heard_and_the_deposed_one_is_not_and_hears_of_it(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    client, former, new = [await kind.bus(cluster) for _ in range(3)]
    sides = await linked(client, former)
    heard, at_former = list[object](), list[object]()
    client.listen(client.subject, heard.append)
    former.listen(SUBJECT, at_former.append)

    new.manager(MANAGER).lead(EPOCH + 1)
    client.learn_epoch(MANAGER, EPOCH + 1)
    sides.manager.publish(client.subject, LinkDown("of the deposed one"))
    await until(lambda: LinkMade(SUBJECT, EPOCH + 1) in heard, "the link with the new one is made")
    sides.manager.publish(client.subject, LinkDown("of the deposed one"))
    new.manager(MANAGER).publish(client.subject, LinkDown("of the new one"))
    await until(lambda: LinkDown("of the new one") in heard, "the new one is heard")
    await until(lambda: client.links.older_refused, "the deposed one was refused")
    await until(lambda: NewerEpoch(EPOCH + 1) in at_former, "the deposed one knows it")

    assert of(LinkDown, heard) == [LinkDown("of the new one")]
    assert of(LinkEnded, heard) == [LinkEnded(SUBJECT, f"epoch {EPOCH + 1} has begun")]
    for bus in (client, former, new):
        await bus.close()


async def test_a_new_primary_is_found_by_its_heartbeat_alone(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    client, former, new = [await kind.bus(cluster) for _ in range(3)]
    await linked(client, former)
    heard = list[object]()
    client.listen(client.subject, heard.append)
    new.manager(MANAGER).lead(EPOCH + 1)
    await new.flush()

    new.publish(NODES, Heartbeat("n2", "start2", "", [CopyState(MANAGER, EPOCH + 1, True, 5, 5)]))
    await until(lambda: of(LinkMade, heard), "it has a link with the new one")

    assert heard == [LinkEnded(SUBJECT, f"epoch {EPOCH + 1} has begun"), LinkMade(SUBJECT, EPOCH + 1)]
    for bus in (client, former, new):
        await bus.close()


async def test_a_client_manager_that_starts_again_hears_nothing_of_its_former_life(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    former, node = await kind.bus(cluster), await kind.bus(cluster)
    sides = await linked(former, node)
    await former.close()
    again, heard = await kind.bus(cluster), list[object]()
    again.listen(again.subject, heard.append)

    sides.manager.publish(former.subject, LinkDown("for the former one"))
    again.reach(MANAGER)
    await until(lambda: heard, "a link is made")
    sides.manager.publish(again.subject, LinkDown("for this one"))
    await until(lambda: LinkDown("for this one") in heard, "it is heard")

    assert heard == [LinkMade(SUBJECT, EPOCH), LinkDown("for this one")]
    for bus in (again, node):
        await bus.close()


async def test_in_one_process_a_client_manager_and_a_primary_talk_without_the_server(nats_server: NatsServer) -> None:
    held = HeldConnection(await OnNats(nats_server).connect())
    bus = NatsBus(held, new_name(), new_name(), CODEC)
    manager, at_manager, at_client = bus.manager(MANAGER), list[object](), list[object]()
    manager.listen(SUBJECT, at_manager.append)
    bus.listen(bus.subject, at_client.append)

    manager.lead(EPOCH)
    bus.publish(SUBJECT, LinkDown("there"))
    manager.publish(bus.subject, LinkDown("back"))
    await until(lambda: len(at_manager) == len(at_client) == 2, "both have heard")

    assert at_manager == [LinkMade(bus.subject, EPOCH), LinkDown("there")]
    assert at_client == [LinkMade(SUBJECT, EPOCH), LinkDown("back")]
    assert held.published == []
    await bus.close()


async def test_when_the_primary_of_the_same_process_resigns_its_client_manager_goes_to_the_next(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    one, two = await kind.bus(cluster), await kind.bus(cluster)
    heard = list[object]()
    one.manager(MANAGER).lead(EPOCH)
    one.listen(one.subject, heard.append)

    two.manager(MANAGER).lead(EPOCH + 1)
    one.manager(MANAGER).resign()
    await until(lambda: LinkMade(SUBJECT, EPOCH + 1) in heard, "it has a link with the next")
    two.manager(MANAGER).publish(one.subject, LinkDown("of the next"))
    one.manager(MANAGER).publish(one.subject, LinkDown("of the former"))
    await until(lambda: LinkDown("of the next") in heard, "the next is heard")

    assert of(LinkDown, heard) == [LinkDown("of the next")]
    assert one.manager(MANAGER).unsaid == 1
    for bus in (one, two):
        await bus.close()


async def test_a_link_that_is_given_up_for_a_silent_client_manager_is_made_again_when_it_speaks(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    client, node = await kind.bus(cluster), await kind.bus(cluster)
    await linked(client, node)
    heard = list[object]()
    client.listen(client.subject, heard.append)

    node.manager(MANAGER).forget(client.subject, "its receivers were revoked")
    await until(lambda: of(LinkMade, heard), "it has another one")

    assert heard == [LinkEnded(SUBJECT, "the primary has given it up"), LinkMade(SUBJECT, EPOCH)]
    for bus in (client, node):
        await bus.close()


async def test_the_part_of_a_client_manager_for_one_manager_hears_on_a_subject_of_its_own_over_the_same_link(
    nats_server: NatsServer,
) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    client, node = await kind.bus(cluster), await kind.bus(cluster)
    own, other = list[object](), list[object]()
    client.listen(f"{client.subject}.{MANAGER}", own.append)
    client.listen(f"{client.subject}.another", other.append)
    manager = node.manager(MANAGER)

    manager.lead(EPOCH)
    client.reach(MANAGER)
    await until(lambda: own, "it hears of the link")
    manager.publish(f"{client.subject}.{MANAGER}", LinkDown("for it"))
    await until(lambda: len(own) == 2, "it hears what is for it")

    assert own == [LinkMade(SUBJECT, EPOCH), LinkDown("for it")]
    assert other == []
    for bus in (client, node):
        await bus.close()


async def test_messages_of_one_turn_travel_together(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    counted = HeldConnection(await kind.connect())
    client, node = NatsBus(counted, cluster, new_name(), CODEC), await kind.bus(cluster)
    sides = await linked(client, node)
    heard = list[object]()
    sides.manager.listen(SUBJECT, heard.append)
    before = len(counted.published)

    for number in range(1_000):
        client.publish(SUBJECT, LinkDown(str(number)))
    await until(lambda: len(heard) == 1_000, "all has come")

    sent = [decode(data) for data in counted.published[before:]]
    assert len([frame for frame in sent if frame.kind == BODY]) == 1
    for bus in (client, node):
        await bus.close()


async def test_what_a_stranger_publishes_on_its_subjects_is_counted_and_passed_over(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    client, node = await kind.bus(cluster), await kind.bus(cluster)
    sides = await linked(client, node)
    heard = list[object]()
    client.listen(client.subject, heard.append)
    stranger = await kind.connect()

    for data in (b"", b"hello", b"\x01", b"\x01\x93\x01\x02\x03", b"\x7f"):
        stranger.publish(client.endpoint.subjects.of_client(client.endpoint.start), data)
    await stranger.flush()
    await until(lambda: client.endpoint.bad_frames == 5, "all are counted")
    sides.manager.publish(client.subject, LinkDown("after"))
    await until(lambda: heard, "the link stands")

    assert heard == [LinkDown("after")]
    assert len([record for record in caplog.records if "passed over" in record.getMessage()]) == 5
    for each in (stranger, client, node):
        await each.close()


async def test_a_message_that_no_listener_could_take_is_refused_where_it_is_published(nats_server: NatsServer) -> None:
    async with OnNats(nats_server).open() as sides:
        with pytest.raises(TooLarge, match="too large for the bus"):
            sides.manager.publish(sides.client_subject, large(1, MESSAGE_BYTES_MAX))


async def test_a_cluster_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(Unreachable, match=r"no server of the cluster at nats://127\.0\.0\.1:1 can be reached"):
        await NatsConnection.open(["nats://127.0.0.1:1"], timeout_s=0.5)


@pytest.mark.parametrize("seed", effort.cases([1, 2], long=range(3, 40)))
async def test_on_a_bad_network_everything_comes_once_and_in_order_both_ways(nats_server: NatsServer, seed: int) -> None:
    async with OnBadNetwork(nats_server, seed).open() as sides:
        at_manager, at_client = list[object](), list[object]()
        sides.manager.listen(sides.manager_subject, at_manager.append)
        sides.client.listen(sides.client_subject, at_client.append)
        asked = [LinkDown(str(number)) for number in range(400)]
        delivered = [large(number, 20_000) for number in range(400)]

        for question, delivery in zip(asked, delivered, strict=True):
            sides.client.publish(sides.manager_subject, question)
            sides.manager.publish(sides.client_subject, delivery)
            if int(question.session) % 20 == 0:
                await until(lambda: True, "others have a turn")
        await until(lambda: len(of(LinkDown, at_manager)) >= 400 and len(of(Delivered, at_client)) >= 400, "all has come")

        assert of(LinkMade, at_manager) == of(LinkMade, at_client) == []
        assert (of(LinkDown, at_manager), of(Delivered, at_client)) == (asked, delivered)
