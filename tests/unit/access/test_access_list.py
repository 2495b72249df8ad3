"""Access lists: the first rule that fits decides, and what no rule mentions is forbidden (E7)."""

from __future__ import annotations

import pytest

from holdfast.access.access_list import ACTIONS, KNOWN_MAX, AccessList, Rule
from holdfast.event.pattern import Pattern


def rule(who: str, destination: str, *actions: str, allow: bool = True) -> Rule:
    return Rule(who, Pattern.glob(destination), frozenset(actions or ACTIONS), allow)


def access(*rules: Rule) -> AccessList:
    return AccessList(rules, {"clerks": ("alice", "bob")})


def test_what_no_rule_mentions_is_forbidden() -> None:
    listed = access(rule("alice", "orders", "send"))

    assert listed.may("alice", "send", "orders")
    assert not listed.may("alice", "receive", "orders")
    assert not listed.may("alice", "send", "orders.new")
    assert not listed.may("bob", "send", "orders")
    assert not access().may("alice", "send", "orders")


def test_the_first_rule_that_fits_decides_whether_it_allows_or_denies() -> None:
    denied_first = access(rule("alice", "orders.secret", allow=False), rule("alice", "orders.*"))
    allowed_first = access(rule("alice", "orders.*"), rule("alice", "orders.secret", allow=False))

    assert not denied_first.may("alice", "send", "orders.secret")
    assert denied_first.may("alice", "send", "orders.new")
    assert allowed_first.may("alice", "send", "orders.secret")


def test_a_rule_that_is_about_another_action_is_passed_over() -> None:
    listed = access(rule("alice", "**", "receive", allow=False), rule("alice", "**"))

    assert listed.may("alice", "send", "orders")
    assert not listed.may("alice", "receive", "orders")


def test_rules_name_a_user_a_group_or_everyone() -> None:
    listed = access(rule("alice", "a"), rule("@clerks", "c"), rule("*", "e"))

    assert [[listed.may(user, "send", name) for name in "ace"] for user in ("alice", "bob", "carol")] == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
    ]


@pytest.mark.parametrize("reserved", ["_DMQ", "_LOG", "_ADMIN"])
def test_only_a_pattern_with_an_underscore_reaches_what_is_reserved(reserved: str) -> None:
    listed = access(rule("alice", "**"), rule("alice", ">"), rule("bob", reserved), rule("carol", "_*"))

    assert [listed.may(user, "receive", reserved) for user in ("alice", "bob", "carol")] == [False, True, True]
    assert not listed.may("carol", "receive", "orders")


def test_whoever_may_do_anything_to_a_destination_may_see_it() -> None:
    listed = access(rule("alice", "orders", "browse"), rule("alice", "bills", "send", allow=False))

    assert [listed.of("alice").may_see(name) for name in ("orders", "bills", "other")] == [True, False, False]


def test_any_number_of_questions_costs_bounded_memory_and_changes_no_answer() -> None:
    rights = access(rule("alice", "orders.*", "send")).of("alice")

    answers = [rights.may("send", f"orders.{number}") for number in range(3 * KNOWN_MAX)]

    assert all(answers)
    assert len(rights._known) <= KNOWN_MAX
    assert not rights.may("receive", "orders.1")


def test_nothing_is_remembered_of_a_name_that_no_destination_has() -> None:
    rights = access(rule("alice", "**", "send")).of("alice")

    assert not rights.may("send", "x" * 256)

    assert not rights._known


@pytest.mark.parametrize(
    ("rules", "asked", "expected"),
    [
        ([rule("*", "orders.*")], Pattern.glob("orders.*"), True),
        ([rule("*", "**")], Pattern.glob("orders.*"), True),
        ([rule("*", ">")], Pattern.regex("orders.*"), True),
        ([rule("*", "orders.**")], Pattern.glob("orders.eu.*"), True),
        ([rule("*", "orders.>")], Pattern.glob("orders.*"), True),
        ([rule("*", "orders.>")], Pattern.glob("orders.**"), False),  # which means "orders" as well
        ([rule("*", "orders.*")], Pattern.glob("orders.**"), False),
        ([rule("*", "orders.*")], Pattern.glob("**"), False),
        ([rule("*", "orders.**")], Pattern.regex(r"orders\..*"), False),  # nobody can tell from its text
        ([rule("*", "orders")], Pattern.glob("orders"), True),
        ([rule("*", "**")], Pattern.glob("_*"), False),
        ([rule("*", "**")], Pattern.regex("_.*|orders"), False),
        ([rule("*", "_LOG.>")], Pattern.glob("_LOG.a.*"), True),
        ([rule("*", "orders.secret", allow=False), rule("*", "**")], Pattern.glob("orders.*"), False),
        ([rule("*", "orders.secret", allow=False), rule("*", "**")], Pattern.glob("orders.**"), False),
        ([rule("*", "orders", allow=False), rule("*", "**")], Pattern.glob("orders.**"), False),
        ([rule("*", "orders.secret", allow=False), rule("*", "**")], Pattern.glob("bills.*"), True),
        ([rule("*", "orders.secret", allow=False), rule("*", "**")], Pattern.regex("bills"), False),
        ([rule("*", "**", "send")], Pattern.glob("orders.*"), False),
        ([rule("*", "orders.secret", "send", allow=False), rule("*", "**")], Pattern.glob("orders.*"), True),
        ([rule("*", "**"), rule("*", "orders.secret", allow=False)], Pattern.glob("orders.*"), True),
    ],
)
def test_a_pattern_is_allowed_only_if_everything_it_could_match_surely_is(
    rules: list[Rule], asked: Pattern, expected: bool
) -> None:
    assert access(*rules).of("alice").may_pattern("receive", asked) is expected


def test_a_pattern_that_is_allowed_matches_nothing_that_is_forbidden() -> None:
    """All pairs of rules and all patterns of a small world, against asking for every name in it."""
    names = ["a", "b", "a.a", "a.b", "b.a", "a.a.a", "a/b", "_a", "_a.b"]
    globs = ["a", "a.*", "a.**", "a.>", "*", "**", ">", "*.a", "a.b", "_a", "_a.>", "a/*", "?.b", "a*"]
    checked = 0
    for first in globs:
        for is_allowed in (True, False):
            for second in globs:
                rights = access(rule("*", first, allow=is_allowed), rule("*", second)).of("alice")
                for asked in map(Pattern.glob, globs):
                    if rights.may_pattern("receive", asked):
                        checked += 1
                        assert all(rights.may("receive", name) for name in names if asked.matches(name)), (first, second, asked)
    assert checked > 500
