"""Several sessions on one link (JMS 2.0 sections 6.1, 6.2): each has its order, and none waits for another."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.checks import ConfirmMode
from holdfast.client.connection import connection
from holdfast.errors import BadSetting, Closed, Refused, TimedOut, Unreachable
from tests.contract.places import CuttingProxy, name, server, url
from tests.server_process import ServerProcess
from tests.waiting import until

__all__ = ["name", "server", "url"]


async def unlinked(client: holdfast.Client) -> None:
    await until(lambda: not client.is_linked, "the client notices the cut")


async def test_a_session_sends_and_receives_as_a_client_does(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as session:
        receipt = await session.queue(name).send("mine")
        async with session.queue(name).receive() as incoming:
            event = await incoming.next(timeout=10)
            await event.confirm()

        assert (event.data, event.position) == ("mine", receipt.position)
        assert (await client.describe(name))["waiting"] == 0


async def test_a_session_subscribes_to_a_topic(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as session, session.subscribe(name) as incoming:
        await client.topic(name).send("news")

        assert (await incoming.next(timeout=10)).data == "news"


async def test_many_sessions_of_one_client_share_its_link_and_compete_for_a_queue(url: str, name: str) -> None:
    """JMS 6.1: a connection may have several sessions, each with its own consumers."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(300))
        sessions = [await client.session(name=f"s{number}").open() for number in range(3)]
        receivers = [await session.queue(name).receive(credit=10).open() for session in sessions]
        seen: list[int] = []
        while len(seen) < 300:
            for incoming in receivers:
                event = await incoming.next(timeout=10)
                seen.append(event.data)
                await event.confirm()
        for session in sessions:
            await session.close()

        assert sorted(seen) == list(range(300))
        assert (await client.describe(name))["waiting"] == 0


