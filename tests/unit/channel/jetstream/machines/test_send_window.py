"""The send window: order, limits, repeats through an election, deadlines. Tried on every short history of answers, too."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.channel.jetstream.machines.send_window import PAUSE_MAX_S, PAUSE_MIN_S, GivenUp, Limits, SendWindow

LIMITS = Limits(count_max=4, bytes_max=1000, fragments_bytes_max=300, attempt_s=2.0, give_up_s=20.0)


def window(*lengths: int, limits: Limits = LIMITS) -> SendWindow:
    made = SendWindow(limits)
    for token, length in enumerate(lengths, 1):
        made.put(token, length, False, 0.0)
    return made


def sent_at(made: SendWindow, now: float) -> list[int]:
    """Everything that may be sent now."""
    found = []
    while (token := made.next_to_send(now)) is not None:
        found.append(token)
    return found


def test_commands_are_sent_in_their_order_up_to_a_count() -> None:
    made = window(1, 1, 1, 1, 1, 1)

    assert sent_at(made, 0.0) == [1, 2, 3, 4]
    made.accepted(2)
    assert sent_at(made, 0.0) == [5]


def test_commands_are_sent_up_to_a_number_of_bytes_and_one_always() -> None:
    made = window(5000, 600, 600, 1)

    assert sent_at(made, 0.0) == [1]
    made.accepted(1)
    assert sent_at(made, 0.0) == [2, 3]


def test_fragments_have_a_share_of_their_own_and_come_behind_what_waits() -> None:
    made = SendWindow(LIMITS)
    for token in range(1, 5):
        made.put(token, 200, True, 0.0)
    for token in range(5, 15):
        made.put(token, 100, False, 0.0)

    assert sent_at(made, 0.0) == [5, 6, 7, 8, 1, 2]
    made.accepted(1)
    assert sent_at(made, 0.0) == [3]
    made.accepted(5)
    assert sent_at(made, 0.0) == [9]


def test_bytes_that_wait_and_bytes_that_are_open_are_counted() -> None:
    made = window(100, 100, 100, 100, 100, 100)
    assert (made.waiting_bytes, made.open_bytes) == (600, 600)

    sent_at(made, 0.0)
    assert (made.waiting_bytes, made.open_bytes) == (200, 600)
    made.accepted(1)
    assert (made.waiting_bytes, made.open_bytes) == (200, 500)


def test_while_nobody_takes_commands_only_the_oldest_is_tried_with_growing_pauses() -> None:
    made = window(*[1] * 6)
    sent_at(made, 0.0)
    for token in (1, 2, 3, 4):
        made.not_taken(token, 0.0)

    assert sent_at(made, PAUSE_MIN_S / 2) == []
    now, pauses = 0.0, []
    for _ in range(6):
        at = made.wake_at()
        assert at is not None
        pauses.append(at - now)
        now = at
        assert sent_at(made, now) == [1]
        made.not_taken(1, now)

    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.5, 0.5])
    assert pauses[-1] == pytest.approx(PAUSE_MAX_S)


def test_once_a_server_takes_one_those_that_were_not_taken_follow_in_their_order_before_new_ones() -> None:
    made = window(*[1] * 6)
    sent_at(made, 0.0)
    for token in (3, 1, 4):  # 2 is on its way
        made.not_taken(token, 0.0)

    assert sent_at(made, 1.0) == [1]
    made.accepted(1)

    assert sent_at(made, 1.0) == [3, 4, 5]


def test_a_refusal_is_the_word_of_a_leader_and_ends_the_stall() -> None:
    made = window(*[1] * 4)
    sent_at(made, 0.0)
    made.not_taken(1, 0.0)
    made.not_taken(2, 0.0)

    assert sent_at(made, 1.0) == [1]
    made.refused(1)

    assert sent_at(made, 1.0) == [2]


def test_three_attempts_in_a_row_without_a_word_call_for_another_server() -> None:
    made = window(*[1] * 4)
    sent_at(made, 0.0)
    now = 0.0
    for silences in (1, 2, 3):
        now += 2.0
        assert made.expire(now) == []
        assert made.wants_another_server == (silences == 3)
        now += 0.5
        assert sent_at(made, now) == [1]

    made.turned_away()
    assert not made.wants_another_server


def test_a_word_in_between_begins_the_count_anew() -> None:
    made = window(1, 1)
    sent_at(made, 0.0)
    for now in (2.0, 5.0):
        made.expire(now)
        assert sent_at(made, now + 0.5) == [1]
    made.not_taken(1, 6.0)
    sent_at(made, 7.0)
    made.expire(9.0)

    assert not made.wants_another_server


def test_commands_sent_one_after_the_other_that_time_out_one_after_the_other_are_one_silence() -> None:
    made = SendWindow(LIMITS)
    for token in (1, 2, 3, 4):
        made.put(token, 1, False, 0.0)
        assert made.next_to_send(token / 10) == token

    for now in (2.1, 2.2, 2.3, 2.4):
        made.expire(now)

    assert not made.wants_another_server


def test_what_is_given_up_may_be_stored_unless_every_attempt_is_known_to_have_failed() -> None:
    made = window(*[1] * 5, limits=LIMITS._replace(count_max=3))
    assert sent_at(made, 0.0) == [1, 2, 3]
    made.not_taken(1, 0.0)  # 1 was refused by a server without a leader, 2 and 3 were never answered, 4 and 5 never sent

    assert made.expire(20.0) == [
        GivenUp(1, False), GivenUp(2, True), GivenUp(3, True), GivenUp(4, False), GivenUp(5, False)
    ]  # fmt: skip
    assert made.is_empty
    assert made.open_bytes == 0


def test_an_attempt_that_was_silent_may_have_succeeded_although_the_next_was_not_taken() -> None:
    made = window(1)
    sent_at(made, 0.0)
    made.expire(2.0)
    assert sent_at(made, 3.0) == [1]
    made.not_taken(1, 3.0)

    assert made.expire(20.0) == [GivenUp(1, True)]


def test_when_those_that_stalled_it_are_given_up_a_new_command_is_tried() -> None:
    made = window(1)
    sent_at(made, 0.0)
    made.not_taken(1, 0.0)
    made.put(2, 1, False, 10.0)
    made.expire(20.0)

    assert sent_at(made, 21.0) == [2]
    assert sent_at(made, 21.0) == []


def test_in_a_hurry_everything_is_given_up_earlier_and_what_was_never_sent_is_dropped() -> None:
    made = window(*[1] * 6)
    sent_at(made, 0.0)

    assert made.drop_waiting() == [5, 6]
    made.hurry(3.0)

    assert [each.token for each in made.expire(3.0)] == [1, 2, 3, 4]


def test_after_a_lost_connection_everything_that_was_under_way_is_sent_again_from_the_oldest_on() -> None:
    """A later command must not be taken first, only because it was put after the connection was lost."""
    made = window(*[1] * 6)
    sent_at(made, 0.0)
    made.accepted(2)
    assert sent_at(made, 0.0) == [5]
    made.not_taken(5, 0.0, is_answer=False)

    made.connection_lost(0.1)

    assert sent_at(made, 1.0) == [1]
    made.accepted(1)
    assert sent_at(made, 1.0) == [3, 4, 5, 6]
    for token in (3, 4, 5):
        made.accepted(token)
    made.connection_lost(2.0)
    assert sent_at(made, 3.0) == [6]
    made.accepted(6)
    made.connection_lost(4.0)
    assert made.wake_at() is None


def test_a_command_that_nobody_waits_for_any_more_says_nothing_about_the_servers() -> None:
    made = window(*[1] * 3)
    sent_at(made, 0.0)
    made.not_taken(1, 0.0)
    made.not_taken(2, 0.0)
    assert sent_at(made, 1.0) == [1]

    made.forget(1)

    assert sent_at(made, 1.0) == [2]
    assert sent_at(made, 1.0) == [], "it is stalled as before"


ANSWERS = ("accepted", "not taken", "silence")


def stored_by(history: tuple[str, ...]) -> list[int]:
    """What a leader stored that answers as told, and then takes everything."""
    made = window(*[1] * 7)
    answers = iter(history)
    stored: list[int] = []
    now = 0.0
    while not made.is_empty:
        while sent := sent_at(made, now):
            for token in sent:
                match next(answers, "accepted"):
                    case "accepted":
                        stored.append(token)
                        made.accepted(token)
                    case "not taken":
                        made.not_taken(token, now)
        now = max(now, made.wake_at() or now)
        assert made.expire(now) == []
    return stored


def test_after_any_history_of_six_answers_every_command_is_accepted_once_before_its_deadline() -> None:
    for history in itertools.product(ANSWERS, repeat=6):
        assert sorted(stored_by(history)) == list(range(1, 8)), history


def test_a_leader_that_takes_nothing_and_then_everything_has_them_in_their_order() -> None:
    for answer in ("not taken", "silence"):
        assert stored_by((answer,) * 6) == list(range(1, 8))


class Steps:
    """A window and a naive twin: what was put, what is sent, what is answered."""

    def __init__(self) -> None:
        self.window = SendWindow(LIMITS)
        self.put: list[int] = []
        self.first_sent: list[int] = []
        self.answered: set[int] = set()
        self.now = 0.0

    def send(self) -> None:
        for token in sent_at(self.window, self.now):
            assert token not in self.answered, "what was answered is not sent again"
            if token not in self.first_sent:
                self.first_sent.append(token)

    def open(self) -> list[int]:
        return [token for token in self.first_sent if token not in self.answered]


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "accept", "not taken", "refuse", "time", "lost", "forget"]), st.integers(0, 9)),
        max_size=60,
    )
)
def test_no_command_is_lost_or_answered_twice_whatever_happens(steps: list[tuple[str, int]]) -> None:
    world = Steps()
    for step, chosen in steps:
        open_now = world.open()
        match step:
            case "put":
                world.put.append(len(world.put) + 1)
                world.window.put(world.put[-1], 100 * chosen, False, world.now)
            case "time":
                world.now += chosen
                given_up = {each.token for each in world.window.expire(world.now)}
                assert not given_up & world.answered
                world.answered |= given_up
            case "lost":
                world.window.connection_lost(world.now)
            case answer if open_now:
                token = open_now[chosen % len(open_now)]
                if answer == "not taken":
                    world.window.not_taken(token, world.now)
                else:
                    answered = {"accept": world.window.accepted, "refuse": world.window.refused, "forget": world.window.forget}
                    answered[answer](token)
                    world.answered.add(token)
        world.send()
        assert len(world.open()) <= LIMITS.count_max
        assert world.first_sent == sorted(world.first_sent), "new commands go in their order"
        at = world.window.wake_at()
        assert (at is None) == (set(world.put) == world.answered), "whoever waits is woken"

    world.now += LIMITS.give_up_s
    world.answered |= {each.token for each in world.window.expire(world.now)}
    assert world.answered == set(world.put)
    assert world.window.open_bytes == 0
