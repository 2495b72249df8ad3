"""Order on generated requests, against a twin that looks at every pair: never two at once that touch, and never out of order."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.continuity.machines.order import Order

Keys = tuple[str, ...] | None


class Naive:
    """Look at all places before a place: it may be called when all that touch it have passed.

    A place that is finished before its turn passes when its turn comes: until then what follows on its keys waits.
    """

    def __init__(self) -> None:
        self.keys: dict[int, Keys] = {}
        self.finished: set[int] = set()
        self.told: set[int] = set()
        self.held: set[int] = set()

    def touches(self, one: int, other: int) -> bool:
        """Two places touch if they share a key, if one is a barrier, or if a barrier lies between."""
        first, second = self.keys[one], self.keys[other]
        if first is None or second is None or set(first) & set(second):
            return True
        return any(self.keys[place] is None for place in range(min(one, other) + 1, max(one, other)))

    def may_go(self) -> list[int]:
        """The places whose turn has come and that are not finished."""
        passed: set[int] = set()
        up: list[int] = []
        for place in self.keys:
            if all(before in passed for before in range(1, place) if self.touches(before, place)):
                if place in self.finished:
                    passed.add(place)
                else:
                    up.append(place)
        return up

    def take(self) -> list[int]:
        taken = [place for place in self.may_go() if place not in self.told | self.held]
        self.told.update(taken)
        return taken

    def prefix(self) -> int:
        return next((place - 1 for place in self.keys if place not in self.finished), len(self.keys))


KEYS = st.one_of(st.none(), st.lists(st.sampled_from("abcde"), min_size=1, max_size=3).map(tuple))
STEPS = st.lists(
    st.tuples(st.sampled_from(["admit", "admit", "finish", "take", "take", "hold", "resume"]), KEYS, st.integers(0, 30)),
    min_size=10,
    max_size=80,
)


EARLY: list[tuple[str, Keys, int]] = [("admit", ("a",), 0), ("admit", ("a", "b"), 0), ("finish", None, 1), ("admit", ("b",), 0)]


@given(STEPS)
@example(EARLY)
def test_an_order_tells_what_a_look_at_every_pair_tells(steps: list[tuple[str, Keys, int]]) -> None:
    order, naive = Order("key", 1_000), Naive()

    for what, keys, number in steps:
        places = [place for place in naive.keys if place not in naive.finished]
        if what == "admit":
            naive.keys[len(naive.keys) + 1] = keys
            order.admit(len(naive.keys), keys)
        elif places and what != "take":
            place = places[number % len(places)]
            getattr(order, what)(place)
            if what == "finish":
                naive.finished.add(place)
                naive.held.discard(place)
            elif what == "hold":
                naive.held.add(place)
            elif place in naive.held:
                naive.held.remove(place)
                naive.told.discard(place)
        if what == "take":
            assert order.take() == naive.take()
        assert order.finished == naive.prefix()
        assert order.held == sorted(naive.held)

    for place in list(naive.held):
        order.resume(place)
        naive.told.discard(place)
    naive.held.clear()
    _run_to_the_end(order, naive)


def _run_to_the_end(order: Order, naive: Naive) -> None:
    """When everything that is taken is finished, everything is taken."""
    running = [place for place in naive.told if place not in naive.finished]
    while True:
        told = order.take()
        assert told == naive.take()
        running += told
        if not running:
            break
        place = running.pop(len(running) // 2)
        order.finish(place)
        naive.finished.add(place)
    assert order.finished == len(naive.keys)
    assert (order._open, order._newest, list(order._line)) == ({}, {}, [])


@given(requests=st.lists(KEYS, max_size=40), dice=st.randoms(use_true_random=False))
def test_places_that_touch_never_run_at_once_and_run_in_the_order_of_the_topic(requests: list[Keys], dice: Random) -> None:
    order, naive = Order("key", 1_000), Naive()
    naive.keys = dict(enumerate(requests, 1))
    for place, keys in naive.keys.items():
        order.admit(place, keys)

    running: list[int] = []
    began: list[int] = []
    while told := order.take() or running:
        if told is not running:
            for place in told:
                assert not any(naive.touches(place, other) for other in running)
                running.append(place)
            began += told
        order.finish(running.pop(dice.randrange(len(running))))

    assert sorted(began) == list(naive.keys)
    by_key = {key: [place for place in began if key in (naive.keys[place] or "abcde")] for key in "abcde"}
    assert all(one < other for places in by_key.values() for one, other in pairwise(places))


@pytest.mark.parametrize("kind", ["domain", "session"])
def test_by_domain_and_by_session_every_short_life_keeps_the_order(kind: str) -> None:
    """All topics of four requests in two sessions, finished in all orders that can be."""
    for sessions in product("ab", repeat=4):
        _try_all(kind, sessions, ())


def _try_all(kind: str, sessions: tuple[str, ...], ended: tuple[int, ...]) -> None:
    order = Order(kind, 4)  # type: ignore[arg-type]
    for place, session in enumerate(sessions, 1):
        order.admit(place, (session,))
    told = order.take()
    for place in ended:
        order.finish(place)
        told += order.take()
    running = [place for place in told if place not in ended]

    lines = set(sessions) if kind == "session" else {"all"}
    assert len(running) <= len(lines)
    for line in lines:
        places = [place for place in told if line in ("all", sessions[place - 1])]
        assert places == sorted(places)
    assert running or len(ended) == len(sessions)
    for place in running:
        _try_all(kind, sessions, (*ended, place))
