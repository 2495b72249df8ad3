"""What a client manager knows of full destinations: a change that was lost on its way is found, and asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from holdfast.node.remote.known_watermarks import BEATS_AN_ANSWER, KnownWatermarks


def test_who_has_heard_every_change_asks_nothing() -> None:
    known = KnownWatermarks()
    known.told(3, 5)
    known.heard(3, 6)

    assert not known.must_ask(3, 6)


def test_a_change_that_was_lost_is_asked_for_once_and_again_when_the_answer_does_not_come() -> None:
    known = KnownWatermarks()
    known.told(3, 5)
    known.heard(3, 7)  # 6 was lost

    asked = [known.must_ask(3, 7) for _ in range(2 * BEATS_AN_ANSWER)]
    known.told(3, 7)

    assert [beat for beat, each in enumerate(asked) if each] == [0, BEATS_AN_ANSWER]
    assert not known.must_ask(3, 7)


def test_a_new_primary_is_asked_and_an_old_one_is_not_believed() -> None:
    known = KnownWatermarks()
    known.told(3, 5)

    assert known.must_ask(4, 5)
    known.told(3, 5)
    assert not known.must_ask(3, 9)
    known.told(4, 5)
    assert not known.must_ask(4, 5)


@given(some.lists(some.booleans(), max_size=40), some.integers(0, 40))
def test_whatever_is_lost_all_is_known_after_a_heartbeat_and_its_answer(arrives: list[bool], asked_at: int) -> None:
    """The answer may be older than what was heard meanwhile: then the next heartbeat asks again."""
    known, version, answer = KnownWatermarks(), 0, None
    known.told(1, 0)
    for place, is_heard in enumerate(arrives):
        version += 1
        if is_heard:
            known.heard(1, version)
        if place == asked_at:
            answer = version
    if answer is not None:
        known.told(1, answer)

    for _ in range(BEATS_AN_ANSWER + 1):
        if known.must_ask(1, version):
            known.told(1, version)

    assert not known.must_ask(1, version)
