from __future__ import annotations

import pytest

from holdfast.bus.bus import InProcessBus
from tests.waiting import turn_loop


async def turn() -> None:
    await turn_loop(3)


async def test_what_is_published_is_heard_in_order_after_the_publisher_is_done() -> None:
    bus, heard = InProcessBus(), list[int]()
    bus.listen("numbers", heard.append)

    for number in range(5):
        bus.publish("numbers", number)
    assert heard == []
    await turn()

    assert heard == [0, 1, 2, 3, 4]


async def test_everyone_who_listens_hears_it_and_nobody_else() -> None:
    bus, one, two, other = InProcessBus(), list[str](), list[str](), list[str]()
    bus.listen("a", one.append)
    stop = bus.listen("a", two.append)
    bus.listen("b", other.append)

    bus.publish("a", "first")
    await turn()
    stop()
    bus.publish("a", "second")
    bus.publish("nobody", "lost")
    await turn()

    assert (one, two, other) == (["first", "second"], ["first"], [])


async def test_a_listener_that_fails_costs_the_others_nothing_but_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    bus, heard = InProcessBus(), list[str]()

    def fail(message: str) -> None:
        raise RuntimeError(message)

    bus.listen("a", fail)
    bus.listen("a", heard.append)
    bus.publish("a", "one")
    bus.publish("a", "two")
    await turn()

    assert heard == ["one", "two"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"a listener on a failed at a str: RuntimeError('{said}')" for said in ("one", "two")
    ]


async def test_what_a_listener_publishes_has_a_turn_of_its_own() -> None:
    bus, heard = InProcessBus(), list[int]()

    def count_down(number: int) -> None:
        heard.append(number)
        if number:
            bus.publish("down", number - 1)

    bus.listen("down", count_down)
    bus.publish("down", 3)
    await turn_loop()

    assert heard == [3]
    await turn()
    assert heard == [3, 2, 1, 0]


async def test_what_is_handed_over_is_heard_at_once() -> None:
    bus, heard = InProcessBus(), list[str]()
    bus.listen("a", heard.append)

    bus.hand_over("a", "now")

    assert heard == ["now"]


async def test_what_is_handed_over_never_overtakes_what_was_published() -> None:
    bus, heard = InProcessBus(), list[str]()
    bus.listen("a", heard.append)

    bus.publish("a", "published")
    bus.hand_over("a", "handed over")
    assert heard == []
    await turn()

    assert heard == ["published", "handed over"]


async def test_what_a_listener_hands_over_waits_until_what_is_being_handed_over_was_heard() -> None:
    bus, heard = InProcessBus(), list[str]()
    bus.listen("a", lambda message: bus.hand_over("b", f"{message}, passed on"))
    bus.listen("b", heard.append)

    bus.publish("a", "one")
    bus.publish("b", "two")
    await turn()

    assert heard == ["two", "one, passed on"]


async def test_it_is_quiet_when_all_that_was_published_is_heard() -> None:
    bus, quiet = InProcessBus(), list[bool]()
    bus.listen("a", lambda _: quiet.append(bus.is_quiet))

    quiet.append(bus.is_quiet)
    bus.publish("a", 1)
    quiet.append(bus.is_quiet)
    await turn()
    quiet.append(bus.is_quiet)

    assert quiet == [True, False, False, True]
