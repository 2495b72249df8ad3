from __future__ import annotations

import itertools

import pytest

from holdfast.cluster.succession import BEHIND_ENTRIES_MAX, Standing, successors
from holdfast.errors import BadSetting, Unavailable

ORDER = ("a", "b", "c")


def standing(
    node: str, *, epoch: int = 3, behind: int = 0, is_heard: bool = True, is_drained: bool = False
) -> tuple[str, Standing]:  # fmt: skip
    return node, Standing(node, f"{node}-1", epoch, behind, is_heard, is_drained)


def names(found: list[Standing]) -> list[str]:
    return [each.node for each in found]


def test_the_first_by_rank_takes_over_and_the_primary_itself_never_does() -> None:
    standings = dict(standing(node) for node in ORDER)

    assert names(successors("m1", "b", 3, ORDER, standings)) == ["a", "c"]
    assert names(successors("m1", "a", 3, ORDER, standings)) == ["b", "c"]


def test_one_that_is_wanted_takes_over_alone() -> None:
    standings = dict(standing(node) for node in ORDER)

    assert names(successors("m1", "a", 3, ORDER, standings, "c")) == ["c"]
    with pytest.raises(BadSetting, match="'x' has no copy of m1; there are: a, b, c"):
        successors("m1", "a", 3, ORDER, standings, "x")


def test_whoever_is_silent_drained_far_behind_or_of_an_older_epoch_is_passed_over() -> None:
    for is_heard, is_drained, epoch, behind in itertools.product(
        (True, False), (False, True), (3, 2), (0, BEHIND_ENTRIES_MAX, BEHIND_ENTRIES_MAX + 1)
    ):
        poor = standing("b", is_heard=is_heard, is_drained=is_drained, epoch=epoch, behind=behind)
        found = names(successors("m1", "a", 3, ORDER, dict([standing("a"), poor, standing("c")])))

        is_able = is_heard and not is_drained and epoch == 3 and behind <= BEHIND_ENTRIES_MAX
        assert found == (["b", "c"] if is_able else ["c"])


def test_when_nobody_can_the_reason_for_each_is_said() -> None:
    with pytest.raises(Unavailable, match="b is drained; c is silent"):
        successors("m1", "a", 3, ORDER, dict([standing("b", is_drained=True)]))
    with pytest.raises(Unavailable, match="b has not followed so far; c has 9,000 entries to apply"):
        successors("m1", "a", 3, ORDER, dict([standing("b", epoch=2), standing("c", behind=9_000)]))
    with pytest.raises(Unavailable, match="a has the only copy"):
        successors("m1", "a", 3, ("a",), {})
