"""What every bus promises, whether its sides are in one process or two, on a network that behaves or not."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.bus.bus import CLIENT_MANAGERS, NODES
from holdfast.bus.message import (
    AdministrationAsked,
    ApplyNowAsked,
    BrowseAsked,
    BrowsedPage,
    CopyState,
    CreditGranted,
    Delivered,
    DeliveredSlice,
    HandedOn,
    Heartbeat,
    Holding,
    LinkCongested,
    LinkDown,
    NodeAnswered,
    NodeAsked,
    NoLongerHeld,
    NotAttached,
    Question,
    ReceiverGone,
    Reply,
    SessionGone,
    TransactionsInDoubt,
    ViewAnswered,
    ViewAsked,
    Watermark,
    WatermarksAsked,
    WatermarksTold,
)
from holdfast.bus.message_codec import KINDS
from holdfast.errors import NoSuchDestination
from holdfast.event.extent import Bounds
from holdfast.event.position import Ranges
from holdfast.node.administration.arguments import Describe
from tests import effort
from tests.contract.buses import BusKind, InOneProcess, OnBadNetwork, OnNats
from tests.waiting import until


@pytest.fixture(params=["in process", "nats", "bad network"])
def bus_kind(request: pytest.FixtureRequest) -> BusKind:
    match request.param:
        case "in process":
            return InOneProcess()
        case "nats":
            return OnNats(request.getfixturevalue("nats_server"))
        case _:
            return OnBadNetwork(request.getfixturevalue("nats_server"), effort.seed(20_261_118))


def numbered(count: int) -> list[LinkDown]:
    return [LinkDown(str(number)) for number in range(count)]


async def test_what_a_client_manager_publishes_is_heard_by_the_manager_once_and_in_order(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard, said = list[object](), numbered(500)
        sides.manager.listen(sides.manager_subject, heard.append)

        for message in said:
            sides.client.publish(sides.manager_subject, message)
        assert heard == []
        await until(lambda: len(heard) >= len(said), "all is heard")

        assert heard == said


async def test_what_the_manager_publishes_is_heard_by_the_client_manager_once_and_in_order(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard, said = list[object](), numbered(500)
        sides.client.listen(sides.client_subject, heard.append)

        for message in said:
            sides.manager.publish(sides.client_subject, message)
        assert heard == []
        await until(lambda: len(heard) >= len(said), "all is heard")

        assert heard == said


async def test_questions_and_answers_pass_each_other_in_order(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard, said = list[object](), numbered(200)
        sides.client.listen(sides.client_subject, heard.append)
        sides.manager.listen(sides.manager_subject, lambda message: sides.manager.publish(sides.client_subject, message))

        for message in said:
            sides.client.publish(sides.manager_subject, message)
            await until(lambda: True, "others have a turn")
        await until(lambda: len(heard) >= len(said), "all is answered")

        assert heard == said


async def test_everyone_who_listens_hears_it_until_he_stops_and_nobody_else(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        one, two, other = list[object](), list[object](), list[object]()
        sides.manager.listen(sides.manager_subject, one.append)
        stop = sides.manager.listen(sides.manager_subject, two.append)
        sides.manager.listen("message_manager.another", other.append)
        first, second = numbered(2)

        sides.client.publish(sides.manager_subject, first)
        await until(lambda: one and two, "both have heard it")
        stop()
        sides.client.publish(sides.manager_subject, second)
        await until(lambda: len(one) == 2, "the other one has heard it")

        assert (one, two, other) == ([first, second], [first], [])


async def test_a_listener_that_fails_costs_the_others_nothing_but_a_line_of_the_log(
    bus_kind: BusKind, caplog: pytest.LogCaptureFixture
) -> None:
    async with bus_kind.open() as sides:
        heard = list[object]()

        def fail(message: object) -> None:
            raise RuntimeError("a fault")

        sides.manager.listen(sides.manager_subject, fail)
        sides.manager.listen(sides.manager_subject, heard.append)
        for message in numbered(2):
            sides.client.publish(sides.manager_subject, message)
        await until(lambda: len(heard) == 2, "both are heard")

        said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert said == [f"a listener on {sides.manager_subject} failed at a LinkDown: RuntimeError('a fault')"] * 2


async def test_what_is_handed_over_never_overtakes_what_was_published(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard, (first, second) = list[object](), numbered(2)
        sides.manager.listen(sides.manager_subject, heard.append)

        sides.client.publish(sides.manager_subject, first)
        sides.client.hand_over(sides.manager_subject, second)
        await until(lambda: len(heard) == 2, "both are heard")

        assert heard == [first, second]


async def test_a_message_larger_than_a_frame_comes_whole_between_small_ones(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard, (first, last) = list[object](), numbered(2)
        large = Delivered("s", 1, [DeliveredSlice(number << 16, 1, 0, False, bytes([number]) * 700_000) for number in range(3)])
        sides.client.listen(sides.client_subject, heard.append)

        for message in (first, large, last):
            sides.manager.publish(sides.client_subject, message)
        await until(lambda: len(heard) == 3, "all is heard")

        assert heard == [first, large, last]


@pytest.mark.parametrize("subject", [CLIENT_MANAGERS, NODES, "node.a b.c"])
async def test_what_goes_to_all_is_heard_by_everyone_who_listens_on_either_side(bus_kind: BusKind, subject: str) -> None:
    async with bus_kind.open() as sides:
        one, two, level = list[object](), list[object](), Watermark("orders", True, True, False, "full")
        sides.client.listen(subject, one.append)
        stop = sides.manager.listen(subject, two.append)
        await bus_kind.settle(sides)

        sides.manager.publish(subject, level)
        await until(lambda: one and two, "both have heard it")
        stop()
        sides.manager.publish(subject, level)
        await until(lambda: len(one) == 2, "the other one has heard it again")

        assert (one, two) == ([level, level], [level])


async def test_it_is_quiet_when_all_that_was_published_is_on_its_way(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard = list[object]()
        sides.manager.listen(sides.manager_subject, heard.append)
        was_quiet = [sides.client.is_quiet]

        sides.client.publish(sides.manager_subject, LinkDown("s"))
        was_quiet.append(sides.client.is_quiet)
        await until(lambda: heard and sides.client.is_quiet, "it is quiet again")

        assert was_quiet == [True, False]


SLICES = [
    DeliveredSlice(65_536, 2, 1, True, b"batch", "orders", (("expired", "too late", 3),), 17, True),
    DeliveredSlice(131_072, 1, 0, False, b""),
]
EVERY_KIND: list[Any] = [
    Holding("client_manager.a1", "s", 1, Ranges.of((1, 5), (7, 9)), [(1, 2), (8, 9)], True),
    Holding("client_manager.a1", "s", 1, Ranges()),
    NoLongerHeld("s", 1, Ranges.of((1, 1 << 60))),
    NotAttached("s", 1),
    CreditGranted("s", 1, 10, 20, 30, 40),
    HandedOn("s", 1, 1 << 50),
    LinkDown("s"),
    SessionGone("s"),
    LinkCongested("s", True),
    WatermarksAsked("client_manager.a1"),
    AdministrationAsked(),
    Watermark("orders", True, True, True, "full", "m1", 3, 9),
    WatermarksTold("m1", 3, 9, [Watermark("orders", True, True, True, "full", "m1", 3, 9)]),
    Question("client_manager.a1", 7, "describe", Describe(name="orders")),
    Reply(7, {"a": [1, "b", b"c", None], "d": {"e": 1.5}}, None),
    Reply(7, BrowsedPage([SLICES[1]], 5, True), None),
    BrowseAsked("client_manager.a1", 1, "d", "s", 3, 100, "a > 1", 9, 1 << 20, Bounds(1, 2, 3, 4)),
    BrowseAsked("client_manager.a1", 1, "d", "s", 3, 100, ""),
    Delivered("s", 1, [SLICES[1]], True),
    ReceiverGone("s", 1, "deleted", "it was deleted"),
    Heartbeat("n1", "a1", "client_manager.a1", [CopyState("orders", 3, True, 10, 11, 12, 13, 14, 15, 16, {"t": 5})], b"digest"),
    ViewAsked("client_manager.a1", 3, "list_sessions", ["s"]),
    ViewAnswered("orders", 3, ["s"], None),
    ApplyNowAsked(),
    NodeAsked("node.a", 3, "takeover", {"manager": "m1"}),
    NodeAnswered("b", 3, {"epoch": 4}, None),
    TransactionsInDoubt("m1", [(["m1", "m2"], [("s", "t"), ("s", "t")])]),
]


async def test_a_message_of_every_kind_arrives_as_it_was(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard = list[object]()
        sides.manager.listen(sides.manager_subject, heard.append)

        for message in EVERY_KIND:
            sides.client.publish(sides.manager_subject, message)
        await until(lambda: len(heard) == len(EVERY_KIND), "all is heard")

        assert heard == EVERY_KIND
        assert [type(each) for each in heard] == [type(each) for each in EVERY_KIND]
        assert {type(each) for each in EVERY_KIND} == set(KINDS.values())


async def test_an_error_arrives_with_its_code_sentence_and_fields(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard = list[Reply]()
        sides.client.listen(sides.client_subject, heard.append)

        sides.manager.publish(sides.client_subject, Reply(1, None, NoSuchDestination("there is no 'q'", destination="q")))
        await until(lambda: heard, "it is heard")

        error = heard[0].error
        assert isinstance(error, NoSuchDestination)
        assert (error.sentence, error.fields) == ("there is no 'q'", {"destination": "q"})


async def test_dead_events_keep_their_reasons(bus_kind: BusKind) -> None:
    async with bus_kind.open() as sides:
        heard = list[Delivered]()
        sides.client.listen(sides.client_subject, heard.append)

        sides.manager.publish(sides.client_subject, Delivered("s", 1, SLICES))
        await until(lambda: heard, "it is heard")

        (slice_, _) = heard[0].slices
        assert [tuple(death) for death in slice_.deaths] == [("expired", "too late", 3)]
        assert slice_._replace(deaths=()) == SLICES[0]._replace(deaths=())
