"""Doubt: every case of its tables; no call is made twice that nobody vouches for (continuity rules 2, 3, 12 and 14)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from holdfast.continuity.machines import doubt
from holdfast.continuity.machines.doubt import PAUSE_MAX_SECONDS, Decision, Doubt, judge, places_in_doubt, server_verdict

POLICIES = ("resend", "ask", "rebuild")
TIMEOUT = 10.0


def _table(header: str) -> list[list[str]]:
    """Return the rows of a table in the docstring: as many cells as its header has, what follows is an explanation."""
    lines = iter((doubt.__doc__ or "").splitlines())
    columns = re.split(r"  +", header)
    for line in lines:
        if re.split(r"  +", line.strip()) == columns:
            break
    rows = []
    for line in lines:
        if not line.startswith("    "):
            break
        rows.append(re.split(r"  +", line.strip())[: len(columns)])
    return rows


def _told(table: list[list[str]], *case: str) -> str:
    """Return the last cell of the one row that fits a case."""
    fitting = [row[-1] for row in table if all(cell in ("any", said) for cell, said in zip(row, case, strict=False))]
    assert len(fitting) == 1, (case, fitting)
    return fitting[0]


def _action(decision: Decision | None) -> str | None:
    return decision and decision.action


# --- after a restart -------------------------------------------------------------------------------------------------


def test_the_table_of_restarts_is_what_happens() -> None:
    table = _table("boot  begun  order  in doubt, among reserved places without a record")
    reserved, records, begun = 8, {4, 6}, {3, 4, 7}
    meant = {"those that had begun": [3, 7], "the first": [3], "all": [3, 5, 7, 8]}

    for boot, noted, order in product(("same", "other"), ("noted", "-"), ("domain", "session", "key")):
        told = _told(table, boot, noted, order).partition(":")[0]
        given: Any = begun if noted == "noted" else None
        assert places_in_doubt(reserved, 2, records, boot == "same", order, given) == meant[told]  # type: ignore[arg-type]


class _Life:
    """A listener of four places, up to a crash: what had begun, which records there are, how many of them are synced."""

    def __init__(self, begun: tuple[int, ...] = (), records: tuple[int, ...] = (), synced: int = 0) -> None:
        self.begun, self.records, self.synced = begun, records, synced

    def next(self, order: str, keys: str) -> Iterator[_Life]:
        if self.synced < len(self.records):
            yield _Life(self.begun, self.records, len(self.records))
        for place in range(1, 5):
            before = [each for each in range(1, place) if order == "domain" or keys[each - 1] == keys[place - 1]]
            if place not in self.begun and set(before) <= set(self.records):
                yield _Life((*self.begun, place), self.records, self.synced)
            if place in self.begun and place not in self.records:
                yield _Life(self.begun, (*self.records, place), self.synced)


def _lives(order: str, keys: str) -> list[_Life]:
    lives, seen = [_Life()], set()
    for life in lives:
        for each in life.next(order, keys):
            known = each.begun, each.records, each.synced
            if known not in seen:
                seen.add(known)
                lives.append(each)
    return lives


@pytest.mark.parametrize(("order", "keys"), [("domain", "aaaa"), ("key", "abab"), ("key", "aabb"), ("session", "abcd")])
def test_whatever_a_killed_listener_had_called_without_a_record_is_in_doubt_and_no_more_if_it_noted_its_calls(
    order: Any, keys: str
) -> None:
    lives = _lives(order, keys)

    for life in lives:
        prefix = next(place for place in range(5) if place + 1 not in life.records)
        uncertain = [place for place in sorted(life.begun) if place not in life.records]
        assert places_in_doubt(4, prefix, life.records, True, order, life.begun) == uncertain
        by_mark = places_in_doubt(4, prefix, life.records, True, order)
        assert set(by_mark) >= set(uncertain)
        assert order != "domain" or len(by_mark) <= 1
    assert len(lives) > 10


@pytest.mark.parametrize(("order", "keys"), [("domain", "aaaa"), ("key", "abab"), ("session", "abcd")])
def test_after_a_restart_of_the_machine_every_call_whose_record_is_lost_is_in_doubt(order: Any, keys: str) -> None:
    for life in _lives(order, keys):
        for kept in range(life.synced, len(life.records) + 1):
            records = life.records[:kept]
            prefix = next(place for place in range(5) if place + 1 not in records)
            found = places_in_doubt(4, prefix, records, False, order, life.begun)
            assert set(found) >= {place for place in life.begun if place not in records}
            assert not set(found) & set(records)


def test_after_a_restart_the_policy_is_followed_for_each_place_and_one_rebuild_stands_for_all() -> None:
    for policy, verdict, same_boot in product(POLICIES, ("same", "restarted", "rebuild", "unknown"), (True, False)):
        places = places_in_doubt(5, 2, {4}, same_boot)
        found = judge(5, 2, {4}, same_boot, policy, verdict)  # type: ignore[arg-type]
        if "rebuild" in (policy, verdict):
            assert found == [Decision(3, "rebuild")]
        else:
            assert found == [Decision(place, policy) for place in places]  # type: ignore[arg-type]


def test_with_nothing_in_doubt_only_a_server_that_lost_its_state_is_rebuilt() -> None:
    assert judge(5, 5, (), False, "rebuild", "same") == []
    assert judge(5, 5, (), True, "resend", "rebuild") == [Decision(6, "rebuild")]


# --- calls under way -------------------------------------------------------------------------------------------------


def test_the_table_of_failures_is_what_happens() -> None:
    table = _table("failure  deaths  policy  what to do")

    for failure, deaths, policy in product(("refused", "reset", "cut", "timed out"), (0, 1), POLICIES):
        calls = Doubt(policy, TIMEOUT, {7: deaths})  # type: ignore[arg-type]
        calls.began(7, 100.0, "start 1")
        found = calls.failed(7, failure, 101.0)  # type: ignore[arg-type]

        assert found.place == 7
        assert found.action == _told(table, failure, "second" if deaths else "first", policy)
        assert 101.0 <= found.at <= 101.0 + PAUSE_MAX_SECONDS
        assert (calls.in_doubt == []) == (failure == "refused")
        assert calls.deaths.get(7, 0) == deaths + (failure in ("reset", "cut"))


def test_the_table_of_the_probe_is_what_happens() -> None:
    table = _table("answer  time  start  what to do")

    for answer, time, start in product(("done", "running", "unknown"), ("left", "over"), ("same", "other", "-")):
        calls = Doubt("ask", TIMEOUT)
        calls.began(7, 100.0, "same")
        calls.failed(7, "reset", 101.0)
        now = 100.0 + TIMEOUT - (0.01 if time == "left" else 0.0)
        found = calls.probed(7, answer, now, None if start == "-" else start)  # type: ignore[arg-type]

        assert found is not None
        assert found.action == _told(table, answer, time, start)
        assert (calls.in_doubt == []) == (answer == "done")
        if found.action == "wait":
            assert now < found.at <= (100.0 + TIMEOUT if time == "left" else now + PAUSE_MAX_SECONDS)


def test_a_start_id_that_was_not_told_when_the_call_began_says_nothing_of_a_restart() -> None:
    calls = Doubt("ask", TIMEOUT)
    calls.began(7, 100.0, None)
    calls.failed(7, "timed out", 101.0)

    assert _action(calls.probed(7, "unknown", 102.0, "start 1")) == "wait"


def test_the_table_of_connections_is_what_happens() -> None:
    table = _table("start  forgets  last done  verdict")

    for start, forgets, last in product(("same", "other", "-"), ("yes", "no"), ("reached", "earlier", "-")):
        now = {"same": "1", "other": "2", "-": None}[start]
        found = server_verdict("1", now, forgets == "yes", None if last == "-" else last)  # type: ignore[arg-type]
        assert found == _told(table, start, forgets, last)
        if start == "-":
            assert server_verdict(None, "1", forgets == "yes", None if last == "-" else last) == found  # type: ignore[arg-type]


def test_a_call_is_made_again_only_if_the_server_has_certainly_not_done_it_and_never_while_it_runs() -> None:
    """Every life of a call of four steps, under the policies that do not rely on the server's knowing keys."""
    failures = ("refused", "reset", "cut", "timed out")
    answers = [*product(("done", "running", "unknown"), ("same", "other"))]
    count = 0
    for policy, *life in product(("ask", "rebuild"), *(4 * [[*failures, *answers]])):
        calls, now, is_running, is_over = Doubt(policy, TIMEOUT), 100.0, True, False  # type: ignore[arg-type]
        calls.began(1, now, "same")
        for step in life:
            now += 1.0
            if isinstance(step, tuple):  # from a probe: of now, or of long ago
                found = calls.probed(1, step[0], now, step[1])
            elif is_running:
                found, is_running = calls.failed(1, step, now), False  # type: ignore[arg-type]
            else:
                continue
            if found is not None and found.action == "resend":
                assert not is_running
                assert not is_over
                assert step in ("refused", ("unknown", "other"))
                calls.began(1, now, "same")
                is_running = True
                count += 1
            is_over = is_over or (found is not None and found.action in ("done", "skip"))
    assert count > 1_000


