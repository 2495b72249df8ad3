"""The directory: the whole replicated state of one message manager, changed by applying the commands of its channel in order.

    command ─▶ apply ─▶ effects        the same commands give the same state on the primary and on every backup

A command that is refused changes nothing, and its answer says why. An accepted batch is never refused: if it cannot be placed,
it goes to the dead queue. A command that cannot be read stops its reader: skipping it would let replicas drift.

The modules of `applying` say what each command does; here is only the table of them.

    placing      batches and their producers            managing    destinations and their settings
    verdict      confirm, release, reject, dead         attaching   sessions and their receivers
    epoch        claim, carried, in hand                committing  transactions and large events
    subscribing  subscribe, unsubscribe                 publishing  stages, and what is published of them
    removing     subscriptions past a limit
    ensuring     destinations and subscriptions that are made unless they are there
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.destination import command as commands
from holdfast.destination.applying import (
    attaching,
    committing,
    ensuring,
    epoch,
    managing,
    placing,
    publishing,
    purging,
    removing,
    subscribing,
    verdict,
)
from holdfast.destination.effect import Answer
from holdfast.destination.snapshots import restore as _restore
from holdfast.destination.snapshots import snapshot as _snapshot
from holdfast.destination.state.state import Effects, State
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
    commands.Purge: purging.purge,
    commands.Configure: managing.configure,
    commands.Ensure: ensuring.ensure,
    commands.Subscribe: subscribing.subscribe,
    commands.EnsureSubscription: ensuring.ensure_subscription,
    commands.SubscribeLike: subscribing.subscribe_like,
    commands.Remove: removing.remove_past_limit,
    commands.Unsubscribe: subscribing.unsubscribe,
    commands.Attach: attaching.attach,
    commands.Detach: attaching.detach,
    commands.Claim: epoch.claim,
    commands.Carried: epoch.carried,
    commands.InHand: epoch.in_hand,
    commands.Part: committing.part,
    commands.Commit: committing.commit,
    commands.Abandon: committing.abandon,
    commands.Publish: publishing.publish,
}


class Directory(State):
    def apply(self, entry: int, data: commands.Buffer) -> Effects:
        """Apply the command at this entry.

        Raises only for a command that cannot be read: then nothing was changed, and nothing may follow.
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
        if self.answers:
            self.answers = {asked: said for asked, said in self.answers.items() if asked > entry}
        if origin:
            effects.append(Answer(origin, token, value, error))
        return effects

    def snapshot(self) -> Iterator[bytes]:
        """The state at the moment of the call, in chunks. Commands applied while they are taken do not show."""
        return _snapshot.chunks(self)

    @classmethod
    def restore(cls, chunks: Iterable[commands.Buffer]) -> Directory:
        directory = cls()
        _restore.fill(directory, chunks)
        return directory

    def digest(self) -> str:
        """Equal for equal states, however they were reached. `applied` is not part of it."""
        return _snapshot.digest(self)
