"""Links over a network that loses, repeats, delays and reorders, between peers that stop, start again and are taken over."""

from __future__ import annotations

import itertools

import pytest

from holdfast.bus.link.frame import BODY_BYTES_MAX, Frame
from tests import effort
from tests.linked_sides import MANAGER, Faults, LinkedSides

pytestmark = pytest.mark.slow

FAULTS = [
    Faults(lost=0.2),
    Faults(repeated=0.3, delay_ms=60),
    Faults(delay_ms=300),
    Faults(lost=0.1, repeated=0.1, delay_ms=100, late=0.05),
    Faults(lost=0.5, repeated=0.5, delay_ms=500, late=0.2),
    Faults(repeated=0.5, late=0.1, late_ms=20_000),
]


@pytest.mark.parametrize("faults", FAULTS, ids=str)
def test_everything_comes_once_and_in_order_or_both_sides_hear_of_a_new_link(faults: Faults) -> None:
    first = effort.seed(20_261_118)
    for seed in range(first, first + effort.rounds(short=12, long=300)):
        run = LinkedSides(seed, faults)
        live_through(run)

        run.check()
        run.heal()
        assert not run.is_anything_travelling
        run.say_to_all()
        run.pass_time(200)

        run.check_healed()


def live_through(run: LinkedSides) -> None:
    """Sixty steps: talk, time, peers that stop and go on, start again, are taken over or given up."""
    run.take_over(former_lives=False)
    for _ in range(2):
        run.start_client()
    for _ in range(60):
        party = run.dice.choice(list(run.parties.values()))
        match run.dice.choices(("talk", "time", "burst", "stop", "restart", "take over", "forget"), (30, 30, 4, 3, 1, 1, 1))[0]:
            case "talk":
                run.say_to_all(run.dice.choice((0, 100, 10_000)))
            case "time":
                run.pass_time(run.dice.choice((25, 100, 100, 1_000, 1_000, 12_000)))
            case "burst":
                for _ in range(run.dice.randint(5, 30)):
                    run.say_to_all(run.dice.choice((100, BODY_BYTES_MAX)))
            case "stop" if party.is_stopped:
                run.resume(party)
            case "stop":
                party.is_stopped = True
            case "restart":
                run.stop_for_ever(run.dice.choice(run.clients))
                run.start_client()
            case "take over":
                run.take_over(former_lives=run.dice.random() < 0.5)
            case "forget":
                side, start = run.primary.side, run.dice.choice(run.clients).id[1]
                run._publish(run.primary, side.forget(start, "it was silent", run.now_ms))  # type: ignore[union-attr]


FRAMES = 8


def test_whichever_of_the_first_frames_are_lost_everything_comes() -> None:
    for lost in itertools.product((False, True), repeat=effort.rounds(short=FRAMES, long=FRAMES + 4)):
        run = LinkedSides(0)
        run.is_lost = lambda number, _, lost=lost: number <= len(lost) and lost[number - 1]  # type: ignore[misc]
        run.take_over(former_lives=False)
        run.start_client()
        for _ in range(3):
            run.pass_time(25)
            run.say_to_all()
        run.pass_time(18_000)

        run.say_to_all()
        run.pass_time(200)

        run.check_healed()


def test_in_whichever_order_the_first_frames_come_everything_comes() -> None:
    for order in itertools.permutations(range(6)):
        run = LinkedSides(0)
        primary, client = run.take_over(former_lives=False), run.start_client()
        run.pass_time(25)
        for _ in range(3):
            run.say_to_all()
        travelling = run._travelling
        assert len(travelling) == len(order)

        run._travelling = sorted((at_ms, place, frame) for place, (at_ms, _, frame) in zip(order, travelling, strict=True))
        run.pass_time(200)

        run.check_healed()
        assert len(client.heard[MANAGER, 1]) == len(primary.heard["start1", 1]) == 3


def test_a_frame_that_is_lost_is_sent_again_and_no_other() -> None:
    run = LinkedSides(0)
    run.take_over(former_lives=False)
    client = run.start_client()
    run.pass_time(25)
    sent: list[int] = []

    def lose_the_third(_: int, frame: Frame) -> bool:
        sent.extend([frame.sequence] if frame.sequence else [])
        return frame.sequence == 3 and sent.count(3) == 1

    run.is_lost = lose_the_third

    for _ in range(10):
        run.say(client, MANAGER)
    run.pass_time(500)

    run.check_healed()
    assert sorted(sent) == sorted([*range(1, 11), 3])
