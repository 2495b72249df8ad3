"""The directory: the whole replicated state of one message manager, changed by applying the commands of its channel in order.

    command ─▶ apply ─▶ effects        the same commands give the same state on the primary and on every backup

A command that is refused changes nothing, and its answer says why. What was accepted is never refused: a batch that cannot
be placed goes to the dead queue. A command that cannot be read stops whoever applies it: skipping it would let replicas
drift.

What each command does stands in a module of its own kind; here is only the table of them.

    placing      batches and their producers            managing    destinations
    verdict      confirm, release, reject, dead         attaching   sessions and their receivers
    primacy      claim, carried                         configuring  what is set for a destination
    subscribing  subscribe, unsubscribe                 committing   transactions and large events
    publishing   stages, and what is published of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.destination import attaching, committing, configuring, managing, placing, primacy, publishing, subscribing, verdict
from holdfast.destination import command as commands
from holdfast.destination import restore as _restore
from holdfast.destination import snapshot as _snapshot
from holdfast.destination.effect import Answer
from holdfast.destination.state import Effects, State
from holdfast.errors import ProtocolError, Refused

# (state, entry, command, payload, effects) -> the answer. All checks come before any change.
Apply = Callable[[State, int, Any, memoryview, Effects], Any]

APPLY: dict[type[commands.Command], Apply] = {
    commands.BatchCommand: placing.batch,
    commands.OpenProducer: placing.open_producer,
    commands.ForgetProducer: placing.forget_producer,
    commands.Confirm: verdict.confirm,
    commands.Release: verdict.release,
    commands.Reject: verdict.reject,
    commands.Dead: verdict.dead,
    commands.Create: managing.create,
    commands.Delete: managing.delete,
    commands.Configure: configuring.configure,
    commands.Subscribe: subscribing.subscribe,
    commands.Unsubscribe: subscribing.unsubscribe,
    commands.Attach: attaching.attach,
    commands.Detach: attaching.detach,
    commands.Claim: primacy.claim,
    commands.Carried: primacy.carried,
    commands.Part: committing.part,
    commands.Commit: committing.commit,
    commands.Abandon: committing.abandon,
    commands.Publish: publishing.publish,
}


class Directory(State):
    def apply(self, entry: int, data: commands.Buffer) -> Effects:
        """Apply the command at this entry.

        Raises only for what cannot be read: then nothing was changed, and nothing may follow.
        """
        assert entry > self.applied, f"entry {entry} was applied before; the newest is {self.applied}"
        command, payload = commands.decode(data)
        effects: Effects = []
        origin, token = getattr(command, "origin", ""), getattr(command, "token", 0)
        try:
            value, error = APPLY[type(command)](self, entry, command, payload, effects), None
        except Refused as refusal:
            if not origin and isinstance(refusal, ProtocolError):
                raise
            value, error = None, refusal
        self.applied = entry
        if origin:
            effects.append(Answer(origin, token, value, error))
        return effects

    def snapshot(self) -> Iterator[bytes]:
        """This state in chunks. It is that of the moment of the call, whatever is applied while the chunks are taken."""
        return _snapshot.chunks(self)

    @classmethod
    def restore(cls, chunks: Iterable[commands.Buffer]) -> Directory:
        directory = cls()
        _restore.fill(directory, chunks)
        return directory

    def digest(self) -> str:
        """Equal for equal states, however they were reached. `applied` is not part of it."""
        return _snapshot.digest(self)