async def test_a_session_whose_receiver_stands_still_leaves_the_others_free(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as still, client.session() as busy:
        await client.queue(f"{name}-a").send_many(bytes(1000) for _ in range(200))
        async with still.queue(f"{name}-a").receive(credit=50) as held, busy.queue(f"{name}-b").receive() as incoming:
            await held.next(timeout=10)  # and no more: its credit is used up

            for number in range(100):
                await busy.queue(f"{name}-b").send(number)
                event = await incoming.next(timeout=10)
                await event.confirm()

                assert event.data == number


async def test_what_one_session_sends_keeps_its_order_whatever_others_send(url: str, name: str) -> None:
    """JMS 6.2.9.1: messages sent by a session to a destination are received in the order they were sent."""
    async with holdfast.connect(url) as client, client.session() as one, client.session() as other:
        await asyncio.gather(
            one.queue(name).send_many(("one", number) for number in range(500)),
            other.queue(name).send_many(("other", number) for number in range(500)),
        )
        async with client.queue(name).receive() as incoming:
            events = [(await incoming.next(timeout=10)).data for _ in range(1000)]

        for whose in ("one", "other"):
            assert [number for sender, number in events if sender == whose] == list(range(500))


async def test_what_a_session_holds_comes_to_another_only_when_it_is_given_back(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as one:
        await client.queue(name).send("held")
        async with one.queue(name).receive() as incoming, client.queue(name).receive() as other:
            await incoming.next(timeout=10)

            with pytest.raises(TimedOut):
                await other.next(timeout=0.05)
            await incoming.close()

            assert (await other.next(timeout=10)).redelivered


async def test_closing_a_session_closes_its_receivers_and_gives_back_what_it_held(url: str, name: str) -> None:
    """JMS 6.2.15: there is no need to close the consumers of a closed session; its unacknowledged messages come again."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(["seen", "unseen"])
        session = await client.session().open()
        incoming = await session.queue(name).receive().open()
        await incoming.next(timeout=10)
        await session.close()

        with pytest.raises(Closed):
            await incoming.next(timeout=1)
        async with client.queue(name).receive() as another:
            again = {event.data: event.deliveries for event in [await another.next(timeout=10) for _ in range(2)]}

        assert again == {"seen": 1, "unseen": 0}


async def test_closing_a_session_confirms_nothing_and_a_verdict_after_it_is_refused(url: str, name: str) -> None:
    """JMS 6.2.15: closing a client-acknowledged session does not force an acknowledge; acknowledging then is an error."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send("held")
        async with client.session(confirm="client") as session:
            incoming = await session.queue(name).receive().open()
            event = await incoming.next(timeout=10)

        with pytest.raises(Closed, match="closed before this verdict"):
            await event.confirm()

        assert event.data == "held"  # what was received stays readable
        assert (await client.describe(name))["waiting"] == 1


async def test_closing_a_session_leaves_the_clients_own_and_the_others_open(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as other:
        async with client.session() as session:
            await session.queue(name).send(1)

        await client.queue(name).send(2)
        await other.queue(name).send(3)

        assert (await client.describe(name))["waiting"] == 3


async def test_a_closed_session_refuses_and_says_so(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        session = client.session()
        with pytest.raises(Closed, match="not open"):
            session.queue(name)
        async with session:
            queue = session.queue(name)
        await session.close()  # again, which is fine

        for use in (lambda: session.queue(name), lambda: session.topic(name), lambda: queue.pipeline()):
            with pytest.raises(Closed, match="session was closed"):
                use()
        with pytest.raises(Closed, match="session was closed"):
            await queue.send(1)
        with pytest.raises(Closed, match="opened once"):
            await session.open()


async def test_a_session_of_a_closed_client_is_closed_with_it(name: str) -> None:
    """JMS 6.1.8: closing a connection closes its sessions, producers and consumers."""
    async with holdfast.connect("memory:") as client:
        session = await client.session().open()
        incoming = await session.queue(name).receive().open()

    with pytest.raises(Closed, match="closed by this program"):
        await incoming.next(timeout=1)
    with pytest.raises(Closed, match="client was closed"):
        session.queue(name)


@pytest.mark.parametrize(("mode", "left"), [("event", 3), ("auto", 2), ("duplicates-ok", 2), ("client", 3)])
async def test_closing_the_client_settles_its_open_receivers_as_their_mode_says(
    url: str, name: str, mode: ConfirmMode, left: int
) -> None:
    async def work() -> None:
        async with holdfast.connect(url) as client:
            await client.queue(name).send_many(range(4))
            incoming = await client.queue(name).receive(confirm=mode).open()
            await (await incoming.next(timeout=10)).confirm()
            await incoming.next(timeout=10)

    if url.startswith("memory:"):  # which is gone with its last client
        async with holdfast.connect(url) as onlooker:
            await work()
            assert (await onlooker.describe(name))["waiting"] == left
        return
    await work()
    async with holdfast.connect(url) as client:
        assert (await client.describe(name))["waiting"] == left


async def test_there_is_a_bound_to_the_sessions_of_a_link_and_closed_ones_make_room(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SESSIONS_MAX", 3)
    async with holdfast.connect("memory:") as client:
        sessions = [await client.session().open() for _ in range(3)]

        with pytest.raises(Refused, match="3 sessions are open"):
            await client.session().open()
        await sessions[0].close()

        async with client.session() as session:
            await session.queue(name).send(1)


async def test_sessions_may_come_and_go_more_often_than_there_are_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "NUMBER_MAX", 5)
    async with holdfast.connect("memory:") as client, client.session() as lasting:
        for number in range(20):
            async with client.session() as session:
                await session.queue(name).send(number)
        await lasting.queue(name).send("last")

        assert (await client.describe(name))["waiting"] == 21


@pytest.mark.parametrize("bad", ["often", "", None, 7])
async def test_an_unknown_confirm_mode_is_refused_with_those_there_are(bad: str, name: str) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadSetting, match="event, auto, client, duplicates-ok"):
            client.session(confirm=bad)  # type: ignore[arg-type]
        if bad is not None:
            with pytest.raises(BadSetting, match="event, auto, client, duplicates-ok"):
                client.queue(name).receive(confirm=bad)  # type: ignore[arg-type]


async def test_a_sessions_name_is_printable_text(name: str) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadSetting, match="session's name"):
            client.session(name="a\nb")


async def test_each_session_is_resumed_after_a_lost_link_with_what_it_held(server: ServerProcess, name: str) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        sessions = [await client.session().open() for _ in range(3)]
        queues = [session.queue(f"{name}-{number}") for number, session in enumerate(sessions)]
        for queue in queues:
            await queue.send_many(range(20))
        receivers = [await queue.receive().open() for queue in queues]
        held = [await incoming.next(timeout=10) for incoming in receivers]

        proxy.cut()

        for number, (queue, incoming, first) in enumerate(zip(queues, receivers, held, strict=True)):
            await first.confirm()
            await queue.send("after", timeout=20)
            events = [await incoming.next(timeout=20) for _ in range(20)]
            assert [event.data for event in events] == [*range(1, 20), "after"]
            assert not any(event.redelivered for event in events)
            for event in events:
                await event.confirm()
            await sessions[number].close()
            assert (await client.describe(queue.name))["waiting"] == 0


async def test_a_session_opened_while_there_is_no_link_is_opened_when_there_is(server: ServerProcess, name: str) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        proxy.is_refusing = True
        proxy.cut()
        opening = asyncio.create_task(client.session().open())
        await unlinked(client)
        proxy.is_refusing = False

        session = await opening
        await session.queue(name).send(1)

        assert (await client.describe(name))["waiting"] == 1
        await session.close()


async def test_a_session_that_cannot_be_opened_in_time_says_unreachable_and_takes_no_room(server: ServerProcess) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, timeout=1) as client:
        proxy.is_refusing = True
        proxy.cut()
        await unlinked(client)

        with pytest.raises(Unreachable):
            await client.session().open()


def test_the_blocking_client_has_sessions_too(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client, client.session(name="worker") as session:
        session.queue(name).send("mine")
        with session.queue(name).receive() as incoming:
            event = incoming.next(timeout=10)
            event.confirm()

        assert (session.name, event.data) == ("worker", "mine")
        assert client.describe(name)["waiting"] == 0
        with session.subscribe(name + "-t") as news:
            client.topic(name + "-t").send("news")
            assert news.next(timeout=10).data == "news"
    with pytest.raises(Closed):
        session.queue(name)


async def test_a_session_and_a_client_that_are_closed_twice_at_once_wait_for_each_other_and_not_for_an_answer(
    url: str, name: str
) -> None:
    async with asyncio.timeout(4):  # nobody answers a session that the server has forgotten: that took 5 s
        client = await holdfast.connect(url).open()
        session = await client.session().open()
        await session.queue(name).send("kept")
        await asyncio.gather(session.close(), session.close())
        assert (await client.describe(name))["waiting"] == 1
        session = await client.session().open()
        await asyncio.gather(session.close(), client.close(), client.close())
