from __future__ import annotations

from holdfast.cluster.liveness import CUT_OFF_MS, FORGOTTEN_MS, HEARTBEAT_MS, SILENCE_MS, Liveness

OWN, OTHER, THIRD = "own", "other", "third"


def hear(liveness: Liveness, *starts: str, from_ms: int, until_ms: int) -> int:
    """Each of these nodes is heard every 100 ms."""
    for now_ms in range(from_ms, until_ms + 1, HEARTBEAT_MS):
        for start in starts:
            liveness.heard(start, now_ms)
    return until_ms


def test_a_node_that_is_not_heard_for_half_a_second_is_silent() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, OTHER, from_ms=0, until_ms=1_000)

    hear(liveness, OWN, from_ms=1_100, until_ms=1_400)
    assert not liveness.is_silent(OTHER, 1_499)

    assert liveness.is_silent(OTHER, 1_500)
    assert liveness.silent_ms(OTHER, 1_500) == SILENCE_MS
    assert liveness.alive(1_500) == [OWN]


def test_a_node_that_is_heard_again_is_not_silent() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, OTHER, from_ms=0, until_ms=100)
    hear(liveness, OWN, from_ms=200, until_ms=900)
    assert liveness.is_silent(OTHER, 900)

    liveness.heard(OTHER, 950)

    assert liveness.silent_ms(OTHER, 960) == 10
    assert liveness.alive(960) == [OTHER, OWN]


def test_a_node_that_should_be_there_is_silent_from_when_it_was_expected() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, from_ms=0, until_ms=100)

    liveness.expect(OTHER, 150)
    hear(liveness, OWN, from_ms=200, until_ms=600)
    liveness.expect(OTHER, 640)

    assert not liveness.is_silent(OTHER, 649)
    assert liveness.is_silent(OTHER, 650)
    assert liveness.silent_ms("nobody", 650) == 0


def test_a_node_that_was_stopped_suspects_nobody_for_what_it_did_not_read() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, OTHER, from_ms=0, until_ms=1_000)

    liveness.heard(OWN, 9_000)

    assert liveness.silent_ms(OTHER, 9_000) == 0
    hear(liveness, OWN, from_ms=9_100, until_ms=9_500)
    assert liveness.is_silent(OTHER, 9_500)


def test_a_pause_in_which_it_would_still_hear_itself_forgives_nothing() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, OTHER, from_ms=0, until_ms=1_000)
    hear(liveness, OWN, from_ms=1_100, until_ms=1_300)

    liveness.heard(OWN, 1_300 + CUT_OFF_MS - 1)

    assert liveness.silent_ms(OTHER, 1_300 + CUT_OFF_MS) == 300 + CUT_OFF_MS


def test_a_node_that_does_not_hear_itself_is_cut_off_and_suspects_nobody() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, OTHER, THIRD, from_ms=0, until_ms=1_000)

    suspected = [liveness.is_silent(each, now_ms) for now_ms in range(1_100, 5_000, 100) for each in (OTHER, THIRD)]

    assert not any(suspected)
    assert liveness.alive(1_000 + CUT_OFF_MS - 1) == [OTHER, OWN, THIRD]
    assert liveness.alive(1_000 + CUT_OFF_MS) == []


def test_when_it_hears_itself_again_each_silence_begins_anew() -> None:
    liveness = Liveness(OWN, 0)
    hear(liveness, OWN, OTHER, from_ms=0, until_ms=1_000)
    for now_ms in range(1_100, 3_000, 100):
        liveness.silent_ms(OTHER, now_ms)

    hear(liveness, OWN, from_ms=3_000, until_ms=3_400)

    assert liveness.silent_ms(OTHER, 3_499) == 499
    assert liveness.is_silent(OTHER, 3_500)


def test_a_node_that_is_gone_for_long_is_forgotten_and_this_one_is_not() -> None:
    liveness = Liveness(OWN, 0)
    liveness.heard(OTHER, 0)
    hear(liveness, OWN, THIRD, from_ms=0, until_ms=FORGOTTEN_MS)

    assert liveness.forget_lost(FORGOTTEN_MS - 1) == []
    assert liveness.forget_lost(FORGOTTEN_MS) == [OTHER]
    assert liveness.forget_lost(2 * FORGOTTEN_MS) == [THIRD]
