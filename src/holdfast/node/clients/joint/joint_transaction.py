"""A joint transaction: who takes part in it, and the command that each step of its coordinator becomes (ADR 25). Pure.

    Step of `cluster.transaction_coordinator` ─▶ Prepare, Decision, Final, Complete, in the channel of its participant

Each participant knows it by a session and an assembly of its own, because a client has a session in each channel (ADR 22). All of
them together name it: whoever finds it in doubt at one participant finds it at the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.cluster.transaction_coordinator import Kind, Step
from holdfast.destination import command

Key = tuple[str, str]  # session, assembly


class Preparation(NamedTuple):
    """What one participant prepares: a Prepare command without its address, and its payload."""

    parts: int
    settled: list[command.Settled]
    client: str
    scope: str = ""
    number: int = 0
    payload: bytes = b""


class JointTransaction(NamedTuple):
    """Names of message managers, ascending, and the session and assembly at each."""

    participants: tuple[str, ...]
    keys: tuple[Key, ...]

    @property
    def title(self) -> str:
        """For a log: the assembly at the first participant."""
        session, assembly = self.keys[0]
        return f"transaction {assembly} of session {session}, at {', '.join(self.participants)}"

    def key(self, participant: str) -> Key:
        return self.keys[self.participants.index(participant)]

    def command(self, step: Step, prepared: Preparation | None, now_ms: int, origin: str, token: int) -> command.Command:
        """The command of a step. `prepared` is what a Prepare says; whoever recovers has none, and prepares nothing."""
        key, everyone, keys = self.key(step.participant), list(self.participants), list(self.keys)
        if step.kind is Kind.PREPARE:
            assert prepared is not None, "who recovers a transaction does not prepare it"
            parts, settled, client, scope, number, _ = prepared
            where = step.participant
            return command.Prepare(
                *key, parts, everyone, where, settled, client, origin, token, scope, number, now_ms, keys
            )  # fmt: skip
        if step.kind in (Kind.COMMIT, Kind.ABORT):
            return command.Decision(*key, everyone, step.kind is Kind.COMMIT, step.reason, origin, token, now_ms, keys)
        if step.kind is Kind.COMPLETE:
            return command.Complete(*key, origin, token)
        is_commit = step.kind is Kind.FINAL_COMMIT
        return command.Final(*key, everyone, step.participant, is_commit, step.reason, origin, token, now_ms)


class JointOutcome(NamedTuple):
    """What became of it. `results`: what each Final was answered with, as far as is known."""

    is_commit: bool
    reason: str
    results: dict[str, Sequence[object]]
    published_before: int = -1  # of a publication: the highest number of its scope at any participant; -1: none


OnJointOutcome = Callable[[JointOutcome], None]
