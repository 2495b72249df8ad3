"""The coordinator of a transaction over several managers (ADR 25, B11): row by row, and in every order beside another one."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.cluster.transaction_coordinator import Kind, Step, TransactionCoordinator

TWO = ["east", "west"]
PREPARED = ("prepared",)


def all_prepared() -> TransactionCoordinator:
    made = TransactionCoordinator(TWO)
    for step in made.steps():
        made.answered(step, PREPARED)
    return made


def test_it_prepares_at_all_decides_at_the_first_finishes_at_all_and_completes_at_the_first() -> None:
    coordinator = TransactionCoordinator(TWO)

    assert coordinator.steps() == [Step(Kind.PREPARE, "east"), Step(Kind.PREPARE, "west")]
    coordinator.answered(Step(Kind.PREPARE, "west"), PREPARED)
    assert coordinator.steps() == [Step(Kind.PREPARE, "east")]
    coordinator.answered(Step(Kind.PREPARE, "east"), PREPARED)
    assert coordinator.steps() == [Step(Kind.COMMIT, "east")]
    coordinator.answered(Step(Kind.COMMIT, "east"), ("commit",))
    assert coordinator.steps() == [Step(Kind.FINAL_COMMIT, "east"), Step(Kind.FINAL_COMMIT, "west")]
    assert coordinator.is_commit is True
    for name in reversed(TWO):
        coordinator.answered(Step(Kind.FINAL_COMMIT, name), ("committed", 1, 2, 3, 0))
    assert coordinator.results == {"east": ("committed", 1, 2, 3, 0), "west": ("committed", 1, 2, 3, 0)}
    assert coordinator.steps() == [Step(Kind.COMPLETE, "east")]
    coordinator.answered(Step(Kind.COMPLETE, "east"), None)

    assert coordinator.steps() == [] and coordinator.is_over


@pytest.mark.parametrize("status", [("aborted", "part 1 is missing"), None])
def test_one_that_cannot_prepare_aborts_all(status: tuple[str, ...] | None) -> None:
    coordinator = TransactionCoordinator(TWO)
    coordinator.answered(Step(Kind.PREPARE, "east"), PREPARED)

    coordinator.answered(Step(Kind.PREPARE, "west"), status)

    assert [(step.kind, step.participant) for step in coordinator.steps()] == [(Kind.ABORT, "east")]
    assert coordinator.reason == f"message manager 'west' refused it: {status[1] if status else 'it does not prepare it'}"
    coordinator.answered(coordinator.steps()[0], ("abort", coordinator.reason))
    assert [step.kind for step in coordinator.steps()] == [Kind.FINAL_ABORT] * 2


def test_it_may_give_up_until_all_are_prepared_and_not_after() -> None:
    early, late = TransactionCoordinator(TWO), all_prepared()

    early.give_up("it took too long")
    late.give_up("it took too long")

    assert early.steps() == [Step(Kind.ABORT, "east", "it took too long")]
    assert late.steps() == [Step(Kind.COMMIT, "east")]


def test_the_decision_that_stands_counts_whatever_was_asked_for() -> None:
    committing, recovering = all_prepared(), TransactionCoordinator(TWO, is_recovering=True)

    committing.answered(committing.steps()[0], ("abort", "somebody was faster"))
    (step,) = recovering.steps()
    recovering.answered(step, ("commit",))

    assert (committing.is_commit, committing.reason) == (False, "somebody was faster")
    assert recovering.is_commit is True and [each.kind for each in recovering.steps()] == [Kind.FINAL_COMMIT] * 2


def test_a_participant_that_is_committed_already_says_so_in_answer_to_a_prepare() -> None:
    coordinator = TransactionCoordinator(TWO)

    coordinator.answered(Step(Kind.PREPARE, "west"), ("committed", 0, 0, 0, 0))
    coordinator.answered(Step(Kind.PREPARE, "east"), ("aborted", "late"))

    assert coordinator.is_commit is True


def test_a_final_that_is_refused_is_not_said_again_and_a_decision_that_is_refused_becomes_an_abort() -> None:
    refused, decided = all_prepared(), TransactionCoordinator(TWO, is_recovering=True)

    refused.answered(Step(Kind.COMMIT, "east"), None)
    decided.answered(decided.steps()[0], ("commit",))
    decided.answered(Step(Kind.FINAL_COMMIT, "west"), None)

    assert [step.kind for step in refused.steps()] == [Kind.ABORT]
    assert decided.steps() == [Step(Kind.FINAL_COMMIT, "east")]


def test_late_and_repeated_answers_change_nothing() -> None:
    coordinator = all_prepared()
    coordinator.answered(Step(Kind.COMMIT, "east"), ("commit",))

    coordinator.answered(Step(Kind.PREPARE, "west"), ("aborted", "late"))
    coordinator.answered(Step(Kind.ABORT, "east"), ("abort", "late"))
    coordinator.answered(Step(Kind.COMPLETE, "east"), None)

    assert coordinator.is_commit is True and not coordinator.is_over


# --- every order -----------------------------------------------------------------------------------------------------


@dataclass
class World:
    """Two participants as the table of ADR 25 says, and coordinators. What was said once may come at any time, and again."""

    coordinators: list[TransactionCoordinator]
    failing: str = ""  # the participant whose checks fail
    states: dict[str, str] = field(default_factory=lambda: dict.fromkeys(TWO, "unknown"))
    decision: str = ""
    sent: set[tuple[int, Step]] = field(default_factory=set)

    def key(self) -> Any:
        known = [
            (sorted(each._prepared), sorted(each._results), each.is_commit, each._is_giving_up, each.is_over)
            for each in self.coordinators
        ]
        return repr(known), tuple(self.states.values()), self.decision, frozenset(self.sent)

    def append(self, step: Step) -> tuple[Any, ...] | None:
        name, state = step.participant, self.states[step.participant]
        match step.kind:
            case Kind.PREPARE:
                if state == "unknown":
                    self.states[name] = "aborted" if name == self.failing else "prepared"
                return (self.states[name], "failed")
            case Kind.COMMIT | Kind.ABORT:
                return self.decide(step.kind is Kind.COMMIT, state)
            case Kind.FINAL_COMMIT | Kind.FINAL_ABORT:
                return self.finish(name, "committed" if step.kind is Kind.FINAL_COMMIT else "aborted", state)
            case Kind.COMPLETE:
                return () if state in ("committed", "aborted") else None

    def decide(self, is_commit: bool, state: str) -> tuple[Any, ...] | None:
        if state == "unknown":
            if is_commit:
                return None
            self.states["east"], self.decision = "aborted", "abort"
        if not self.decision:
            aborted = state == "aborted" or not is_commit
            self.decision = "abort" if aborted else "commit"
        return (self.decision, "")

    def finish(self, name: str, wanted: str, state: str) -> tuple[Any, ...] | None:
        if state in ("committed", "aborted"):
            return (state,) if state == wanted else None
        if state == "unknown" and wanted == "committed":
            return None
        if name == "east" and state == "prepared" and self.decision != {"committed": "commit", "aborted": "abort"}[wanted]:
            return None
        self.states[name] = wanted
        return (wanted,)

    def check(self) -> None:
        assert set(self.states.values()) != {"committed", "aborted"}, "half"
        told = {each.is_commit for each in self.coordinators} - {None}
        assert len(told) <= 1, "one was told a commit, the other an abort"
        assert "committed" not in self.states.values() or self.decision == "commit"

    def following(self) -> list[World]:
        """Every world that may follow: a step that was ever said comes, and is answered or not; or one gives up."""
        made = []
        for number, coordinator in enumerate(self.coordinators):
            if coordinator.steps() and coordinator.steps()[0].kind is Kind.PREPARE:
                made.append(other := self.copied())
                other.coordinators[number].give_up("late")
        for number, step in self.sent:
            for is_answered in (False, True):
                made.append(other := self.copied())
                status = other.append(step)
                if is_answered:
                    other.coordinators[number].answered(step, status)
        for other in made:
            other.say()
        return made

    def say(self) -> None:
        """All that is to be said is said; when it comes is open."""
        for number, coordinator in enumerate(self.coordinators):
            self.sent.update((number, step._replace(reason="")) for step in coordinator.steps())

    def copied(self) -> World:
        coordinators = [copy.copy(each) for each in self.coordinators]
        for each in coordinators:
            vars(each).update(_prepared=set(each._prepared), _results=dict(each._results))
        return World(coordinators, self.failing, dict(self.states), self.decision, set(self.sent))

    def end(self, survivor: int) -> str:
        """All but one die, and nothing is lost any more: how it ends."""
        coordinator = self.coordinators[survivor]
        for _ in range(10):
            for step in coordinator.steps():
                coordinator.answered(step, self.append(step))
        self.check()
        assert coordinator.is_over
        (status,) = set(self.states.values())
        assert status == ("committed" if coordinator.is_commit else "aborted")
        return status


@pytest.mark.parametrize("failing", ["", "east", "west"])
def test_in_every_order_of_steps_answers_losses_and_repetitions_those_at_work_never_leave_it_half_done(
    failing: str,
) -> None:
    recovering = [TransactionCoordinator(TWO, is_recovering=True) for _ in range(2)]
    first = World([TransactionCoordinator(TWO), *recovering], failing)
    first.say()
    seen, rest, ends = {first.key()}, [first], set[str]()

    while rest:
        world = rest.pop()
        world.check()
        for other in world.following():
            if (key := other.key()) not in seen:
                seen.add(key)
                rest.append(other)
        ends.update(world.copied().end(survivor) for survivor in range(3))

    assert len(seen) > 500
    assert ends == ({"aborted"} if failing else {"aborted", "committed"})
