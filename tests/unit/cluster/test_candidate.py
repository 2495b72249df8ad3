from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster.candidate import BEHIND_MS_MAX, CALM_MS, CLAIM_AGAIN_MS, MARKS_MAX, Candidate
from holdfast.cluster.liveness import HEARTBEAT_MS, Liveness

OWN, OTHER, THIRD = "own", "other", "third"


def follower(rank: int = 0) -> Candidate:
    candidate = Candidate(OWN, rank, 0)
    candidate.began(3, OTHER, 0)
    candidate.followed(10, 10, 0)
    return candidate


def test_the_candidate_of_rank_0_claims_the_next_epoch_when_the_primary_is_silent_for_half_a_second() -> None:
    candidate = follower()

    assert candidate.claim(499, 499) is None
    assert candidate.claim(500, 500) == 4


def test_each_rank_waits_150_ms_longer() -> None:
    for rank in range(4):
        candidate = follower(rank)

        assert candidate.claim(499 + 150 * rank, 1_000) is None
        assert candidate.claim(500 + 150 * rank, 1_000) == 4


def test_a_candidate_that_is_more_than_a_tenth_of_a_second_behind_does_not_claim_until_it_has_caught_up() -> None:
    candidate = follower()
    candidate.followed(10, 12, 1_000)
    candidate.followed(11, 13, 1_050)

    assert candidate.behind_ms(1_000 + BEHIND_MS_MAX) == BEHIND_MS_MAX
    assert candidate.claim(500, 1_001 + BEHIND_MS_MAX) is None

    candidate.followed(12, 13, 1_120)
    assert candidate.behind_ms(1_120) == 70
    assert candidate.claim(500, 1_120) == 4


def test_a_candidate_under_constant_load_is_not_behind() -> None:
    candidate = follower()
    for now_ms in range(0, 2_000, 10):
        candidate.followed(now_ms, now_ms + 5, now_ms)

    assert candidate.behind_ms(2_000) <= 20
    assert candidate.claim(500, 2_000) == 4


def test_a_candidate_that_applies_nothing_is_behind_since_the_first_entry_it_misses_however_many_follow() -> None:
    candidate = follower()
    for number in range(10 * MARKS_MAX):
        candidate.followed(10, 11 + number, 1_000 + number)

    assert candidate.behind_ms(5_000) == 4_000


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(0, 5)), max_size=3 * MARKS_MAX))
def test_how_far_behind_it_is_equals_a_naive_account_to_within_a_dropped_mark(steps: list[tuple[int, int, int]]) -> None:
    candidate, now_ms, durable, applied = Candidate(OWN, 0, 0), 0, 0, 0
    durable_ms: dict[int, int] = {}
    for passed_ms, more_durable, more_applied in steps:
        now_ms += passed_ms
        for entry in range(durable + 1, durable + more_durable + 1):
            durable_ms[entry] = now_ms
        durable += more_durable
        applied = min(durable, applied + more_applied)
        candidate.followed(applied, durable, now_ms)

        naive = now_ms - durable_ms[applied + 1] if applied < durable else 0
        assert candidate.behind_ms(now_ms) <= naive
        if durable <= MARKS_MAX:  # no mark was dropped
            assert candidate.behind_ms(now_ms) == naive
        assert (candidate.behind_ms(now_ms) > 0) <= (applied < durable)


def test_a_claim_that_is_not_applied_is_made_again_after_a_second() -> None:
    candidate = follower()
    assert candidate.claim(500, 1_000) == 4

    assert candidate.claim(1_499, 1_000 + CLAIM_AGAIN_MS - 1) is None
    assert candidate.claim(1_500, 1_000 + CLAIM_AGAIN_MS) == 4


def test_another_candidate_that_was_first_is_followed_and_given_its_own_time() -> None:
    candidate = follower(rank=1)
    assert candidate.claim(700, 1_000) == 4

    assert not candidate.began(4, THIRD, 1_010)

    assert (candidate.epoch, candidate.primary) == (4, THIRD)
    assert candidate.claim(0, 1_020) is None
    assert candidate.claim(700, 1_710) == 5


def test_a_primary_does_not_claim_and_steps_down_when_it_reads_the_claim_of_another() -> None:
    candidate = follower()
    assert not candidate.began(4, OWN, 1_000)
    assert candidate.is_primary
    assert candidate.claim(60_000, 60_000) is None

    assert not candidate.began(5, OWN, 60_500)  # it started again, or claimed twice
    assert candidate.began(6, OTHER, 61_000)
    assert not candidate.is_primary


def test_an_epoch_that_is_not_newer_changes_nothing() -> None:
    candidate = follower()

    assert not candidate.began(3, THIRD, 10)
    assert not candidate.began(2, THIRD, 10)

    assert (candidate.epoch, candidate.primary) == (3, OTHER)


def test_a_deposed_primary_that_is_found_alive_doubles_the_limit_once_up_to_4_s() -> None:
    candidate, limits = follower(), []
    for epoch in range(4, 9):
        former = candidate.primary
        candidate.began(epoch, THIRD if former == OTHER else OTHER, 1_000 * epoch)
        candidate.heard(former, 1_000 * epoch + 5)
        candidate.heard(former, 1_000 * epoch + 105)
        limits.append(candidate.silence_ms)

    assert limits == [1_000, 2_000, 4_000, 4_000, 4_000]
    assert candidate.wrongly_suspected == 5
    assert candidate.claim(3_999, 20_000) is None
    assert candidate.claim(4_000, 20_000) == 9


