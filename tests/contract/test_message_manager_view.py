"""What every view of a message manager answers, whether it is in the same process, across a bus in process, or across NATS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence, Set
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.bus.bus import NODES, Bus, InProcessBus
from holdfast.bus.message import CopyState, Heartbeat, ViewAnswered
from holdfast.channel.channel import Purpose
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.destination.settings import Settings
from holdfast.errors import HoldfastError, NoSuchDestination, NoSuchPosition
from holdfast.event.position import INDEX_BITS
from holdfast.node.clock import SystemClock
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.message_manager_view import Holding, MessageManagerView, RememberedSession, Staged
from holdfast.node.messages.local_view import LocalView
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.remote import remote_view
from holdfast.node.remote.appended_commands import AppendedCommands
from holdfast.node.remote.remote_view import RemoteView
from holdfast.node.remote.view_answers import ViewAnswers
from tests.contract.buses import MANAGER, OnNats, new_name
from tests.machines import batch_of
from tests.nats_server import NatsServer
from tests.running_server import SETTINGS
from tests.waiting import until

CLIENT = "client_manager.a1"
QUEUE = "orders"


class Company:
    """A primary with a queue, a view of it, and a channel to append to."""

    def __init__(self, manager: MessageManager, view: MessageManagerView, nodes: Bus, appended: AppendedCommands) -> None:
        self.manager = manager
        self.view = view
        self.appended = appended
        self._nodes = nodes

    async def append(self, *made: command.Command, payload: bytes = b"") -> int:
        """Append commands, as a client manager does; the entry of the last."""
        for each in made:
            data = command.encode(each, payload)
            receipt = await self.manager.channel.append(data, Purpose.UPKEEP)
            self.appended.note(data)
        return receipt.entry

    def beat(self, **beside: Any) -> None:
        """The heartbeat of the node of the primary."""
        manager = self.manager
        state = CopyState(manager.name, manager.directory.epoch, True, manager.applied, manager.channel.durable)
        self._nodes.publish(NODES, Heartbeat("n1", "start1", "", [state._replace(**beside)]))


@asynccontextmanager
async def local(server: Callable[[], NatsServer]) -> AsyncIterator[Company]:
    bus = InProcessBus()
    manager = await opened(bus)
    yield Company(manager, LocalView(manager), bus, AppendedCommands())
    await manager.stop()


@asynccontextmanager
async def across_a_bus(server: Callable[[], NatsServer]) -> AsyncIterator[Company]:
    bus, appended = InProcessBus(), AppendedCommands()
    manager = await opened(bus)
    answers, view = ViewAnswers(LocalView(manager), bus), RemoteView(MANAGER, CLIENT, bus, appended)
    company = Company(manager, view, bus, appended)
    company.beat()
    yield company
    view.stop()
    await answers.stop()
    await manager.stop()


@asynccontextmanager
async def across_nats(server: Callable[[], NatsServer]) -> AsyncIterator[Company]:
    kind, cluster, appended = OnNats(server()), new_name(), AppendedCommands()
    client, node = await kind.bus(cluster), await kind.bus(cluster)
    bus = node.manager(MANAGER)
    manager = await opened(bus)
    answers, view = ViewAnswers(LocalView(manager), bus), RemoteView(MANAGER, client.subject, client, appended)
    await client.flush()
    bus.lead(manager.directory.epoch)
    company = Company(manager, view, node, appended)
    company.beat()
    yield company
    view.stop()
    await answers.stop()
    await manager.stop()
    await client.close()
    await node.close()


async def opened(bus: Bus) -> MessageManager:
    channel = MemoryChannel()
    manager = await MessageManager.open(MANAGER, channel, bus, SystemClock(), SETTINGS, OperatorLog(channel))
    await manager.wait_until_primary()
    await channel.append(command.encode(command.Create(QUEUE, "queue")), Purpose.UPKEEP)
    await until(lambda: manager.applied == channel.durable, "the queue is there")
    return manager


VIEWS = {"local": local, "across a bus": across_a_bus, "across nats": across_nats}
REMOTE = {name: VIEWS[name] for name in ("across a bus", "across nats")}


@pytest.fixture(params=VIEWS)
def viewed(request: pytest.FixtureRequest) -> Any:
    return VIEWS[request.param](lambda: request.getfixturevalue("nats_server"))


@pytest.fixture(params=REMOTE)
def viewed_from_afar(request: pytest.FixtureRequest) -> Any:
    return REMOTE[request.param](lambda: request.getfixturevalue("nats_server"))


# --- asked and answered later ----------------------------------------------------------------------------------------


async def test_it_is_primary_when_the_state_is_known_and_tells_those_who_wait(viewed: Any) -> None:
    async with viewed as company:
        told: list[bool] = []
        company.view.when_primary(lambda: told.append(company.view.is_primary))
        await until(lambda: told, "it is told")

        company.view.when_primary(lambda: told.append(company.view.is_primary))

        assert told == [True, True]
        assert company.view.name == MANAGER


async def test_an_answer_covers_everything_that_was_receipted_before_it_was_asked(viewed: Any) -> None:
    async with viewed as company:
        told: list[int] = []
        for number in range(50):
            entry = await company.append(command.Create(f"q{number}", "queue"))

        company.view.when_caught_up(lambda: told.append(company.manager.applied))
        company.view.apply_now()
        await until(lambda: told, "it is told")

        assert told[0] >= entry


async def test_a_session_is_remembered_with_its_receivers_and_producers(viewed: Any) -> None:
    async with viewed as company:
        found: list[RememberedSession | None] = []
        await company.append(command.OpenProducer("p1", "s1"), command.Attach("s1", 3, QUEUE))

        company.view.when_caught_up(lambda: company.view.recall_session("s1", found.append))
        company.view.when_caught_up(lambda: company.view.recall_session("s2", found.append))
        await until(lambda: len(found) == 2, "both are told")

        assert found == [RememberedSession({3: (QUEUE, "")}, ["p1"]), None]


async def test_all_sessions_and_those_that_hold_a_queue_are_listed(viewed: Any) -> None:
    async with viewed as company:
        sessions: list[Set[str]] = []
        holders: list[Sequence[Holding]] = []
        await company.append(command.OpenProducer("p1", "s1"), command.Attach("s2", 1, QUEUE))

        company.view.when_caught_up(lambda: company.view.list_sessions(sessions.append))
        company.view.when_caught_up(lambda: company.view.list_holders(QUEUE, "", holders.append))
        company.view.when_caught_up(lambda: company.view.list_holders("no such queue", "", holders.append))
        await until(lambda: sessions and len(holders) == 2, "all is told")

        assert set(sessions[0]) == {"s1", "s2"}
        assert [list(each) for each in holders] == [[Holding("s2", is_away=True)], []]  # nobody has spoken for it


async def test_taking_over_is_prepared_before_it_is_answered(viewed: Any) -> None:
    async with viewed as company:
        told: list[str] = []
        await company.append(command.Attach("s1", 1, QUEUE))

        company.view.prepare_take_over(QUEUE, "", "s2", lambda: told.append("prepared"))
        await until(lambda: told, "it is told")

        assert told == ["prepared"]


async def test_a_fragment_of_a_large_event_is_read(viewed: Any) -> None:
    async with viewed as company:
        await company.append(command.OpenProducer("p1", "s1"), command.Attach("s2", 7, QUEUE))
        await company.append(command.Part("s1", "a", 1), payload=b"fragment")
        large = command.Part("s1", "a", 2, QUEUE, fragments=(1, 1), fragment_bytes=8, large_bytes=8)
        await company.append(large, payload=batch_of(1))
        entry = await company.append(command.Commit("s1", "a", 2))
        await until(lambda: company.manager.applied >= entry, "it is applied")
        position = company.manager.directory.catalog.queue(QUEUE, "").backlog.first_waiting_entry() << INDEX_BITS

        held = await company.view.read_fragment("s2", 7, position, 0)
        waiting = await company.view.read_fragment_in(QUEUE, "", position, 0)

        assert (bytes(held), bytes(waiting)) == (b"fragment", b"fragment")


async def test_a_fragment_that_is_not_there_is_refused_as_in_the_same_process(viewed: Any) -> None:
    async with viewed as company:
        with pytest.raises(HoldfastError) as found:
            await company.view.read_fragment_in("no such queue", "", 65_536, 0)
        with pytest.raises(NoSuchPosition):
            await company.view.read_fragment_in(QUEUE, "", 65_536, 0)

        assert isinstance(found.value, NoSuchDestination)


# --- answered at once, from afar -------------------------------------------------------------------------------------


async def test_kinds_are_those_that_the_primary_has_told(viewed_from_afar: Any) -> None:
    async with viewed_from_afar as company:
        view, catalog = company.view, company.manager.directory.catalog
        company.beat(destinations=catalog.version)
        await until(lambda: view.kind_of(QUEUE) == "queue", "the queue is known")
        assert view.kind_of("other") is None

        await company.append(command.Create("other", "topic", Settings(deduplicate_ms=1_000)))
        await company.append(command.Delete(QUEUE))
        company.beat(destinations=catalog.version)
        await until(lambda: view.kind_of("other") == "topic", "the topic is known")
        assert view.kind_of(QUEUE) is None
        assert [view.is_deduplicating(name) for name in (QUEUE, "other")] == [False, True]
        assert view.is_gone("_temporary.x")


async def test_what_has_changed_is_learned_before_a_heartbeat_tells_of_it(viewed_from_afar: Any) -> None:
    async with viewed_from_afar as company:
        view, told = company.view, list[str | None]()
        await company.append(command.Create("other", "topic"))
        assert view.kind_of("other") is None

        assert view.learn_destinations(lambda: told.append(view.kind_of("other")))
        await until(lambda: told == ["topic"], "the topic is known")


async def test_space_and_stages_come_from_the_heartbeats_of_the_primary(viewed_from_afar: Any) -> None:
    async with viewed_from_afar as company:
        view = company.view
        assert (view.staged(), view.waiting_in("_temporary.x")) == (Staged(0, 0, 0), 0)

        company.beat(stages=2, staged_parts=30, staged_bytes=400, temporary_waiting={"_temporary.x": 5})
        await until(lambda: view.staged().stages, "the heartbeat is heard")

        assert view.staged() == Staged(2, 30, 400)
        assert [view.waiting_in(name) for name in ("_temporary.x", "_temporary.y")] == [5, 0]


async def test_the_primary_is_unknown_when_a_newer_epoch_is_heard_of_until_its_own_heartbeat_comes(viewed_from_afar: Any) -> None:
    async with viewed_from_afar as company:
        view, told = company.view, list[Staged]()
        await until(lambda: view.is_primary, "it is heard of")

        company.beat(epoch=9, is_primary=False)
        await until(lambda: not view.is_primary, "it is deposed")
        company.beat(stages=7)  # of the deposed one
        view.when_primary(lambda: told.append(view.staged()))
        company.beat(epoch=9, stages=1)
        await until(lambda: told, "the new one is heard of")

        assert told == [Staged(1, 0, 0)]


async def test_assemblies_and_temporary_destinations_are_those_that_went_through_here(viewed_from_afar: Any) -> None:
    async with viewed_from_afar as company:
        view = company.view
        await company.append(command.OpenProducer("p1", "s1"), command.Create("_temporary.t1", "queue", session="s1"))
        await company.append(command.Part("s1", "a", 1), payload=b"12345")

        assert (view.assembly_bytes("s1", "a"), view.assembly_bytes("s1", "b")) == (5, None)
        assert (view.has_part("s1", "a", 1), view.has_part("s1", "a", 2), view.has_part("s1", "b", 1)) == (True, False, False)
        assert (view.open_assemblies("s1"), view.temporaries_of_session("s1")) == (1, 1)


async def test_the_rest_is_left_to_the_command(viewed_from_afar: Any) -> None:
    async with viewed_from_afar as company:
        view = company.view
        await company.append(command.OpenProducer("p1", "s1", is_durable=True))

        assert not view.wait_for_selectors(command.BatchCommand(QUEUE, "p1", 1), b"", lambda: None)
        assert view.find_temporary("_temporary.x") is None
        assert not view.knows_session("s1")
        assert (view.temporaries_of_user("u"), view.durable_producers_of("u"), view.has_durable_producer("p1")) == (0, 0, False)
        with pytest.raises(AssertionError, match="only where the primary is"):
            view.is_waiting(QUEUE, "", 1)


# --- when links and primaries go --------------------------------------------------------------------------------------


async def test_what_was_asked_is_answered_by_the_next_primary_once(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    client, one, two = [await kind.bus(cluster) for _ in range(3)]
    view, told = RemoteView(MANAGER, client.subject, client, AppendedCommands()), list[Set[str]]()
    one.manager(MANAGER).lead(1)  # it takes questions, and never answers
    client.reach(MANAGER)
    await until(lambda: client.links.is_open(MANAGER), "there is a link with the first")
    view.list_sessions(told.append)
    view.list_sessions(told.append)

    bus = two.manager(MANAGER)
    manager = await opened(bus)
    await manager.channel.append(command.encode(command.OpenProducer("p1", "s1")), Purpose.UPKEEP)
    answers = ViewAnswers(LocalView(manager), bus)
    bus.lead(2)
    await client.flush()
    two.publish(NODES, Heartbeat("n2", "start2", "", [CopyState(MANAGER, 2, True, 1, 1)]))
    await until(lambda: len(told) == 2, "both questions are answered")

    assert told == [{"s1"}, {"s1"}]
    client.publish(client.subject, ViewAnswered(MANAGER, 1, [], None))  # it comes once more
    await until(lambda: client.is_quiet, "it was heard")
    assert len(told) == 2
    view.stop()
    await answers.stop()
    await manager.stop()
    for each in (client, one, two):
        await each.close()


async def test_a_fragment_that_nobody_gives_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_view, "FRAGMENT_TIMEOUT_S", 0.05)
    view = RemoteView(MANAGER, CLIENT, InProcessBus(), AppendedCommands())

    with pytest.raises(HoldfastError, match="did not answer"):
        await view.read_fragment("s", 1, 65_536, 0)

    assert not view._waiting
