"""Links that have not logged in: how long they may take, how many there may be, and what they may hold together (E7)."""

from __future__ import annotations

import random

from holdfast.errors import ProtocolError, Unavailable
from holdfast.wire.admission import Admission, AdmissionLimits

LIMITS = AdmissionLimits(links_max=3, held_bytes_max=100, hello_timeout_s=10, login_timeout_s=15)


def admission_of(*links: str) -> Admission[str]:
    """These connected, a second apart."""
    admission: Admission[str] = Admission(LIMITS)
    for now_s, link in enumerate(links):
        assert admission.connected(link, now_s) == []
    return admission


def test_the_oldest_silent_link_goes_when_there_are_too_many() -> None:
    admission = admission_of("a", "b", "c")

    (dropped,) = admission.connected("d", 3)

    assert dropped.link == "a"
    assert isinstance(dropped.problem, Unavailable)
    assert admission.links == 3


def test_whoever_has_greeted_stays_while_a_silent_link_can_go() -> None:
    admission = admission_of("a", "b", "c")
    admission.greeted("a", 3)
    admission.greeted("b", 3)

    assert [dropped.link for dropped in admission.connected("d", 4)] == ["c"]
    assert [dropped.link for dropped in admission.connected("e", 5)] == ["d"]


def test_a_newcomer_goes_itself_when_all_others_wait_for_their_login() -> None:
    admission = admission_of("a", "b", "c")
    for link in ("a", "b", "c"):
        admission.greeted(link, 3)

    assert [dropped.link for dropped in admission.connected("d", 4)] == ["d"]


def test_the_link_that_has_held_something_longest_goes_when_they_hold_too_much() -> None:
    admission = admission_of("a", "b", "c")
    assert admission.holds("b", 40) == []
    assert admission.holds("a", 40) == []
    admission.greeted("b", 4)

    dropped = admission.holds("c", 40)

    assert [each.link for each in dropped] == ["b"]
    assert isinstance(dropped[0].problem, Unavailable)
    assert (admission.held_bytes, admission.links) == (80, 2)


def test_one_that_holds_too_much_alone_goes_itself() -> None:
    admission = admission_of("a", "b")

    assert [each.link for each in admission.holds("b", 101)] == ["b"]
    assert admission.held_bytes == 0


def test_what_was_held_is_counted_no_more_when_its_frame_is_whole_or_its_link_is_gone() -> None:
    admission = admission_of("a", "b")
    admission.holds("a", 60)
    admission.holds("b", 30)

    admission.holds("a", 0)
    admission.forget("b")

    assert admission.held_bytes == 0


def test_nobody_is_counted_after_admission() -> None:
    admission = admission_of("a")
    admission.greeted("a", 1)
    admission.forget("a")

    assert admission.holds("a", 1 << 20) == []
    assert (admission.links, admission.held_bytes, admission.due_s) == (0, 0, None)


def test_a_hello_and_a_login_have_their_time_and_those_that_take_longer_go() -> None:
    admission = admission_of("a", "b")
    admission.greeted("b", 2)
    assert admission.due_s == 10

    assert admission.overdue(9.9) == []
    (silent,) = admission.overdue(10)
    assert admission.due_s == 17
    (waiting,) = admission.overdue(17)

    assert (silent.link, type(silent.problem)) == ("a", ProtocolError)
    assert (waiting.link, type(waiting.problem)) == ("b", Unavailable)
    assert admission.due_s is None


def test_whatever_strangers_do_the_limits_hold_and_each_is_dropped_at_most_once() -> None:
    chance = random.Random(4)
    admission: Admission[int] = Admission(LIMITS)
    known: set[int] = set()
    for step in range(20_000):
        link = chance.choice(sorted(known)) if known else 0
        match chance.randrange(5):
            case 0 | 1:
                known.add(step)
                dropped = admission.connected(step, step / 10)
            case 2:
                dropped = admission.holds(link, chance.choice((0, 10, 64)))
            case 3:
                admission.greeted(link, step / 10)
                dropped = admission.overdue(step / 10)
            case _:
                admission.forget(link)
                known.discard(link)
                dropped = []
        for each in dropped:
            known.remove(each.link)

        assert admission.links <= 3
        assert 0 <= admission.held_bytes <= 100
