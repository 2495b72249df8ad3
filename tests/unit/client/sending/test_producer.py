"""The producer in rare moments: windows, holes, lost links, forgotten sessions (rule 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.client.destination import Queue
from holdfast.client.receipt import Receipt
from holdfast.client.sending.batch_builder import BATCH_BYTES
from holdfast.client.sending.send_waiters import WAITING_MAX
from holdfast.errors import Blocked, Closed, LinkLost, OutcomeUnknown, ProtocolError, TimedOut, UnknownVersion, Unreachable
from holdfast.event import position
from holdfast.event.identifier import COUNTER_MAX
from holdfast.wire.frame import Failed, ForgetProducer, Goodbye, Hello, OpenProducer, OpenSession, Receipted, Send, Welcome
from tests.scripted_server import ScriptedServer, connected
from tests.waiting import turn_loop


def begin(work: object) -> asyncio.Task[Receipt]:
    return asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]


async def test_a_lone_event_goes_at_once_and_what_comes_meanwhile_goes_together_when_it_is_receipted() -> None:
    server = ScriptedServer()
    server.is_receipting = False
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        first = begin(queue.send(1))
        await server.hear(Send)
        others = [begin(queue.send(number)) for number in range(5)]
        await turn_loop()
        assert len(server.of(Send)) == 1

        server.is_receipting = True
        server.say(Receipted(1, 7, 2, True))

        assert (await first) == Receipt(position.of(7), 2, True, server.first_id)
        assert [receipt.position for receipt in await asyncio.gather(*others)] == [position.of(102, index) for index in range(5)]
        assert server.sent(2)[1].count == 5


async def test_a_quiet_destination_waits_for_one_receipt_and_not_for_a_flood_to_end() -> None:
    server = ScriptedServer(window=4)
    server.is_receipting = False
    async with connected(server) as connection:
        flood, quiet = Queue(connection.session, "flood"), Queue(connection.session, "quiet")
        tasks = [begin(flood.send(bytes(70_000))) for _ in range(3)]
        await server.hear(Send, 3)
        tasks.append(begin(quiet.send(1)))
        await turn_loop()
        tasks.append(begin(flood.send(bytes(70_000))))
        await server.hear(Send, 4)

        server.say(Receipted(3, 1, 1, True))
        await server.hear(Send, 5)

        assert server.sent(5)[0].destination == "quiet"
        for sequence in (1, 2, 4, 5):
            server.say(Receipted(sequence, sequence, 1, True))
        await asyncio.gather(*tasks)


async def test_never_more_than_the_window_is_unreceipted_and_a_pipeline_waits() -> None:
    server = ScriptedServer(window=2)
    server.is_receipting = False
    async with connected(server) as connection:
        pipeline = Queue(connection.session, "q").pipeline(timeout=0.05)
        with pytest.raises(TimedOut, match="more slowly"):
            for _ in range(100):
                await pipeline.send(bytes(70_000))

        assert len(server.of(Send)) == 2
        server.is_receipting = True
        server.say(Receipted(1, 1, 1, True))
        server.say(Receipted(2, 2, 1, True))
        assert len(await pipeline.flush(timeout=5)) == len(server.of(Send))


async def test_no_more_events_are_taken_from_a_program_than_may_be_unsent() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(1_000)

    server = ScriptedServer(window=2)
    server.is_receipting = False
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        with pytest.raises(TimedOut, match="more slowly"):
            await queue.send_many(endless(), timeout=0.05)

        assert len(server.of(Send)) == 2
        assert taken <= (2 + WAITING_MAX) * (BATCH_BYTES // 1_000)


async def test_a_cancelled_send_many_takes_no_more_and_what_it_took_is_sent_in_order() -> None:
    numbers = iter(range(1_000_000))
    server = ScriptedServer(window=2)
    server.is_receipting = False
    async with connected(server) as connection:
        sending = begin(Queue(connection.session, "q").send_many(numbers))
        await server.hear(Send, 2)
        sending.cancel()
        await turn_loop()
        after = next(numbers)
        server.is_receipting = True
        server.say(Receipted(1, 1, 1, True))
        server.say(Receipted(2, 2, 1, True))
        with pytest.raises(asyncio.CancelledError):
            await sending

        sent = [server.sent(message.token)[1] for message in server.of(Send)]
        assert [int(bytes(batch.body(index))) for batch in sent for index in range(batch.count)] == list(range(after))


async def test_after_a_lost_link_what_arrived_is_receipted_and_the_rest_sent_again_under_its_numbers() -> None:
    """Rule 6: it asks for its last sequence before it resends."""
    server = ScriptedServer()
    server.is_receipting = False
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        tasks = [begin(queue.send(bytes([number]) * 70_000)) for number in range(3)]
        await server.hear(Send, 3)
        before = dict(server.bodies)
        server.producer_answer = {"producer": "p1", "last_sequence": 1, "receipts": [[1, 55]]}
        server.cut()

        await server.hear(Send, 5)

        assert [message.token for message in server.of(Send)] == [1, 2, 3, 2, 3]
        assert server.bodies == before
        assert [message.producer for message in server.of(OpenProducer)] == ["", "p1"]
        assert [message.resume for message in server.of(OpenSession)] == ["", "s1"]
        assert (await tasks[0]).position == position.of(55)
        server.say(Receipted(2, 56, 1, True))
        server.say(Receipted(3, 57, 1, True))
        assert [(await task).position for task in tasks[1:]] == [position.of(56), position.of(57)]


async def test_a_producer_that_the_server_has_forgotten_says_that_the_outcome_is_unknown_and_begins_anew() -> None:
    """Numbers that nobody remembers would be held back for ever: they are not used again."""
    server = ScriptedServer()
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        await queue.send(1)
        server.is_receipting = False
        lost = begin(queue.send(2))
        await server.hear(Send, 2)
        server.is_resuming = False
        server.cut()

        with pytest.raises(LinkLost, match="forgot the session"):
            await lost
        server.is_receipting = True
        await queue.send(3)

        assert [message.token for message in server.of(Send)] == [1, 2, 1]
        assert [message.producer for message in server.of(OpenProducer)] == ["", ""]


async def test_the_number_of_a_refused_batch_is_used_again_when_nothing_behind_it_was_accepted() -> None:
    server = ScriptedServer()
    server.answers[Send] = lambda message: Failed(message.token, Blocked.code, "unavailable", "no room")
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        with pytest.raises(Blocked, match="no room"):
            await queue.send(1)
        del server.answers[Send]

        await queue.send(2)

        assert [message.token for message in server.of(Send)] == [1, 1]
        assert server.of(ForgetProducer) == []


@pytest.mark.parametrize("is_outcome_known", [True, False])
async def test_a_hole_before_what_was_accepted_is_skipped_by_forgetting_the_producer(is_outcome_known: bool) -> None:
    """Rule 6: forgetting skips holes and places what is held."""
    server = ScriptedServer()
    server.is_receipting = False
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        refused, accepted = begin(queue.send(bytes(70_000))), begin(queue.send(bytes(70_000)))
        await server.hear(Send, 2)
        server.is_receipting = True
        if is_outcome_known:
            server.say(Failed(1, Blocked.code, "unavailable", "no room"))
            server.say(Receipted(2, 9, 1, True))
        else:
            server.say(Receipted(2, 9, 1, True))
            server.say(Failed(1, OutcomeUnknown.code, "outcome-unknown", "who knows"))

        with pytest.raises(Blocked if is_outcome_known else OutcomeUnknown):
            await refused
        assert (await accepted).position == position.of(9)
        await queue.send(3)

        assert [message.producer for message in await server.hear(ForgetProducer)] == ["p1"]
        assert [message.token for message in server.of(Send)] == [1, 2, 1]


async def test_a_send_that_is_not_receipted_in_time_has_an_unknown_outcome_and_may_still_be_accepted() -> None:
    server = ScriptedServer()
    server.is_receipting = False
    async with connected(server) as connection:
        with pytest.raises(LinkLost, match="may be stored already"):
            await Queue(connection.session, "q").send(1, timeout=0.02)

        server.say(Receipted(1, 1, 1, True))
        await connection.session.producer.flushed(5)


async def test_what_waits_when_the_client_is_closed_is_answered() -> None:
    server = ScriptedServer(window=1)
    server.is_receipting = False
    connection_timeout = 0.05
    async with connected(server, connection_timeout) as connection:
        queue = Queue(connection.session, "q")
        sent = begin(queue.send(1, timeout=20))
        await server.hear(Send)
        unsent = begin(queue.send(2, timeout=20))
        await turn_loop()

    with pytest.raises(LinkLost):
        await sent
    with pytest.raises(Closed):
        await unsent
    with pytest.raises(Closed):
        await queue.send(3)


async def test_a_version_that_is_not_spoken_is_said_at_once() -> None:
    server = ScriptedServer()
    server.answers[Hello] = lambda hello: Goodbye(UnknownVersion.code, "this server speaks [9]")

    with pytest.raises(UnknownVersion, match=r"\[9\]"):
        async with connected(server, timeout=30):
            pass


async def test_a_batch_that_ends_every_link_does_not_make_a_storm_of_them() -> None:
    """B9: retries back off."""
    server = ScriptedServer()
    server.answers[Send] = lambda message: Goodbye("protocol-error", "not this one")
    async with connected(server, timeout=0.5) as connection:
        with pytest.raises(LinkLost):
            await Queue(connection.session, "q").send(1)

        assert 2 <= server.links <= 6


async def test_a_server_whose_frames_are_too_small_is_refused_at_once() -> None:
    server = ScriptedServer()
    server.answers[Hello] = lambda hello: Welcome(1, "small", 1000, 1000, 4)

    with pytest.raises(ProtocolError, match="1000 bytes"):
        async with connected(server, timeout=30):
            pass


async def test_a_server_that_falls_silent_is_given_up_and_linked_again() -> None:
    server = ScriptedServer(heartbeat_ms=20)
    async with connected(server) as connection:
        await Queue(connection.session, "q").send(1)

        opened = await server.hear(OpenSession, 2)

        assert opened[1].resume == "s1"


async def test_a_new_start_for_identifiers_is_fetched_before_the_old_one_is_used_up() -> None:
    """B14: overflow of the counter advances the start."""
    server = ScriptedServer()
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        connection.session.ids.take(COUNTER_MAX - 10)
        old = server.first_id

        await queue.send(1)
        await server.hear(OpenSession, 2)
        await queue.send(2)
        receipt = await queue.send(3)

        assert isinstance(receipt.identifier, int)
        assert receipt.identifier > old + COUNTER_MAX


async def test_a_first_batch_in_flight_when_the_session_was_given_up_is_not_sent_a_second_time() -> None:
    """It may be in the channel, and nobody remembers its number any more: sent again it would count twice (rule 6)."""
    server = ScriptedServer()
    server.is_receipting = False
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        lost = begin(queue.send(1))
        await server.hear(Send)
        server.is_resuming = False
        server.cut()

        with pytest.raises(LinkLost, match="forgot the session"):
            await lost

        assert [message.token for message in server.of(Send)] == [1]


async def test_a_producer_with_a_hole_is_forgotten_before_the_next_one_sends_even_if_the_link_is_lost_meanwhile() -> None:
    """Rule 6: what lies behind the hole is accepted and held back; only forgetting places it, and before what follows."""
    server = ScriptedServer()
    server.is_receipting = False
    server.answers[ForgetProducer] = lambda message: None
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        tasks = [begin(queue.send(bytes(70_000))) for _ in range(2)]
        await server.hear(Send, 2)
        server.say(Failed(1, Blocked.code, "unavailable", "no room"))
        server.say(Receipted(2, 9, 1, True))
        await asyncio.gather(*tasks, return_exceptions=True)
        server.is_receipting = True
        following = begin(queue.send(3))
        await server.hear(ForgetProducer)
        del server.answers[ForgetProducer]
        server.cut()

        await following

        kinds = [type(message) for message in server.heard if isinstance(message, ForgetProducer | OpenProducer | Send)]
        assert kinds == [OpenProducer, Send, Send, ForgetProducer, ForgetProducer, OpenProducer, Send]


async def test_a_batch_that_is_in_flight_before_a_hole_is_sent_again_after_a_lost_link() -> None:
    server = ScriptedServer()
    server.is_receipting = False
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        first, refused = [begin(queue.send(bytes(70_000))) for _ in range(2)]
        await server.hear(Send, 2)
        server.say(Failed(2, Blocked.code, "unavailable", "no room"))
        with pytest.raises(Blocked):
            await refused
        server.is_receipting = True
        server.cut()

        assert (await first).position == position.of(101)


async def test_sends_that_time_out_while_there_is_no_link_leave_nothing_behind() -> None:
    server = ScriptedServer()
    async with connected(server) as connection:
        server.is_refusing_links = True
        server.cut()
        for _ in range(20):
            with pytest.raises(Unreachable):
                await Queue(connection.session, "q").send(bytes(10_000), timeout=0.001)

        await asyncio.wait_for(connection.session.producer.flushed(600), 60)
