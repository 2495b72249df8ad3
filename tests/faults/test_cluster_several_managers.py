"""Two message managers with a backup each, over three nodes that are processes: a primary is killed, and both go on (B2, B15)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.errors import DestinationExists, Detached, NoSuchDestination, NotEmpty
from tests import effort
from tests.cluster_processes import ClusterProcesses
from tests.command import run_holdfast
from tests.nats_server import NatsCluster, forgotten_sockets
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]

MANAGERS = {"m1": ("a", "b"), "m2": ("b", "c")}
QUEUES = ("orders", "invoices")


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, nats: NatsCluster) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("nodes")
    with ClusterProcesses(folder, nats.servers, ("a", "b", "c"), managers=MANAGERS) as running:
        yield running


def at(cluster: ClusterProcesses, node: str) -> str:
    return str(cluster.nodes[node].url)


async def test_administration_by_events_is_carried_out_at_all_managers(cluster: ClusterProcesses) -> None:
    async with holdfast.connect(at(cluster, "c"), timeout=60) as client:
        admin = client.queue("_ADMIN")

        async def ask(action: str, **arguments: object) -> Any:
            return (await admin.request(arguments, type=f"holdfast.admin.{action}", timeout=30)).data

        for name in ("by-event.1", "by-event.2", "by-event.3"):
            assert "error" not in await ask("create", name=name, kind="topic")
        assert "error" not in await ask("subscribe", topic="by-event.*", match="glob", name="all")
        channels = {(await client.topic(f"by-event.{number}").send(number)).channel for number in (1, 2, 3)}
        assert channels == {"m1", "m2"}

        assert [each["name"] for each in (await ask("status"))["value"]["managers"]] == ["m1", "m2"]
        (row,) = (await ask("subscriptions", topic="by-event.*", match="glob"))["value"]
        assert row["waiting"] == 3
        assert (await ask("unsubscribe", topic="by-event.*", match="glob", name="all"))["error"] == "not-empty"
        await ask("unsubscribe", topic="by-event.*", match="glob", name="all", force=True)
        for name in ("by-event.1", "by-event.2", "by-event.3"):
            assert "error" not in await ask("delete", name=name)
        assert [row for row in await client.destinations() if row["name"].startswith("by-event")] == []


async def test_a_pattern_misses_nothing_of_topics_that_other_nodes_create(cluster: ClusterProcesses) -> None:
    """B15: a topic that is created once the subscription is there, at any node and manager, is heard from its first event."""
    topics = 24
    seen: list[tuple[str, int]] = []
    async with (
        holdfast.connect(at(cluster, "a"), timeout=60) as recipient,
        holdfast.connect(at(cluster, "b"), timeout=60) as one,
        holdfast.connect(at(cluster, "c"), timeout=60) as other,
        recipient.subscribe("plant.*", "all") as incoming,
    ):

        async def use(client: holdfast.Client, number: int) -> str:
            receipts = [await client.topic(f"plant.{number}").send(index) for index in range(3)]
            return str(receipts[0].channel)

        creating = asyncio.gather(*(use((one, other)[number % 2], number) for number in range(topics)))
        for _ in range(3 * topics):
            event = await incoming.next(timeout=30)
            seen.append((event.destination, event.data))
            await event.confirm()
        assert set(await creating) == {"m1", "m2"}

    assert sorted(seen) == sorted((f"plant.{number}", index) for number in range(topics) for index in range(3))
    for number in range(topics):
        assert [index for name, index in seen if name == f"plant.{number}"] == [0, 1, 2]


async def test_a_name_is_created_deleted_and_created_again_at_different_nodes(cluster: ClusterProcesses) -> None:
    """Rule 9: each node knows at once what another has done, and a name is created once."""
    async with (
        holdfast.connect(at(cluster, "a"), timeout=60) as one,
        holdfast.connect(at(cluster, "b"), timeout=60) as other,
        holdfast.connect(at(cluster, "c"), timeout=60) as third,
    ):
        for number in range(6):
            name = f"short-lived.{number % 3}"
            made = await asyncio.gather(*(each.create_queue(name) for each in (one, other, third)), return_exceptions=True)
            assert [type(each) for each in made].count(DestinationExists) == 2, made
            await one.queue(name).send(number)
            with pytest.raises(NotEmpty):
                await other.delete(name)
            async with third.queue(name).receive() as incoming:
                event = await incoming.next(timeout=30)
                assert event.data == number
                await event.confirm()
            await other.delete(name)
            with pytest.raises(NoSuchDestination):
                await third.delete(name)


async def test_all_copies_are_equal_under_load_at_whichever_node_it_is_asked(cluster: ClusterProcesses) -> None:
    """Issue 15: backups are equal to their primary, by digest, at an entry."""
    stop = asyncio.Event()
    seen: list[str] = []
    topics = [f"checked.{number}" for number in range(6)]

    async def send(client: holdfast.Client) -> None:
        number = 0
        while not stop.is_set():
            async with client.transaction() as transaction:
                for topic in topics:
                    await transaction.topic(topic).send(number)
            await client.queue(f"unread.{number % 4}").send(number)
            number += 1

    async def receive(incoming: holdfast.Receiver) -> None:
        async for event in incoming:
            seen.append(event.destination)
            await event.confirm()

    async with (
        holdfast.connect(at(cluster, "a"), timeout=60) as one,
        holdfast.connect(at(cluster, "c"), timeout=60) as other,
        other.subscribe("checked.*", "checker") as incoming,
    ):
        assert {(await one.topic(topic).send(0)).channel for topic in topics} == {"m1", "m2"}
        working = [asyncio.create_task(send(one)), asyncio.create_task(receive(incoming))]
        for node in "abc":
            before = len(seen)
            done = await asyncio.to_thread(run_holdfast, "cluster", "check", "--url", at(cluster, node), "--json")
            told = msgspec.json.decode(done.stdout)

            assert (done.returncode, told["is_equal"], told["is_complete"]) == (0, True, True), told
            assert {each["name"]: {copy["node"] for copy in each["copies"]} for each in told["managers"]} == {
                "m1": {"a", "b"},
                "m2": {"b", "c"},
            }
            for each in told["managers"]:
                assert len({copy["digest"] for copy in each["copies"]}) == 1
            await until(lambda before=before: len(seen) > before + 20, "events flow")  # type: ignore[misc]
        shown = await asyncio.to_thread(run_holdfast, "cluster", "check", "--url", cluster.url)
        assert "differ: none" in shown.stdout and "did not answer: none" in shown.stdout
        stop.set()
        await working[0]
        working[1].cancel()
        await asyncio.gather(working[1], return_exceptions=True)


async def test_a_queue_that_is_deleted_under_load_closes_receivers_at_both_nodes_with_a_reason(cluster: ClusterProcesses) -> None:
    """B24."""
    stop = asyncio.Event()
    seen: dict[str, int] = {"a": 0, "c": 0}

    async def send(client: holdfast.Client) -> int:
        """Send before and after: the queue comes into being again, and has no receivers."""
        sent = 0
        while not stop.is_set():
            await client.queue("condemned").send(sent)
            sent += 1
        return sent

    async def receive(node: str) -> None:
        async with (
            holdfast.connect(at(cluster, node), timeout=60) as client,
            client.queue("condemned").receive(credit=4) as incoming,
        ):
            async for event in incoming:
                seen[node] += 1
                await event.confirm()

    async with holdfast.connect(at(cluster, "b"), timeout=60) as client:
        await client.create_queue("condemned")
        receiving = [asyncio.create_task(receive(node)) for node in seen]
        sending = asyncio.create_task(send(client))
        working = [sending, *receiving]
        await until(lambda: all(seen[node] > 20 for node in seen) or any(task.done() for task in working), "both receive")
        await client.delete("condemned", force=True)
        await asyncio.wait(receiving, timeout=30)
        stop.set()
        assert await sending >= sum(seen.values())
        for task in receiving:
            with pytest.raises(Detached, match="receiving from 'condemned' ended: destination deleted"):
                await asyncio.wait_for(task, 1)


async def primaries(client: holdfast.Client) -> dict[str, str | None]:
    return {each["name"]: each["primary"] for each in (await client.cluster_status())["managers"]}


async def test_a_primary_is_killed_and_events_of_both_managers_go_on(cluster: ClusterProcesses) -> None:
    rounds = effort.rounds(short=1, long=12)
    stop = asyncio.Event()
    receipted: dict[str, list[int]] = {queue: [] for queue in QUEUES}
    seen: dict[str, list[tuple[int, bool]]] = {queue: [] for queue in QUEUES}

    async def send(client: holdfast.Client, queue: str) -> None:
        number = 0
        while not stop.is_set():
            await client.queue(queue).send(number, timeout=60)
            receipted[queue].append(number)
            number += 1

    async def receive(client: holdfast.Client, queue: str) -> None:
        async with client.queue(queue).receive() as incoming:
            async for event in incoming:
                seen[queue].append((event.data, event.redelivered))
                await event.confirm()

    async with holdfast.connect(cluster.url, timeout=60) as producer, holdfast.connect(cluster.url, timeout=60) as recipient:
        for queue in QUEUES:
            await producer.create_queue(queue)
        assert {(await producer.describe(queue))["name"] for queue in QUEUES} == set(QUEUES)
        sending = [asyncio.create_task(send(producer, queue)) for queue in QUEUES]
        receiving = [asyncio.create_task(receive(recipient, queue)) for queue in QUEUES]
        await until(lambda: all(len(each) > 10 for each in seen.values()), "events of both managers flow")
        for number in range(rounds):
            manager = ("m1", "m2")[number % 2]
            name = (await primaries(producer))[manager]
            assert name is not None
            cluster.nodes[name].kill()
            before = {queue: len(each) for queue, each in seen.items()}
            await until(
                lambda before=before: all(len(seen[queue]) > before[queue] + 20 for queue in QUEUES),  # type: ignore[misc]
                f"events of both managers flow again, although the primary of {manager} is dead",
            )
            await asyncio.to_thread(cluster.nodes[name].start)
        stop.set()
        await asyncio.gather(*sending)
        for queue in QUEUES:
            await until(
                lambda queue=queue: {number for number, _ in seen[queue]} >= set(receipted[queue]),  # type: ignore[misc]
                f"everything receipted is received from {queue}",
            )
        for task in receiving:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        async def all_answer() -> bool:
            told = await producer.cluster_check()
            assert told["is_equal"], told
            return told["is_complete"]

        await until(all_answer, "copies that were opened again are there, and equal to the others")

    for queue in QUEUES:
        fresh = [number for number, is_redelivered in seen[queue] if not is_redelivered]
        assert fresh == sorted(set(fresh))
        assert {number for number, _ in seen[queue]} == set(receipted[queue])