def test_a_primary_that_resigned_or_stays_dead_or_claims_again_doubles_nothing() -> None:
    candidate = follower()

    candidate.resigns(3, THIRD)
    candidate.began(4, THIRD, 1_000)
    candidate.heard(OTHER, 1_100)
    candidate.began(5, THIRD, 1_200)
    candidate.heard(THIRD, 1_300)
    candidate.began(6, OTHER, 1_400)
    candidate.heard(OTHER, 1_500)
    candidate.heard("", 1_600)

    assert (candidate.silence_ms, candidate.wrongly_suspected) == (500, 0)


def test_the_successor_of_a_primary_that_resigns_claims_at_once_and_nobody_else_does() -> None:
    successor, other = follower(rank=2), follower(rank=0)
    for candidate in (successor, other):
        candidate.resigns(3, OWN if candidate is successor else THIRD)

    assert successor.is_invited and not other.is_invited
    assert successor.claim(0, 10) == 4
    assert other.claim(0, 10) is None
    assert other.claim(500, 500) == 4  # it does not wait for a successor that is dead, too


def test_a_successor_that_is_behind_claims_when_it_has_caught_up() -> None:
    candidate = follower()
    candidate.resigns(3, OWN)
    candidate.followed(10, 12, 1_000)

    assert candidate.claim(0, 1_001 + BEHIND_MS_MAX) is None
    candidate.followed(12, 12, 1_150)
    assert candidate.claim(0, 1_150) == 4


def test_what_the_primary_of_another_epoch_says_and_what_was_taken_back_invites_nobody() -> None:
    candidate = follower()
    candidate.resigns(2, OWN)
    assert candidate.claim(0, 10) is None

    candidate.resigns(3, OWN)
    candidate.resigns(3, "")
    assert candidate.claim(0, 20) is None

    candidate.resigns(3, OWN)
    candidate.began(4, THIRD, 30)  # another was first
    assert candidate.claim(0, 40) is None


def test_an_hour_without_a_wrong_suspicion_halves_the_limit_down_to_half_a_second() -> None:
    candidate = follower()
    for epoch, primary in ((4, THIRD), (5, OTHER)):
        former = candidate.primary
        candidate.began(epoch, primary, epoch)
        candidate.heard(former, epoch)

    limits = []
    for hour in range(1, 4):
        candidate.heard(OTHER, 5 + hour * CALM_MS - 1)
        limits.append(candidate.silence_ms)
        candidate.heard(OTHER, 5 + hour * CALM_MS)
        limits.append(candidate.silence_ms)

    assert limits == [2_000, 1_000, 1_000, 500, 500, 500]


def test_a_channel_that_never_had_a_primary_is_claimed_once_its_silence_since_the_start_is_over() -> None:
    candidate, liveness = Candidate(OWN, 1, 0), Liveness(OWN, 0)
    liveness.expect(candidate.primary, 0)
    claims = []
    for now_ms in range(0, 1_001, 50):
        liveness.heard(OWN, now_ms)
        claims.append((now_ms, candidate.claim(liveness.silent_ms(candidate.primary, now_ms), now_ms)))

    assert [claim for claim in claims if claim[1] is not None] == [(650, 1)]


def test_of_three_nodes_whose_primary_dies_exactly_one_claims_whatever_the_phases_of_their_clocks() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        nodes = [f"n{number}" for number in range(3)]
        phases = [dice.randrange(HEARTBEAT_MS) for _ in nodes]
        views = [(Liveness(node, 0), Candidate(node, rank, 0)) for rank, node in enumerate(nodes[1:])]
        claims: list[tuple[int, str]] = []
        for _, candidate in views:
            candidate.began(1, nodes[0], 0)
        for now_ms in range(3_000):
            for node, phase in zip(nodes, phases, strict=True):
                if now_ms % HEARTBEAT_MS == phase and not (node == nodes[0] and now_ms > 1_000):
                    for liveness, candidate in views:
                        liveness.heard(node, now_ms)
                        candidate.heard(node, now_ms)
            for (liveness, candidate), node in zip(views, nodes[1:], strict=True):
                epoch = candidate.claim(liveness.silent_ms(candidate.primary, now_ms), now_ms) if now_ms % 10 == 0 else None
                if epoch is not None:
                    claims.append((now_ms, node))
                    for each_liveness, each in views:
                        each.began(epoch, node, now_ms)
                        each_liveness.expect(node, now_ms)

        assert [node for _, node in claims] == ["n1"]
        assert 1_400 <= claims[0][0] <= 1_610


def test_a_candidate_whose_own_copy_led_and_is_gone_claims_again_and_so_does_none_that_follows_another() -> None:
    candidate = Candidate(OWN, 0, 0)
    candidate.began(3, OWN, 0)
    assert candidate.claim(1_000, 1_000) is None
    candidate.lost()
    assert (candidate.primary, candidate.claim(500, 1_000)) == ("", 4)

    other = follower()
    other.lost()
    assert (other.primary, other.claim(499, 1_000)) == (OTHER, None)