def test_after_a_vote_to_skip_a_request_it_is_never_called_again_here() -> None:
    calls = Doubt("resend", TIMEOUT)
    for now in (1.0, 2.0):
        calls.began(7, now)
        found = calls.failed(7, "reset", now)
    assert found.action == "skip"

    assert calls.failed(7, "timed out", 3.0).action == "skip"
    assert _action(calls.probed(7, "unknown", 999.0, "start 2")) == "skip"
    assert (calls.in_doubt, calls.dying) == ([7], [7])
    calls.finished(7)
    assert (calls.in_doubt, calls.deaths, calls.dying) == ([], {}, [])


def test_a_server_that_died_of_a_request_which_another_has_answered_is_rebuilt() -> None:
    calls = Doubt("resend", TIMEOUT, {7: 1, 8: 1})
    calls.failed(7, "cut", 1.0)

    assert calls.answered_elsewhere(7) == Decision(7, "rebuild")
    assert calls.answered_elsewhere(8) is None
    assert calls.answered_elsewhere(9) is None


def test_deaths_are_counted_through_restarts_of_the_listener() -> None:
    calls = Doubt("resend", TIMEOUT, {7: 1})

    found = calls.restored([7, 8], 50.0, has_died=True)

    assert [each.action for each in found] == ["skip", "resend"]
    assert calls.deaths == {7: 2, 8: 1}


def test_a_call_that_may_have_begun_before_a_restart_of_the_listener_has_its_whole_time_from_then_on() -> None:
    calls = Doubt("ask", TIMEOUT)

    assert calls.restored([7], 50.0) == [Decision(7, "ask", 50.0)]
    assert _action(calls.probed(7, "unknown", 50.0 + TIMEOUT - 0.1)) == "wait"
    assert _action(calls.probed(7, "unknown", 50.0 + TIMEOUT)) == "resend"


def test_pauses_before_a_call_is_made_again_grow_up_to_a_bound() -> None:
    calls = Doubt("resend", TIMEOUT)

    pauses = [calls.failed(7, "refused", 0.0).at for _ in range(100)]

    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == PAUSE_MAX_SECONDS
