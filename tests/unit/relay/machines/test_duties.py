"""When upstream may be told: by mode, and never before."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.relay.machines.duties import PLACED_SMALL, Duties, Refusal
from holdfast.relay.machines.marks import Stretch


def test_receipt_confirms_what_is_durable_here() -> None:
    duties = Duties("receipt")

    assert duties.appended([Stretch(10, 19)]).confirm == [(10, 19)]
    assert duties.waiting_count == 0


def test_end_to_end_confirms_nothing_before_all_who_count_have_confirmed() -> None:
    duties = Duties("end-to-end")

    assert duties.appended([Stretch(10, 19, 500, "here")]).confirm == []
    assert duties.waiting_count == 10
    assert duties.finished("here", [(503, 505)]).confirm == [(13, 15)]
    assert duties.finished("here", [(500, 520)]).confirm == [(10, 12), (16, 19)]
    assert duties.waiting_count == 0


def test_dead_here_is_rejected_upstream_with_that_reason() -> None:
    duties = Duties("end-to-end")
    duties.appended([Stretch(10, 19, 500, "here")])

    assert duties.died("here", [(501, 502)], "rejected", "no such account").reject == [
        Refusal(11, 12, "rejected", "no such account")
    ]


def test_events_that_nobody_here_is_to_get_are_confirmed_at_once_in_every_mode() -> None:
    assert Duties("end-to-end").appended([Stretch(10, 19)]).confirm == [(10, 19)]


def test_a_verdict_is_due_until_upstream_has_settled_it() -> None:
    duties = Duties("end-to-end")
    duties.appended([Stretch(10, 19, 500, "here")])
    duties.finished("here", [(500, 504)])
    duties.died("here", [(505, 506)], "expired", "too late")

    assert duties.came_again(12, 15) == ([(12, 14)], [Refusal(15, 15, "expired", "too late")])
    duties.settled(10, 15)
    assert duties.came_again(10, 19) == ([], [Refusal(16, 16, "expired", "too late")])


@given(st.integers(0, 10_000), st.sampled_from(["end-to-end", "each"]))
def test_upstream_hears_of_exactly_those_that_are_finished_here(seed: int, mode: str) -> None:
    dice, duties = random.Random(seed), Duties(mode)  # type: ignore[arg-type]
    upstream, local = 1, {"a": 1, "b": 1_000}
    where: dict[tuple[str, int], int] = {}  # local: upstream
    told: dict[int, str] = {}
    expected: dict[int, str] = {}

    for _ in range(30):
        target = dice.choice(["a", "b"])
        if dice.random() < 0.5:
            count = dice.randrange(1, 5)
            duties.appended([Stretch(upstream, upstream + count - 1, local[target], target)])
            where |= {(target, local[target] + index): upstream + index for index in range(count)}
            upstream += count + dice.randrange(3)
            local[target] += count + dice.randrange(3)
        else:
            first = dice.randrange(max(1, local[target] - 12), local[target] + 2)
            last = first + dice.randrange(5)
            found = [where[target, place] for place in range(first, last + 1) if (target, place) in where]
            is_dead = dice.random() < 0.3
            verdicts = duties.died(target, [(first, last)], "c", "r") if is_dead else duties.finished(target, [(first, last)])
            for low, high in (*verdicts.confirm, *((each.first, each.last) for each in verdicts.reject)):
                for place in range(low, high + 1):
                    assert place not in told, "upstream is told once"
                    told[place] = "reject" if is_dead else "confirm"
            expected |= {place: "reject" if is_dead else "confirm" for place in found if place not in expected}

    assert told == expected
    assert duties.waiting_count == len(where) - len(expected)


def test_an_event_that_waits_for_ever_keeps_nothing_of_what_came_after_it() -> None:
    duties = Duties("end-to-end")
    duties.appended([Stretch(1, 1, 501, "here")])

    for number in range(2, 5_000):
        duties.appended([Stretch(number, number, 500 + number, "here")])
        assert duties.finished("here", [(500 + number, 500 + number)]).confirm == [(number, number)]

    assert len(duties._placed["here"]) < 2 * PLACED_SMALL
    assert duties.finished("here", [(501, 501)]).confirm == [(1, 1)]
