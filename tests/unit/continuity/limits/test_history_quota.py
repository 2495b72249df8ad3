"""The quota of the history: it is kept within it, and never given up past a snapshot that is needed (continuity rule 8)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.domain import HistoryLimit
from holdfast.continuity.limits.history_quota import FORCED, NEWER, Held, judge
from holdfast.continuity.machines.change import State
from holdfast.continuity.machines.membership import Member

QUOTA = HistoryLimit(events=100, bytes=0)


def member(snapshot: int, state: State = "current") -> Member:
    return Member("", "server", state, 1, snapshot=snapshot)


def test_below_the_quota_the_history_is_kept_for_every_member_also_one_without_a_snapshot() -> None:
    members = {"a": member(60), "b": member(0, "removed")}

    assert judge(members, QUOTA, Held(74), "a", Held(74), True) == (0, False, "")
    assert judge(members | {"b": member(40)}, QUOTA, Held(74), "a", Held(74), True).give_up_to == 40


def test_from_three_quarters_of_the_quota_a_current_server_whose_snapshot_is_old_takes_another() -> None:
    members = {"a": member(0), "b": member(0, "behind")}

    assert judge(members, QUOTA, Held(75), "a", Held(75), can_take=True).is_forced
    assert not judge(members, QUOTA, Held(75), "a", Held(75), can_take=False).is_forced
    assert not judge(members, QUOTA, Held(75), "b", Held(75), can_take=True).is_forced
    assert not judge(members, QUOTA, Held(75), "a", Held(24), can_take=True).is_forced


def test_at_the_quota_only_current_servers_with_a_snapshot_are_heeded_and_without_any_it_is_told() -> None:
    members = {"a": member(80), "b": member(0), "c": member(10, "removed"), "d": member(70)}

    assert judge(members, QUOTA, Held(100), "a", Held(1), True).give_up_to == 70
    found = judge({"b": member(0)}, QUOTA, Held(100), "b", Held(100), False)
    assert (found.give_up_to, found.is_forced) == (0, False)
    assert "--snapshot" in found.problem


def test_bytes_count_as_events_do_and_zero_is_no_limit() -> None:
    members = {"a": member(0)}

    assert judge(members, HistoryLimit(events=0, bytes=1_000), Held(5, 800), "a", Held(5, 800), True).is_forced
    assert not judge(members, HistoryLimit(events=0, bytes=0), Held(10**9, 10**12), "a", Held(10**9), True).is_forced


KEPT = 2


@given(
    st.lists(st.tuples(st.integers(1, 10), st.sampled_from("abc"), st.sampled_from(["current", "behind"])), max_size=120),
    st.sets(st.sampled_from("bc")),
)
def test_the_history_stays_within_its_quota_while_one_current_server_takes_snapshots(
    steps: list[tuple[int, str, State]], able: set[str]
) -> None:
    """Server a is current and takes snapshots; the others fail and come back, and some take none."""
    newest, given_up = 0, 0
    taken: dict[str, list[int]] = {name: [] for name in "abc"}
    states: dict[str, State] = dict.fromkeys("abc", "current")

    for came, name, state in steps:
        newest += came
        states[name] = "current" if name == "a" else state
        members = {each: member(min(taken[each], default=0), states[each]) for each in "abc"}
        for each in "abc":
            since = newest - max(taken[each], default=0)
            can_take = each in {"a", *able}
            found = judge(members, QUOTA, Held(newest - given_up), each, Held(since), can_take, given_up)
            if found.is_forced:
                assert newest - given_up >= FORCED * QUOTA.events
                taken[each] = [*taken[each], newest][-KEPT:]
            oldest = [min(taken[one]) for one in "abc" if states[one] == "current" and taken[one]]
            needed = [place for place in oldest if place >= given_up]  # of one that was away, the history may have gone past it
            if states[each] == "current":
                given_up = max(given_up, found.give_up_to)
            assert given_up <= min(needed, default=given_up if oldest else 0)
        assert newest - given_up <= QUOTA.events * (1 + 2 * NEWER) + 2 * 10  # each that comes back holds it for one snapshot more
