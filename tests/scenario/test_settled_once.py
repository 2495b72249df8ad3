"""An event is settled by one recipient (rule 4): the first verdict on it counts, and whoever comes second is told which it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.checks import ConfirmMode
from holdfast.client.client_session import ClientSession
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.destination.command import Confirm, Reject, Release
from holdfast.errors import AlreadyFinished, LinkLost, TimedOut, TransactionAborted
from holdfast.event.position import Ranges
from holdfast.wire.frame import Attach, Deliver, Settle
from tests.contract.places import CuttingProxy
from tests.raw_client import RawClient, fill
from tests.running_server import PATIENT, RunningServer, running, start
from tests.waiting import until

# --- away for a while ------------------------------------------------------------------------------------------------


async def taken(incoming: Incoming, count: int) -> list[ReceivedEvent]:
    return [await incoming.next(timeout=10) for _ in range(count)]


async def test_what_was_held_when_an_embedded_program_died_is_handed_out_at_once_when_its_folder_is_opened(
    tmp_path: Path,
) -> None:
    """Nobody who received before can come back: there is nothing to wait for."""
    server = await start(tmp_path / "data", PATIENT)
    await fill(server.node, 1)
    program = RawClient(server.node)
    await program.greet()
    await program.receive()
    await program.hear(Deliver)
    await server.crash()

    query = "?journal_size=3M&segment_size=128K&reserve=128K"
    async with holdfast.connect(f"file:{tmp_path / 'data'}{query}") as client, client.queue("q").receive() as incoming:
        assert (await incoming.next(timeout=60)).data == b"x"


async def test_who_released_an_event_and_has_it_again_when_the_server_is_killed_keeps_it(tmp_path: Path) -> None:
    server = await start(tmp_path / "data", PATIENT)
    async with holdfast.connect(server.url) as first, holdfast.connect(server.url) as other:
        await first.queue("q").send("x")
        async with first.queue("q").receive() as incoming:
            await (await incoming.next(timeout=10)).release(delay=0)
            event = await incoming.next(timeout=10)
            await incoming.settled()
            port = server.port
            await server.crash()
            server = await start(tmp_path / "data", PATIENT, port)
            try:
                async with other.queue("q").receive() as beside:
                    await event.confirm()
                    await incoming.settled()
                    with pytest.raises(TimedOut):
                        await beside.next(timeout=0.2)
            finally:
                await incoming.close()
                await first.close()
                await other.close()
                await server.close()


async def test_a_receiver_that_does_not_come_back_with_its_session_is_given_up_and_holds_nothing_afterwards(
    tmp_path: Path,
) -> None:
    server = await start(tmp_path / "data")
    await fill(server.node, 3)
    first = RawClient(server.node)
    await first.greet()
    await first.receive()
    [handed] = await first.hear(Deliver)
    await server.crash()
    again = await start(tmp_path / "data")
    try:
        back, other = RawClient(again.node), RawClient(again.node)
        assert (await back.greet(first.session)).is_resumed
        await other.greet()
        await other.receive()
        await other.hear(Deliver)

        held = Ranges.gather((each.first, each.first) for each in handed.slices)
        answer = await back.ask(Attach, 1, "q", "queue", "", held.to_bytes())
        assert Ranges.from_bytes(answer.value["lost"]) == held
    finally:
        await again.close()


async def test_a_queue_that_is_deleted_while_its_receivers_are_waited_for_and_made_anew_waits_for_nobody(tmp_path: Path) -> None:
    server = await start(tmp_path / "data", PATIENT)
    await fill(server.node, 1)
    former = RawClient(server.node)
    await former.greet()
    await former.receive()
    await server.crash()

    again = await start(tmp_path / "data", PATIENT)
    try:
        async with holdfast.connect(again.url) as client:
            await client.delete("q", force=True)
            await client.queue("q").send("new")
            async with client.queue("q").receive() as incoming:
                assert (await incoming.next(timeout=60)).data == "new"
    finally:
        await again.close()


# --- somebody else was first -----------------------------------------------------------------------------------------


@asynccontextmanager
async def held(
    tmp_path: Path, confirm: ConfirmMode = "event", place: str = "queue", credit: int = 100
) -> AsyncIterator[tuple[RunningServer, CuttingProxy, ClientSession, Incoming, RawClient]]:
    """A recipient that holds ten events of one batch, and a rival that knows where they are."""
    async with (
        running(tmp_path / "data", PATIENT) as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url) as client,
        client.session(confirm=confirm) as session,
    ):
        rival = RawClient(server.node)
        await rival.greet()
        if place == "queue":
            async with session.queue("q").receive(credit=credit) as incoming:
                await rival.ask(Attach, 1, "q", "queue")
                await client.queue("q").send_many(range(10))
                yield server, proxy, session, incoming, rival
        else:
            async with session.topic("t").subscribe("s", shared=True, credit=credit) as incoming:
                await rival.ask(Attach, 1, "t", "topic", "s", b"", "", "name", True, True)
                await client.topic("t").send_many(range(10))
                yield server, proxy, session, incoming, rival


async def finish(rival: RawClient, *events: ReceivedEvent, count: int = 1) -> None:
    """The rival has finished these, and so many after each."""
    ranges = Ranges.gather((event.position, event.position + count - 1) for event in events)
    answer = await rival.ask(Settle, 1, "confirm", ranges.to_bytes())
    assert answer.value == ranges.count


def refused(problem: pytest.ExceptionInfo[AlreadyFinished]) -> list[int]:
    fields: dict[str, Any] = problem.value.fields
    found = [each for first, last in fields["positions"] for each in range(first, last + 1)]
    assert len(found) == fields["events"]
    return found


@pytest.mark.parametrize("place", ["queue", "shared subscription"])
@pytest.mark.parametrize("verdict", ["confirm", "release", "reject"])
async def test_a_verdict_on_what_another_has_finished_is_refused_by_event_and_the_others_count(
    tmp_path: Path, place: str, verdict: str
) -> None:
    async with held(tmp_path, place=place) as (server, _, _, incoming, rival):
        events = await taken(incoming, 6)
        await finish(rival, events[1], events[4])

        for event in events:
            await (event.reject("no") if verdict == "reject" else getattr(event, verdict)())
        with pytest.raises(AlreadyFinished, match=f"2 events of '.'.*{events[1].position}, {events[4].position}") as problem:
            await incoming.settled()

        assert refused(problem) == [events[1].position, events[4].position]
        await incoming.settled()
        left = {"confirm": 4, "release": 8, "reject": 4}[verdict]
        assert server.node.messages.directory.backlog(("q", "") if place == "queue" else ("t", "s")).waiting == left


@pytest.mark.parametrize("confirm", ["auto", "duplicates-ok", "client"])
async def test_leaving_a_receiver_that_confirms_by_itself_names_what_another_had_finished(
    tmp_path: Path, confirm: ConfirmMode
) -> None:
    async with held(tmp_path, confirm) as (_, _, _, incoming, rival):
        events = await taken(incoming, 5)
        await finish(rival, events[2])
        if confirm == "client":
            await events[4].confirm()

        with pytest.raises(AlreadyFinished) as problem:
            await incoming.close()

        assert refused(problem) == [events[2].position]


async def test_a_transaction_that_confirms_what_another_has_finished_says_which(tmp_path: Path) -> None:
    async with held(tmp_path) as (_, _, session, incoming, rival):
        events = await taken(incoming, 3)
        await finish(rival, events[1])
        transaction = session.transaction()
        for event in events:
            await transaction.confirm(event)

        with pytest.raises(TransactionAborted, match=f"1 of the events.*position {events[1].position}"):
            await transaction.commit()
        await incoming.settled()


async def test_what_was_only_released_by_leaving_is_nobodys_verdict_and_not_complained_of(tmp_path: Path) -> None:
    async with held(tmp_path) as (_, _, _, incoming, rival):
        events = await taken(incoming, 3)
        await finish(rival, *events)

        await incoming.close()


async def test_who_wins_the_race_has_settled_and_the_one_that_held_it_hears(tmp_path: Path) -> None:
    """Both were handed it, one after the other: the first verdict in the order of the channel counts."""
    async with held(tmp_path) as (_, _, _, incoming, rival):
        [event] = await taken(incoming, 1)
        await event.confirm()
        await incoming.settled()

        where = Ranges.of((event.position, event.position)).to_bytes()
        answer = await rival.ask(Settle, 1, "confirm", where, number=1, events=1)
        assert [bytes(each) for each in answer.value] == [b""]


# --- coming back -----------------------------------------------------------------------------------------------------


async def come_back(proxy: CuttingProxy, incoming: Incoming) -> None:
    session = incoming._receiver.session
    proxy.is_refusing = False
    await session.until_ready(asyncio.get_running_loop().time() + 10)


async def go_away(proxy: CuttingProxy, incoming: Incoming) -> None:
    proxy.is_refusing = True
    proxy.cut()
    await until(lambda: not incoming._receiver.session.is_ready, "the link is lost")


@pytest.mark.parametrize("place", ["queue", "shared subscription"])
async def test_on_coming_back_what_others_have_finished_is_not_handed_out_and_the_rest_is(tmp_path: Path, place: str) -> None:
    async with held(tmp_path, place=place) as (_, proxy, _, incoming, rival):
        events = await taken(incoming, 3)
        await until(lambda: len(list(incoming._receiver.held.ranges())) == 1, "all ten are held")
        await go_away(proxy, incoming)
        await finish(rival, events[2], count=3)  # 2, 3, 4
        await finish(rival, events[0])
        await come_back(proxy, incoming)

        rest = await taken(incoming, 5)
        with pytest.raises(TimedOut):
            await incoming.next(timeout=0.05)
        assert [event.data for event in rest] == [5, 6, 7, 8, 9]
        for event in (*events, *rest):
            await event.confirm()
        with pytest.raises(AlreadyFinished) as problem:
            await incoming.settled()
        assert refused(problem) == [events[0].position, events[2].position]


async def test_in_the_blocking_client_too(tmp_path: Path) -> None:
    async with running(tmp_path / "data", PATIENT) as server, CuttingProxy(server.port) as proxy:
        rival = RawClient(server.node)
        await rival.greet()
        await rival.ask(Attach, 1, "q", "queue")
        goes_on, loop = asyncio.Event(), asyncio.get_running_loop()

        def program() -> list[Any]:
            with holdfast.blocking.connect(proxy.url) as client, client.queue("q").receive(credit=100) as incoming:
                client.queue("q").send_many(range(10))
                first = incoming.next(timeout=10)
                asyncio.run_coroutine_threadsafe(meanwhile(first.position, incoming._opened()), loop).result(20)
                rest = [incoming.next(timeout=10) for _ in range(6)]
                with pytest.raises(TimedOut):
                    incoming.next(timeout=0.05)
                for event in (first, *rest):
                    event.confirm()
                incoming.settled()
                return [event.data for event in rest]

        async def meanwhile(first: int, receiver: Any) -> None:
            await until(lambda: len(receiver.buffer.current.batch.heads) > 0 and receiver.held, "they are held")
            connections = proxy.connections
            proxy.cut()
            lost = Ranges.of((first + 3, first + 5)).to_bytes()
            assert (await rival.ask(Settle, 1, "confirm", lost)).value == 3
            await until(
                lambda: proxy.connections > connections and receiver.session.is_ready and receiver.outbox.lost, "it is back"
            )
            goes_on.set()

        assert await asyncio.to_thread(program) == [1, 2, 6, 7, 8, 9]
        assert goes_on.is_set()


@pytest.mark.parametrize("kind", [Confirm, Release, Reject])
async def test_a_verdict_whose_answer_was_lost_with_the_link_counts_once_and_is_not_taken_for_anothers(
    tmp_path: Path, kind: type[Confirm | Release | Reject]
) -> None:
    async with held(tmp_path, credit=10) as (server, proxy, _, incoming, _):
        directory, applied = server.node.messages.directory, 0
        apply = directory.apply

        def cut_when_applied(entry: int, data: bytes) -> object:
            nonlocal applied
            effects = apply(entry, data)
            if data[0] == kind.KIND:
                applied += 1
                if applied == 1:
                    proxy.cut()
            return effects

        directory.apply = cut_when_applied  # type: ignore[method-assign,assignment]
        events = await taken(incoming, 4)
        for event in events:
            if kind is Confirm:
                await event.confirm()
            elif kind is Release:
                await event.release(delay=60)
            else:
                await event.reject("no")
        await incoming.settled(timeout=20)

        assert applied == 2
        backlog = directory.backlog(("q", ""))
        assert backlog.waiting == (10 if kind is Release else 6)
        assert all(backlog.deliveries(event.position) == 1 for event in events if kind is Release)


async def test_a_verdict_that_was_applied_before_the_server_died_is_answered_as_it_was(tmp_path: Path) -> None:
    server = await start(tmp_path / "data", PATIENT)
    await fill(server.node, 2)
    first, other = RawClient(server.node), RawClient(server.node)
    await first.greet()
    await first.receive()
    await other.greet()
    await other.ask(Attach, 1, "q", "queue")
    [handed] = await first.hear(Deliver)
    one, both = (Ranges.gather((each.first, each.first) for each in handed.slices[:count]).to_bytes() for count in (1, 2))
    assert (await first.ask(Settle, 1, "confirm", one, number=1, events=1)).value == 1
    assert [bytes(each) for each in (await other.ask(Settle, 1, "release", both, number=1, events=2)).value] == [both[16:]]
    await server.crash()

    again = await start(tmp_path / "data", PATIENT)
    try:
        for client, verdict, ranges, events in ((first, "confirm", one, 1), (other, "release", both, 2)):
            back = RawClient(again.node)
            assert (await back.greet(client.session)).is_resumed
            answer = (await back.ask(Settle, 1, verdict, ranges, number=1, events=events)).value
            assert answer == 1 if client is first else len(answer) == 0  # in part, and in which is not remembered
    finally:
        await again.close()


async def test_a_verdict_that_was_sent_before_the_session_was_forgotten_may_have_counted_and_that_is_said(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data") as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url) as client,
        client.queue("q").receive() as incoming,
    ):
        await client.queue("q").send_many(range(3))
        events = await taken(incoming, 3)
        directory = server.node.messages.directory
        apply = directory.apply

        def cut_when_applied(entry: int, data: bytes) -> object:
            effects = apply(entry, data)
            if data[0] == Confirm.KIND:
                proxy.is_refusing = True
                proxy.cut()
            return effects

        directory.apply = cut_when_applied  # type: ignore[method-assign,assignment]
        await events[0].confirm()
        incoming._receiver.outbox.flush()
        await until(lambda: incoming._receiver.session.id not in directory.sessions(), "the session is given up")
        await come_back(proxy, incoming)

        with pytest.raises(LinkLost, match=f"1 events.*not known.*{events[0].position}"):
            await incoming.settled()
        assert [event.data for event in await taken(incoming, 2)] == [1, 2]
