"""Which subscriptions stand in the table of places before any manager has them (rule 10)."""

from __future__ import annotations

import pytest

from holdfast.destination import command
from holdfast.destination.removal import Limits
from holdfast.node.administration.standing_patterns import KEY_LENGTH_MAX, fallen_of, standing_of, subscribe_of


def test_a_durable_subscription_by_pattern_stands_with_its_terms() -> None:
    made = command.Subscribe("alerts.*", "pager", True, "", "origin", 7, "glob", "n > 1", True, replace=True)

    standing = standing_of(made)

    assert standing is not None
    assert (standing.key, standing.is_kept) == ("glob:alerts.* pager", False)
    again = subscribe_of(standing.terms)
    assert (again.topic, again.name, again.match, again.selector, again.is_shared) == ("alerts.*", "pager", "glob", "n > 1", True)
    assert (again.is_durable, again.origin, again.token, again.replace) == (True, "", 0, False)


def test_one_that_is_ensured_keeps_the_terms_that_stand_unless_they_are_changed() -> None:
    ensured = command.EnsureSubscription("alerts.*", "pager", True, match="glob", given=["selector"])
    updated = command.EnsureSubscription("alerts.*", "pager", True, match="glob", given=["selector"], update=True)

    assert [each.is_kept for each in map(standing_of, (ensured, updated)) if each is not None] == [True, False]


@pytest.mark.parametrize(
    "made",
    [
        command.Subscribe("alerts", "pager", True),
        command.Subscribe("alerts.*", "_s-1", False, "s", match="glob"),
        command.Subscribe("alerts.*", "pager", True, match="glob", limits=Limits()),
        command.Subscribe("a" * KEY_LENGTH_MAX, "pager", True, match="regex"),
        command.Create("alerts", "topic"),
    ],
)
def test_others_do_not_stand(made: command.Command) -> None:
    assert standing_of(made) is None


def test_only_the_subscription_of_a_pattern_falls() -> None:
    assert fallen_of(command.Unsubscribe("glob:alerts.*", "pager")) == "glob:alerts.* pager"
    assert fallen_of(command.Unsubscribe("alerts", "pager")) is None
    assert fallen_of(command.Unsubscribe("glob:alerts.*", "_s-1")) is None
    assert fallen_of(command.Create("alerts", "topic")) is None
