"""A transaction coordinator: what a client manager appends next, so that a transaction ends alike at all message managers.

    knows                                    appends next                                     (ADR 25)
    not every participant is prepared        Prepare, to those that have not answered
    all are prepared                         Decision commit, to the first
    one is aborted, or it gives up           Decision abort, to the first
    the decision that stands                 Final, to those that have not answered
    every Final is applied                   Complete, to the first
    complete                                 nothing

The client manager of the session begins with Prepare. Any other that hears of a transaction in doubt gives up at once: it appends
an abort, and learns what stands. Both may be at work at the same time, and any number of each: the first decision in the order of
the first channel counts, and everything else is idempotent. A step that is not answered is said again, as often as it takes.

Nothing but an answer changes what is known. So a coordinator that dies leaves nothing behind that another one needs.

Pure: no clock. Its owner says when to give up, and when to say steps again.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

# A reason that names who refused begins so.
_BY = "message manager "


class Kind(enum.Enum):
    PREPARE = "prepare"
    COMMIT = "decision: commit"
    ABORT = "decision: abort"
    FINAL_COMMIT = "final: commit"
    FINAL_ABORT = "final: abort"
    COMPLETE = "complete"


class Step(NamedTuple):
    """A command to be appended to the channel of a participant."""

    kind: Kind
    participant: str
    reason: str = ""


class TransactionCoordinator:
    def __init__(self, participants: Sequence[str], *, is_recovering: bool = False, reason: str = "") -> None:
        """`is_recovering`: the transaction was found in doubt, and what it consists of is not known here."""
        assert list(participants) == sorted(set(participants)) and participants, "participants are ascending, each once"
        self.participants = tuple(participants)
        self._is_recovering = is_recovering
        self._is_giving_up = is_recovering
        self._reason = reason or ("it was in doubt for too long" if is_recovering else "")
        self._prepared: set[str] = set()  # asked, but never iterated
        self._results: dict[str, tuple[Any, ...]] = {}  # what a Final was answered with, by participant
        self._is_commit: bool | None = None
        self._is_complete = False

    @property
    def first(self) -> str:
        return self.participants[0]

    @property
    def is_commit(self) -> bool | None:
        """The decision that stands; None while it is not known."""
        return self._is_commit

    @property
    def reason(self) -> str:
        """Why it is aborted."""
        return self._reason

    @property
    def results(self) -> dict[str, tuple[Any, ...]] | None:
        """What each participant answered to its Final; None before all have."""
        if len(self._results) < len(self.participants):
            return None
        return {participant: self._results[participant] for participant in self.participants}

    @property
    def is_over(self) -> bool:
        """Nothing is to be appended any more."""
        return self._is_complete

    def give_up(self, reason: str) -> None:
        """It takes too long, or the client rolls back. Without effect when all are prepared: a commit may be decided already."""
        if self._is_commit is None and not self._is_giving_up and not self._is_all_prepared:
            self._is_giving_up, self._reason = True, reason

    @property
    def unprepared(self) -> tuple[str, ...]:
        """Those that have not said that they are prepared."""
        return tuple(each for each in self.participants if each not in self._prepared)

    @property
    def _is_all_prepared(self) -> bool:
        return len(self._prepared) == len(self.participants)

    def steps(self) -> list[Step]:
        """What is to be appended now; said again until it is answered."""
        if self._is_complete:
            return []
        if self._is_commit is not None:
            kind = Kind.FINAL_COMMIT if self._is_commit else Kind.FINAL_ABORT
            finals = [Step(kind, each, self._reason) for each in self.participants if each not in self._results]
            return finals or [Step(Kind.COMPLETE, self.first)]
        if self._is_giving_up:
            return [Step(Kind.ABORT, self.first, self._reason)]
        if self._is_all_prepared:
            return [Step(Kind.COMMIT, self.first)]
        return [Step(Kind.PREPARE, each) for each in self.participants if each not in self._prepared]

    def answered(self, step: Step, status: Sequence[Any] | None) -> None:
        """A step was answered, perhaps not for the first time; with None if it was refused. An answer may come late."""
        if step.kind is Kind.COMPLETE:
            self._is_complete = self._is_complete or self.results is not None
        elif step.kind is Kind.PREPARE:
            self._heard(step.participant, status)
        elif step.kind in (Kind.COMMIT, Kind.ABORT):
            self._decided(step, status)
        elif status is not None or self._is_commit is not None:
            # A refused Final: the participant has another outcome, or has forgotten it. Nothing that is said again changes that.
            self._results.setdefault(step.participant, tuple(status) if status is not None else ("refused",))

    def _heard(self, participant: str, status: Sequence[Any] | None) -> None:
        said = status[0] if status else "refused"
        if said == "prepared":
            self._prepared.add(participant)
        elif said == "committed":
            self._decide(is_commit=True, reason="")
        elif self._is_commit is None and not self._is_giving_up:
            self._is_giving_up = True
            why = str(status[1]) if status and len(status) > 1 else "it does not prepare it"
            # One that was aborted before says why, and who refused it then.
            self._reason = why if why.startswith(_BY) else f"{_BY}'{participant}' refused it: {why}"

    def _decided(self, step: Step, status: Sequence[Any] | None) -> None:
        if status is None:
            # A commit was refused: nothing is prepared at the first any more.
            self._is_giving_up = True
            self._reason = self._reason or f"{_BY}'{step.participant}' refused to decide it"
            return
        self._decide(status[0] == "commit", str(status[1]) if len(status) > 1 else "")

    def _decide(self, is_commit: bool, reason: str) -> None:
        if self._is_commit is None:
            self._is_commit = is_commit
            # What one has said to this coordinator names it; the first may remember only that it was aborted, and why.
            known = self._reason if self._reason.startswith(_BY) else reason or self._reason
            self._reason = "" if is_commit else known
