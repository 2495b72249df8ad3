"""The directory: the whole replicated state of one message manager, changed by applying the commands of its channel in order.

    command ─▶ apply ─▶ effects        the same commands give the same state on the primary and on every backup

A command that is refused changes nothing, and its answer says why. An accepted batch is never refused: if it cannot be placed,
it goes to the dead queue. A command that cannot be read stops its reader: skipping it would let replicas drift.

The modules of `applying` say what each command does; here is only the table of them.

    placing      batches and their producers            managing    destinations and their settings
    verdict      confirm, release, reject, dead         attaching   sessions and their receivers
    epoch        claim, carried, in hand                committing  transactions and large events
    subscribing  subscribe, unsubscribe                 publishing  stages, and what is published of them
    removing     subscriptions past a limit             preparing   transactions over several managers
    ensuring     destinations and subscriptions that are made unless they are there

In a cluster commands are stamped: one that comes again is answered again, and one that comes too late is dropped (see `origins`).
One that would end what a prepared transaction needs is kept, and applied after its Final (see `waiting`).
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
    preparing,
    publishing,
    purging,
    removing,
    subscribing,
    verdict,
)
from holdfast.destination.applying.waiting import is_kept, must_wait
from holdfast.destination.effect import Answer, Checked
from holdfast.destination.snapshots import restore as _restore
from holdfast.destination.snapshots import snapshot as _snapshot
from holdfast.destination.stamp import STAMPED, Stamp, stamp_of
from holdfast.destination.state.cluster.transactions import WAITING_MAX
from holdfast.destination.state.state import Effects, State
from holdfast.errors import HoldfastError, ProtocolError, Refused, Unavailable

# (state, entry, command, payload, effects) -> the answer. All checks come before any change.
Apply = Callable[[State, int, Any, memoryview, Effects], Any]


def check(state: State, entry: int, command: commands.Check, payload: memoryview, effects: Effects) -> str:
    """The digest of the state: every replica says it."""
    digest = _snapshot.digest(state)
    effects.append(Checked(entry, digest))
    return digest


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
    commands.Prepare: preparing.prepare,
    commands.Decision: preparing.decide,
    commands.Final: preparing.finish,
    commands.Complete: preparing.complete,
    commands.Introduce: attaching.introduce,
    commands.Revoke: attaching.revoke,
    commands.Check: check,
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
        stamp: Stamp | None = None
        if data[0] & STAMPED:
            stamp = stamp_of(data)
            repeated = self.origins.repeated(stamp, origin, token)
            if repeated is not None:
                self.applied = entry
                return repeated
        value: Any
        error: HoldfastError | None
        try:
            if stamp is not None:
                attaching.check_session(self, command)
            if self.transactions.prepared and must_wait(self, command, payload):
                return self._wait(entry, data, stamp, origin, token)
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
        if stamp is not None:
            self.origins.remember(stamp, value, error)
        if type(command) is commands.Final and self.transactions.waiting:
            self._go_on(entry, effects)
        return effects

    def _wait(self, entry: int, data: commands.Buffer, stamp: Stamp | None, origin: str, token: int) -> Effects:
        """Keep a command until a Final. If too many wait, it is refused, to be said again later. A primary, which waits for no
        answer, may say the same again and again: once is enough."""
        self.applied = entry
        if not origin and is_kept(self, data):
            if stamp is not None:
                self.origins.remember(stamp, None, None)
            return []
        if len(self.transactions.waiting) >= WAITING_MAX:
            sentence = f"{WAITING_MAX} commands wait for transactions in doubt, and no more may; repeat it later"
            error = Unavailable(sentence)
            if stamp is not None:
                self.origins.remember(stamp, None, error)
            return [Answer(origin, token, None, error)] if origin else []
        self.transactions.waiting.append((entry, bytes(data)))
        if stamp is not None:
            self.origins.remember_waiting(stamp)
        return []

    def _go_on(self, entry: int, effects: Effects) -> None:
        """After a Final: apply the commands that need not wait any more, in their order."""
        waiting, self.transactions.waiting = self.transactions.waiting, []
        for came, data in waiting:
            command, payload = commands.decode(data)
            if must_wait(self, command, payload):
                self.transactions.waiting.append((came, data))
                continue
            value, error = None, None
            done: Effects = []
            try:
                value = APPLY[type(command)](self, entry, command, payload, done)
            except Refused as refusal:
                error = refusal
            effects.extend(done)
            if origin := getattr(command, "origin", ""):
                effects.append(Answer(origin, getattr(command, "token", 0), value, error))
            if data[0] & STAMPED:
                self.origins.remember(stamp_of(data), value, error)

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
