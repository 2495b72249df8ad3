"""Membership: who counts, who is removed and who never is, who is named, and which level that makes (continuity rule 8)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.membership import (
    DISAGREEMENTS_MAX,
    ENGINES_MAX,
    MEMBERS_MAX,
    SKIPS_MAX,
    Change,
    Effect,
    Membership,
    Moved,
    Named,
    Refused,
    Registered,
    Skipped,
)


class _Topic:
    """A membership, and the place of the newest change."""

    def __init__(self, *current: str, servers_min: int = 1) -> None:
        self.members = Membership(servers_min)
        self.place = 0
        for name in current:
            self("join", name, site=f"site of {name}")
            self("current", name)

    def __call__(self, kind: Any, server: str = "", **fields: Any) -> list[Effect]:
        self.place += 1
        return self.members.apply(self.place, Change(kind, server, **fields))

    def states(self) -> dict[str, str]:
        return {name: each.state for name, each in self.members.members.items()}


# --- states ----------------------------------------------------------------------------------------------------------

# By state of a server, with enough others: the state after each change; "" means that it is refused.
TRANSITIONS = {
    #             join        current     behind        leave   remove     drain      rebuild
    "nobody":     ("joining", "", "", "", "", "", ""),
    "joining":    ("joining", "current", "joining", "gone", "removed", "drained", "rebuilding"),
    "current":    ("current", "current", "behind", "gone", "removed", "drained", "rebuilding"),
    "behind":     ("behind", "current", "behind", "gone", "removed", "drained", "rebuilding"),
    "rebuilding": ("rebuilding", "current", "rebuilding", "gone", "removed", "drained", "rebuilding"),
    "drained":    ("joining", "", "drained", "gone", "removed", "drained", "rebuilding"),
    "removed":    ("joining", "", "removed", "gone", "removed", "", "rebuilding"),
}  # fmt: skip
KINDS = ("join", "current", "behind", "leave", "remove", "drain", "rebuild")
TO_STATE: dict[str, tuple[str, ...]] = {
    "nobody": (), "joining": ("join",), "current": ("join", "current"), "behind": ("join", "current", "behind"),
    "rebuilding": ("join", "rebuild"), "drained": ("join", "drain"), "removed": ("join", "remove"),
}  # fmt: skip


@pytest.mark.parametrize(("state", "number"), list(product(TRANSITIONS, range(len(KINDS)))))
def test_every_change_in_every_state_does_what_the_table_says(state: str, number: int) -> None:
    topic = _Topic("other")
    for kind in TO_STATE[state]:
        topic(kind, "it", site="here")
    before, at = topic.members.encode(), topic.members.number

    effects = topic(KINDS[number], "it", site="here", reason="so")

    then = TRANSITIONS[state][number]
    if then in ("", state):
        assert topic.members.encode() == before
        assert [type(each) for each in effects] == ([] if then else [Refused])
    else:
        assert topic.states().get("it", "gone") == then
        assert effects == [Moved("it", then, "" if KINDS[number] in ("join", "current") else "so")]  # type: ignore[arg-type]
        assert topic.members.number == at + 1
        assert then == "gone" or topic.members.members["it"].since_place == topic.place


@pytest.mark.parametrize(("state", "kind"), list(product(("current", "behind"), ("leave", "remove", "drain", "rebuild"))))
def test_the_last_servers_are_never_removed(state: str, kind: str) -> None:
    topic = _Topic("one", "two", servers_min=2)
    if state == "behind":
        topic("behind", "two")
    before = topic.members.encode()

    effects = topic(kind, "two")

    if state == "behind" and kind in ("drain", "rebuild"):  # it serves nobody now, and keeps its subscription
        assert effects == [Moved("two", "drained" if kind == "drain" else "rebuilding")]
    else:
        assert isinstance(effects[0], Refused)
        assert "servers_min" in effects[0].reason
        assert topic.members.encode() == before


def test_a_shadow_does_not_count_as_one_of_the_last_and_is_always_removed() -> None:
    topic = _Topic("one")
    topic("join", "shade", role="shadow")
    topic("current", "shade")

    assert isinstance(topic("remove", "one")[0], Refused)
    assert topic("remove", "shade") == [Moved("shade", "removed")]


def test_a_shadow_that_is_current_becomes_a_server_at_once_and_the_last_server_no_shadow() -> None:
    topic = _Topic("old")
    topic("join", "new", role="shadow")
    topic("current", "new")
    assert topic.members.current == ["old"]

    assert isinstance(topic("join", "old", site="site of old", role="shadow")[0], Refused)
    topic("join", "new", role="server")
    assert topic.members.current == ["new", "old"]
    topic("join", "old", site="site of old", role="shadow")
    assert topic.members.current == ["new"]


def test_a_word_that_followed_another_state_is_out_of_date_and_refused() -> None:
    topic = _Topic("one", "two")
    since = topic.members.members["two"].since_place
    topic("rebuild", "two")

    assert isinstance(topic("current", "two", since=since)[0], Refused)
    assert topic.states()["two"] == "rebuilding"
    assert topic("current", "two", since=topic.members.members["two"].since_place) == [Moved("two", "current")]
    assert isinstance(topic("behind", "two", since=since)[0], Refused)


def test_a_name_that_is_none_and_one_server_too_many_are_refused() -> None:
    topic = _Topic(*(f"server-{number}" for number in range(MEMBERS_MAX)))

    assert isinstance(topic("join", "one-more")[0], Refused)
    assert isinstance(_Topic()("join", "No Name!")[0], Refused)
    assert len(topic.members.members) == MEMBERS_MAX


# --- answers that differ ---------------------------------------------------------------------------------------------


def _differ(topic: _Topic, answers: str, transaction: str = "t") -> list[Effect]:
    """Say that servers a, b, c … gave these answers, one letter each."""
    return topic("disagreement", transaction=transaction, answers=dict(zip("abcdef", answers, strict=False)))


@pytest.mark.parametrize(
    ("answers", "kind", "named"),
    [
        ("xy", "differ", "ab"), ("xxy", "wrong", "c"), ("yxx", "wrong", "a"), ("xyz", "differ", "abc"),
        ("xxyy", "differ", "abcd"), ("xxxy", "wrong", "d"), ("xxyz", "differ", "abcd"),
        ("xxxyz", "wrong", "de"), ("xxyyz", "differ", "abcde"),
    ],
)  # fmt: skip
def test_of_three_answers_or_more_the_minority_is_wrong_and_of_two_both_are_named(answers: str, kind: Any, named: str) -> None:
    topic = _Topic(*"abcde"[: len(answers)])

    assert _differ(topic, answers) == [Named(kind, tuple(named), "t")]
    counted = {name for name, each in topic.members.members.items() if each.disagreements}
    assert counted == (set(named) if kind == "wrong" else set())


@pytest.mark.parametrize("answers", ["", "x", "xx", "xxx"])
def test_equal_answers_are_no_disagreement(answers: str) -> None:
    topic = _Topic(*"abc")
    number = topic.members.number

    assert _differ(topic, answers) == []
    assert topic.members.number == number


def test_a_server_that_is_wrong_too_often_is_removed_and_counts_from_nothing_when_it_is_rebuilt() -> None:
    topic = _Topic(*"abc")
    for number in range(DISAGREEMENTS_MAX - 1):
        _differ(topic, "xxy", f"t{number}")
    assert topic.states()["c"] == "current"

    effects = _differ(topic, "xxy", "last")

    assert effects[1:] == [Moved("c", "removed", f"wrong {DISAGREEMENTS_MAX} times, at last in last")]
    topic("join", "c")
    topic("current", "c")
    assert topic.members.members["c"].disagreements == 0


def test_a_disagreement_that_is_told_twice_counts_once() -> None:
    topic = _Topic(*"abc")

    for _ in range(DISAGREEMENTS_MAX):
        _differ(topic, "xxy", "the same")

    assert topic.members.members["c"].disagreements == 1


def test_of_two_nobody_is_ever_removed_however_often_they_differ() -> None:
    topic = _Topic(*"ab")

    for number in range(10 * DISAGREEMENTS_MAX):
        _differ(topic, "xy", f"t{number}")

    assert topic.states() == {"a": "current", "b": "current"}


def test_a_wrong_server_stays_if_too_few_would_be_left() -> None:
    topic = _Topic(*"abc", servers_min=3)

    for number in range(DISAGREEMENTS_MAX):
        effects = _differ(topic, "xxy", f"t{number}")

    assert isinstance(effects[-1], Refused)
    assert topic.members.current == ["a", "b", "c"]


def test_a_shadow_makes_no_majority_and_is_named_but_not_removed() -> None:
    topic = _Topic(*"ab")
    for name in "cd":
        topic("join", name, role="shadow")
        topic("current", name)

    assert _differ(topic, "xyyy") == [Named("differ", ("a", "b"), "t")]
    for number in range(2 * DISAGREEMENTS_MAX):
        assert _differ(topic, "xxxy", f"t{number}") == [Named("wrong", ("d",), f"t{number}")]
    assert topic.states()["d"] == "current"
    assert topic.members.members["d"].disagreements == 2 * DISAGREEMENTS_MAX


def test_answers_of_servers_that_are_not_current_are_not_counted() -> None:
    topic = _Topic(*"abcd")
    topic("behind", "c")
    topic("behind", "d")

    assert _differ(topic, "xyyyy") == [Named("differ", ("a", "b"), "t")]


# --- engines, skips, levels ------------------------------------------------------------------------------------------


def test_engines_are_registered_by_name_and_the_oldest_is_forgotten_past_the_bound() -> None:
    topic = _Topic()
    assert topic("engine", engine="e", start="1", address="h:1", reply_to="q", site="s") == [Registered("e")]
    assert topic("engine", engine="e", start="1", address="h:1", reply_to="q", site="s") == []
    assert topic("engine", engine="e", start="2", address="h:1") == [Registered("e")]
    assert topic.members.engines["e"].start == "2"

    assert topic("engine", engine="e") == [Registered("e")]
    assert topic.members.engines == {}
    assert isinstance(topic("engine", engine="e")[0], Refused)
    for number in range(ENGINES_MAX + 1):
        topic("engine", engine=f"e{number}", start="1")
    assert list(topic.members.engines) == [f"e{number}" for number in range(1, ENGINES_MAX + 1)]


def test_a_request_is_skipped_when_every_current_server_has_died_of_it() -> None:
    topic = _Topic(*"ab")
    topic("join", "shade", role="shadow")

    assert isinstance(topic("skip", "shade", transaction="t")[0], Refused)
    assert topic("skip", "a", transaction="t") == []
    assert topic("skip", "a", transaction="t") == []
    assert not topic.members.is_skipped("t")
    assert topic("skip", "b", transaction="t") == [Skipped("t")]
    assert topic.members.is_skipped("t")


def test_a_server_that_dies_of_a_skipped_request_later_is_told_at_once() -> None:
    topic = _Topic("a")
    topic("skip", "a", transaction="t")
    topic("join", "b")
    number = topic.members.number

    assert topic("skip", "b", transaction="t") == [Skipped("t")]
    assert topic.members.number == number


def test_a_server_that_does_not_die_prevents_the_skip_until_it_is_removed() -> None:
    topic = _Topic(*"abc")
    topic("skip", "a", transaction="t")
    topic("skip", "b", transaction="t")

    assert topic("remove", "c") == [Moved("c", "removed"), Skipped("t")]


def test_requests_that_were_skipped_are_forgotten_past_the_bound() -> None:
    topic = _Topic("a")
    for number in range(SKIPS_MAX + 1):
        topic("skip", "a", transaction=f"t{number}")

    assert not topic.members.is_skipped("t0")
    assert topic.members.is_skipped("t1")


# --- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\xc0", Membership().encode()[:-1], b"\x97\x02\x01\x00\x90\x90\x90\x90"])
def test_bytes_that_are_no_membership_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="membership"):
        Membership.decode(data)


def test_a_change_travels_as_json_without_what_is_not_said() -> None:
    change = Change("disagreement", transaction="t", answers={"a": "00"})

    assert changes.encode(change) == b'{"kind":"disagreement","transaction":"t","answers":{"a":"00"}}'
    assert changes.decode(changes.encode(change)) == change


@pytest.mark.parametrize("data", [b"", b"{}", b'{"kind": "other"}', b'{"kind": "join", "server": 7}', b"[" * 100_000])
def test_data_that_are_no_change_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no change of a membership"):
        changes.decode(data)
