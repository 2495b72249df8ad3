"""What a place does next: how it begins, and which events it applies.

At a start, by what is known of its disk:

    subscription   mark of the disk         a current place   begin
    was there      ≥ the mark in Holdfast   any               go on
    else                                    is there          copy
    else                                    is not            wait: answer nothing, and look again

Then, for each event of the topic: pass it over if it is done, or if it is contained in what was copied; else apply it. What was
copied contains everything up to the `join` of the place (`passing_until`, its position); after it, the positions that came with
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Beginning = Literal["go on", "copy", "wait"]


def beginning(is_subscribed: bool, mark: int, mark_told: int | None, peers: Sequence[str]) -> Beginning:
    """How a place begins. `mark`: the number on its disk; `mark_told`: the newest that Holdfast was told, None if none;
    `peers`: other places that are current."""
    if is_subscribed and mark_told is not None and mark >= mark_told:
        return "go on"
    return "copy" if peers else "wait"


class Step(NamedTuple):
    what: Literal["apply", "pass"]
    has_passed: bool = False  # the join was reached: from now on, events count


class Intake:
    """Judges events in the order of the topic."""

    def __init__(self, passing_until: int | None) -> None:
        self.passing_until = passing_until

    def judge(self, position: int, is_done: bool) -> Step:
        """The next event. `is_done`: its position is among those that the catalog has done."""
        if self.passing_until is None:
            return Step("pass" if is_done else "apply")
        if position != self.passing_until:
            return Step("pass")
        self.passing_until = None
        return Step("pass", has_passed=True)
