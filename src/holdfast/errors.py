"""Errors: each says what happened and what the caller may do next.

Four families, told apart by what happened and by what the caller may do:

    Refused         nothing happened; do not repeat it as it is
    Unavailable     nothing happened; repeat it later
    OutcomeUnknown  it may have happened; repeat it with the same source and id; the error names the id
    Damaged         stop, and call an operator

Every error has a stable `code` (for programs), a sentence (for people) and its facts as typed `fields` (for both). Errors
cross the wire as `(code, sentence, fields)` and arrive in the same family.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class HoldfastError(Exception):
    """An error of Holdfast. Catch a family rather than this, unless you only want to log it."""

    code: ClassVar[str] = "error"
    family: ClassVar[str] = "refused"

    def __init__(self, sentence: str, **fields: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.fields = fields

    def __str__(self) -> str:
        return self.sentence


class Refused(HoldfastError):
    """Nothing happened, because of something in the call. Change that; repeating the same call fails again."""

    code = "refused"
    family = "refused"


class Unavailable(HoldfastError):
    """Nothing happened, because something is missing for the moment: room, a server, an answer. Repeat the same call later."""

    code = "unavailable"
    family = "unavailable"


class OutcomeUnknown(HoldfastError):
    """The call may have happened: its answer was lost. `ids` are the ids of the events it may have happened to.

    Send them again under the same ids (`send(…, id=error.id)`), from a client of the same name or with the same `source`. That
    is safe where the destination deduplicates. Elsewhere, or with new ids, they may be there twice.
    """

    code = "outcome-unknown"
    family = "outcome-unknown"

    @property
    def ids(self) -> Sequence[str]:
        """Ids in the order of sending; none if no events were sent."""
        found: Sequence[str] = self.fields.get("ids", ())
        return found

    @property
    def id(self) -> str | None:
        """The id of the event, or of the first event."""
        return self.ids[0] if self.ids else None


class Damaged(HoldfastError):
    """Something durable is not what was written: a disk, or somebody who changed files. Nothing was guessed; call an operator."""

    code = "damaged"
    family = "damaged"


# --- Refused ---------------------------------------------------------------------------------------------------------


class BadUrl(Refused):
    """The caller gave a URL or folder that Holdfast does not understand. Correct it as the sentence says."""

    code = "bad-url"


class BadName(Refused):
    """The caller gave a name that a destination, subscription or channel cannot have. Choose another."""

    code = "bad-name"


class BadEvent(Refused):
    """The caller gave an event with a wrong property type, an unknown attribute or data that cannot be encoded. Correct it."""

    code = "bad-event"

    @property
    def index(self) -> int | None:
        """Which event of a `send_many` it was, counted from 0."""
        return self.fields.get("index")


class TooLarge(Refused):
    """The caller sent something over a limit. Send it as a stream (`send_stream`), or in smaller parts."""

    code = "too-large"

    @property
    def index(self) -> int | None:
        """Which event of a `send_many` it was, counted from 0."""
        return self.fields.get("index")


class BadSetting(Refused):
    """The caller gave a setting or argument that cannot be used. Correct it as the sentence says."""

    code = "bad-setting"


class NoSuchDestination(Refused):
    """The caller named a queue or topic that does not exist and is not created on first use. Create it, or correct the name."""

    code = "no-such-destination"


class DestinationExists(Refused):
    """The caller wants to create a destination that exists. Use that one, or choose another name."""

    code = "destination-exists"


class SettingsDiffer(Refused):
    """What the caller wants to be there is there, with other settings. Ask for those, or say that they are to be changed.

    `fields` has each setting that differs: `redelivery_limit` as it is, and `redelivery_limit_asked`."""

    code = "settings-differ"


class WrongKind(Refused):
    """The caller used a queue as a topic, or a topic as a queue. Use it as what it is, or choose another name."""

    code = "wrong-kind"


class NoSuchSubscription(Refused):
    """The caller named a subscription that the topic does not have. Subscribe first, or correct the name."""

    code = "no-such-subscription"


class SubscriptionInUse(Refused):
    """Other receivers use the subscription. Share it (`shared=True` everywhere), or stop them first."""

    code = "subscription-in-use"


class NotEmpty(Refused):
    """Events wait in what the caller wants to delete or replace; `waiting` says how many.

    Receive them first, or say `force=True`, or `replace=True`, if they may be lost.
    """

    code = "not-empty"


class NoSuchPosition(Refused):
    """The caller asked for a position or an entry that never was, or that was released. Begin within those the sentence names."""

    code = "no-such-position"


class AlreadyConfirmed(Refused):
    """The owner of the subscription has confirmed events past the place from which the caller wants to read.

    The caller has lost a newer state, such as a checkpoint. Restore that, or begin with what is left.
    """

    code = "already-confirmed"


class AlreadyFinished(Refused):
    """Another recipient, or a limit, finished these events first. Discard what was done for them.

    The other verdicts that were given with this one are applied. `fields` have `positions`, as pairs of first and last, and
    `events`, how many there are.
    """

    code = "already-finished"


class BadSelector(Refused):
    """The caller gave a selector that cannot be understood. The sentence shows the place; correct it there."""

    code = "bad-selector"


class BadPattern(Refused):
    """The caller gave a wildcard or regular expression that cannot be understood. Correct it as the sentence says."""

    code = "bad-pattern"


class LoginFailed(Refused):
    """The server does not let this client in: user, password or certificate is wrong. Correct them.

    The server does not say which of them: that would help somebody who guesses.
    """

    code = "login-failed"


class Untrusted(Refused):
    """The server could not prove that it is the host in the URL. Check the host, or name its authority (`?ca=FILE`).

    The client raises it before it sends anything, so no password was shown.
    """

    code = "untrusted"


class AccessDenied(Refused):
    """The users file of the server does not let this user do this to this destination. Ask who manages that file."""

    code = "access-denied"


class TransactionAborted(Refused):
    """Nothing of the transaction happened; the sentence says what stood in the way. Begin a new one."""

    code = "transaction-aborted"


class NotPublished(Refused):
    """Something is missing, so nothing of these stages became visible. They are as they were.

    Publish again when what is missing is there, or drop them.
    """

    code = "not-published"


class StageExists(Refused):
    """A stage of this name exists, from an earlier attempt. Choose another name, or drop that stage first."""

    code = "stage-exists"


class Detached(Refused):
    """The server gave up on this session and its events went to others. Discard unconfirmed work and attach again."""

    code = "detached"


class SubscriptionRemoved(Detached):
    """The subscription is gone with all that waited in it: it has passed a limit of its terms (`remove_after…`), or was deleted
    while this program had no link.

    Subscribe again for new events; what was missed must come from elsewhere.
    """

    code = "subscription-removed"


class Closed(Refused):
    """This program closed the client, receiver, channel or recorder, or never opened it. Open it again."""

    code = "closed"


class WrongLoop(Refused):
    """This program used a client in another event loop than its own. Connect in that loop, or use `holdfast.blocking`."""

    code = "wrong-loop"


class ProtocolError(Refused):
    """The other side does not speak the protocol. Check the port; no data of an application causes this."""

    code = "protocol-error"


class UnknownVersion(Refused):
    """A newer release wrote this frame or file. Upgrade the older side. It is not damage."""

    code = "unknown-version"


class NotAJournal(Refused):
    """The caller named a folder that holds no journal, or something else. Name another folder."""

    code = "not-a-journal"


class NotABackup(Refused):
    """The caller named a folder that holds no backup, or that of another journal. Name another folder."""

    code = "not-a-backup"


class FolderNotEmpty(Refused):
    """A backup is restored into an empty folder, and this one holds something. Name another folder, or empty this one."""

    code = "folder-not-empty"


class JournalInUse(Refused):
    """Another process owns the folder of this journal. Stop that one, or use another folder."""

    code = "journal-in-use"


class CheckpointMismatch(Refused):
    """A checkpoint of Spark is of another subscription, or older than what is confirmed. The sentence says how to go on."""

    code = "checkpoint-mismatch"


# --- Unavailable -----------------------------------------------------------------------------------------------------


class Blocked(Unavailable):
    """No room to accept: the channel and its reserve are full. What was accepted is safe. Go on when recipients confirm."""

    code = "blocked"


class TimedOut(Unavailable):
    """A wait ended without what it waited for; nothing was changed. Wait again, or longer."""

    code = "timed-out"


class Unreachable(Unavailable):
    """No server answered at any of the addresses. Check the addresses and the servers, then repeat."""

    code = "unreachable"


class DiskFailed(Unavailable):
    """The disk refused a write, a sync or a read. Nothing was accepted that is not durable. Look at the disk, then repeat."""

    code = "disk-failed"


# --- OutcomeUnknown --------------------------------------------------------------------------------------------------


class LinkLost(OutcomeUnknown):
    """The link broke, or the wait ended, after the request was sent and before its answer came. Repeat it with the same
    source and id."""

    code = "link-lost"


class NoReply(OutcomeUnknown):
    """A request was accepted, and nobody replied in time. It may be carried out, now or later: ask again only if that is safe.

    It is safe with the same source and id (`request(…, id=error.id)`) where the destination deduplicates. A request that was
    rejected, or went to the dead events, ends like this, too.
    """

    code = "no-reply"


# --- Damaged ---------------------------------------------------------------------------------------------------------


class JournalDamaged(Damaged):
    """The disk lost or changed a record that was durable. `fields` name file and byte. Copy the folder; call an operator."""

    code = "journal-damaged"


class BackupDamaged(Damaged):
    """A file of a backup is missing, or is not the one that was copied. Use an older backup; look at the disk it lies on."""

    code = "backup-damaged"


class BatchDamaged(Damaged):
    """The bytes of a batch are not those its producer sealed: a disk or the way changed them. Call an operator."""

    code = "batch-damaged"


def _every(kind: type[HoldfastError]) -> list[type[HoldfastError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _every(child))]


def by_code(code: str, sentence: str, fields: dict[str, Any], family: str = "refused") -> HoldfastError:
    """Return the error that travelled as `(code, sentence, fields)`. An unknown code becomes its family."""
    known = {kind.code: kind for kind in _every(HoldfastError)}
    kind = known.get(code) or known.get(family) or Refused
    return kind(sentence, **fields)
