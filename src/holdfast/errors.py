"""What can go wrong, said so that the caller knows what to do next.

Four families, told apart by what happened and by what the caller may do:

    Refused         nothing happened; do not repeat it as it is
    Unavailable     nothing happened; repeat it later
    OutcomeUnknown  it may have happened; repeat it with the same id
    Damaged         stop, and call an operator

Every error has a stable `code` (for programs), a sentence (for people) and its facts as typed `fields` (for both). Errors
cross the wire as `(code, sentence, fields)` and come out as the same family on the other side.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HoldfastError(Exception):
    """Something Holdfast says no to, or could not do. Catch a family, not this, unless you only want to log it."""

    code: ClassVar[str] = "error"
    family: ClassVar[str] = "refused"

    def __init__(self, sentence: str, **fields: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.fields = fields

    def __str__(self) -> str:
        return self.sentence


class Refused(HoldfastError):
    """Nothing happened, and nothing will if it is repeated as it is: the caller has to change something."""

    code = "refused"
    family = "refused"


class Unavailable(HoldfastError):
    """Nothing happened; the same call may succeed later."""

    code = "unavailable"
    family = "unavailable"


class OutcomeUnknown(HoldfastError):
    """It may have happened. Repeating it with the same id is safe; repeating it with a new one may do it twice."""

    code = "outcome-unknown"
    family = "outcome-unknown"


class Damaged(HoldfastError):
    """Something durable is not what was written. Nothing was guessed; an operator has to look."""

    code = "damaged"
    family = "damaged"


# --- Refused ---------------------------------------------------------------------------------------------------------


class BadUrl(Refused):
    code = "bad-url"


class BadName(Refused):
    code = "bad-name"


class BadEvent(Refused):
    """An event that cannot be sent as it is: wrong property type, unknown attribute, data that cannot be encoded."""

    code = "bad-event"


class TooLarge(Refused):
    code = "too-large"


class BadSetting(Refused):
    code = "bad-setting"


class NoSuchDestination(Refused):
    code = "no-such-destination"


class DestinationExists(Refused):
    code = "destination-exists"


class WrongKind(Refused):
    """A queue was used as a topic or the other way round."""

    code = "wrong-kind"


class NoSuchSubscription(Refused):
    code = "no-such-subscription"


class SubscriptionInUse(Refused):
    code = "subscription-in-use"


class NoSuchPosition(Refused):
    code = "no-such-position"


class AlreadyConfirmed(Refused):
    """Everything before a place was confirmed by whoever reads the subscription: it cannot be read from there again."""

    code = "already-confirmed"


class BadSelector(Refused):
    """A selector that cannot be understood; its sentence shows the place."""

    code = "bad-selector"


class BadPattern(Refused):
    """A wildcard or regular expression over names that cannot be understood."""

    code = "bad-pattern"


class LoginFailed(Refused):
    """The server does not let this client in. It does not say why: that would help whoever guesses."""

    code = "login-failed"


class Untrusted(Refused):
    """The server could not prove who it is. Raised by the client, before it says anything."""

    code = "untrusted"


class AccessDenied(Refused):
    """This user may not do this to this destination."""

    code = "access-denied"


class TransactionAborted(Refused):
    """Nothing of the transaction happened; begin a new one."""

    code = "transaction-aborted"


class NotPublished(Refused):
    """Nothing of these stages became visible, and they are as they were: publish again when what is missing is there, or drop
    them."""

    code = "not-published"


class StageExists(Refused):
    """There is a stage of this name already, from an earlier attempt: choose another name, or drop it first."""

    code = "stage-exists"


class Detached(Refused):
    """The session was given up on and its events went to others: discard unconfirmed work and attach again."""

    code = "detached"


class Closed(Refused):
    """The client, receiver or recorder was closed by this program."""

    code = "closed"


class WrongLoop(Refused):
    """A client was used from another event loop than the one it was opened in."""

    code = "wrong-loop"


class ProtocolError(Refused):
    """The other side did not speak the protocol. Never caused by an application's data."""

    code = "protocol-error"


class UnknownVersion(Refused):
    """A wire or file format this release does not know; not damage."""

    code = "unknown-version"


class NotAJournal(Refused):
    code = "not-a-journal"


class JournalInUse(Refused):
    code = "journal-in-use"


class CheckpointMismatch(Refused):
    """A checkpoint of Spark and the subscriptions it speaks of do not belong together."""

    code = "checkpoint-mismatch"


# --- Unavailable -----------------------------------------------------------------------------------------------------


class Blocked(Unavailable):
    """No room to accept: the journal (or its reserve) is used up. What was accepted is safe."""

    code = "blocked"


class TimedOut(Unavailable):
    """A wait ended without the thing it waited for, and nothing was changed."""

    code = "timed-out"


class Unreachable(Unavailable):
    """No server answered at any of the addresses."""

    code = "unreachable"


class DiskFailed(Unavailable):
    """The disk refused a write or a sync; nothing was accepted that is not durable."""

    code = "disk-failed"


# --- OutcomeUnknown --------------------------------------------------------------------------------------------------


class LinkLost(OutcomeUnknown):
    """The link broke, or the wait ended, after the request was handed over and before the answer came."""

    code = "link-lost"


class NoReply(OutcomeUnknown):
    """A request was accepted, and nobody answered in time: it may have been carried out, or may still be."""

    code = "no-reply"


# --- Damaged ---------------------------------------------------------------------------------------------------------


class JournalDamaged(Damaged):
    """A record before the tail does not carry its checksum. `fields` name the file and the byte."""

    code = "journal-damaged"


class BatchDamaged(Damaged):
    """A batch whose checksum does not fit its bytes."""

    code = "batch-damaged"


def _every(kind: type[HoldfastError]) -> list[type[HoldfastError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _every(child))]


def by_code(code: str, sentence: str, fields: dict[str, Any], family: str = "refused") -> HoldfastError:
    """The error that travelled as `(code, sentence, fields)`; an unknown code becomes its family."""
    known = {kind.code: kind for kind in _every(HoldfastError)}
    kind = known.get(code) or known.get(family) or Refused
    return kind(sentence, **fields)
