"""The credit window: it follows the pace of the program, and says what to give back when the program stops."""

from __future__ import annotations

from itertools import pairwise

from holdfast.client.receiving.credit.credit_window import GROWTH, MOST_EVENTS, STALL_S, START_EVENTS, CreditWindow


def working(window: CreditWindow, events: int, event_s: float, now_s: float = 0.0) -> float:
    """A program is handed events, and works on each so long; when it has."""
    for _ in range(events):
        window.use(1)
        now_s += event_s
        if window.is_due():
            window.look(now_s)
            window.grant()
    return now_s


def begun(size: int | None = None) -> CreditWindow:
    window = CreditWindow(size)
    window.grant()
    window.look(0.0)
    return window


def test_it_begins_small() -> None:
    assert CreditWindow(None).grant() == START_EVENTS


def test_it_grows_fourfold_at_a_time_up_to_the_most_for_a_fast_program() -> None:
    window, sizes = begun(), [START_EVENTS]
    for number in range(20_000):
        working(window, 1, 0.000_01, number * 0.000_01)
        if window.size != sizes[-1]:
            sizes.append(window.size)

    assert all(later <= GROWTH * earlier for earlier, later in pairwise(sizes))
    assert sizes[-1] == MOST_EVENTS


def test_a_slow_program_has_one_event_before_it() -> None:
    window = begun()
    working(window, 10, 2.0)

    assert window.size == 1


def test_a_program_that_becomes_slow_shrinks_it() -> None:
    window = begun()
    now_s = working(window, 20_000, 0.000_1)
    assert window.size > 2_000
    working(window, 3_000, 0.02, now_s)

    assert window.size == 12


def test_an_exact_size_stays_and_nothing_of_it_is_given_back() -> None:
    window = begun(50)
    now_s = working(window, 1_000, 0.5)

    assert window.size == 50
    assert window.keep(now_s + 1_000, 50) == 50


def test_time_in_which_the_program_waits_for_events_is_no_work() -> None:
    window, now_s = begun(), 0.0
    for _ in range(100):
        window.wait(now_s)
        now_s += 3.0
        window.go_on(now_s)
        now_s = working(window, 1, 0.001, now_s)

    assert window.size > 100


def test_a_program_that_takes_nothing_for_a_second_keeps_one_event() -> None:
    window = begun()
    now_s = working(window, 1_000, 0.001)
    window.look(now_s)

    assert window.keep(now_s + STALL_S - 0.1, 80) == 80
    assert window.keep(now_s + STALL_S + 0.1, 80) == 1
    assert window.size == 1


def test_a_program_that_takes_many_at_once_and_works_for_seconds_on_them_has_not_stalled() -> None:
    window, now_s = begun(), 0.0
    for _ in range(5):
        window.use(100)
        window.grant()
        now_s += 2.0
        window.look(now_s)

    assert window.keep(now_s + 2.5, 10) == 10
    assert window.keep(now_s + 8.5, 10) == 1


def test_a_program_that_has_become_slower_keeps_a_window_of_what_lies_here() -> None:
    window = begun()
    now_s = working(window, 1_000, 0.001)
    window.use(20)
    window.look(now_s + 0.9)

    assert window.keep(now_s + 0.9, 4_000) == window.size < 4_000


def test_time_without_a_link_is_no_stall() -> None:
    window = begun()
    now_s = working(window, 1_000, 0.001)
    window.rest(now_s + 60)

    assert window.keep(now_s + 60.5, 80) == 80


def test_a_round_trip_of_a_second_opens_a_second_of_work() -> None:
    window = begun()
    window.note_round_trip(5.0)
    working(window, 500, 0.02)

    assert window.size == 50


def test_events_that_nobody_was_handed_say_nothing_about_the_pace() -> None:
    window = CreditWindow(None)
    window.grant()
    window.go_on(0.0)
    window.use(1)
    window.drop(3)  # they expired, or were given back

    window.look(10.0)

    assert window.size == START_EVENTS  # four events in ten seconds would have made it 1
    assert window.keep(10.0, 2) == 1  # nothing was taken for ten seconds
