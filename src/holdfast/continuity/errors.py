"""Errors of continuity, in the families of `holdfast.errors`.

NotTaken       503: nothing was appended; repeat it
ReEntry        508: a server asks its own domain while it answers; nothing was appended
NotAnswered    504, 502, 409, 410, 422, 500: the request is in the topic, or may be; its number and key are told
"""

from __future__ import annotations

from holdfast.errors import Damaged, OutcomeUnknown, Refused, Unavailable


class NoSuchDomain(Refused):
    """There is no domain of this name. Create it first, or look at `holdfast domain list`."""

    code = "no-such-domain"


class DomainExists(Refused):
    """A domain of this name is there already."""

    code = "domain-exists"


class StoreInUse(Refused):
    """Another listener uses this store. Stop that one, or use another folder."""

    code = "store-in-use"


class WrongStore(Refused):
    """The store is of another server or domain. Name its own folder, or an empty one."""

    code = "wrong-store"


class StoreDamaged(Damaged):
    """A record of a listener's store is not as it was written. `fields` name file and byte. Rebuild the server."""

    code = "store-damaged"


class HistoryGone(Refused):
    """The history does not reach back to the snapshots of this server, and it cannot be rebuilt from them. Give it one of another
    server."""

    code = "history-gone"


class CommandFailed(Unavailable):
    """A command of the user, which resets a server or takes a snapshot of it, has failed. `fields` have its exit code."""

    code = "command-failed"


class NotInDoubt(Refused):
    """The effect was never begun, or what became of it is known: there is nothing to settle."""

    code = "not-in-doubt"


class ServerTaken(Refused):
    """Another listener of the domain calls the same server: it would do every request twice. Stop that one, or name another
    server."""

    code = "server-taken"


class NotTaken(Unavailable):
    """The engine did not take the request: too few servers are current, too many requests are under way, or Holdfast could not
    be reached. Nothing was appended; repeat it."""

    code = "not-taken"

    def __init__(self, sentence: str, retry_after: int = 1, **fields: object) -> None:
        super().__init__(sentence, retry_after=retry_after, **fields)

    @property
    def retry_after(self) -> int:
        """Seconds after which it may be repeated."""
        return int(self.fields["retry_after"])


class ReEntry(Refused):
    """The request is traced to one that still runs in this domain: it would wait for itself. Nothing was appended (continuity
    rule 13)."""

    code = "re-entry"

    def __init__(self, transaction: str) -> None:
        sentence = f"this request belongs to transaction {transaction}, which still runs in this domain; nothing was sent"
        super().__init__(sentence, transaction=transaction)


class NotAnswered(OutcomeUnknown):
    """The request was sent, and no server's answer can be given. `status` is that of HTTP. Repeat it with the same key: the
    answer comes from a store, or the request is done then."""

    code = "not-answered"

    def __init__(self, status: int, reason: str, transaction: str, key: str) -> None:
        super().__init__(f"{reason} (transaction {transaction})", status=status, transaction=transaction, key=key)

    @property
    def status(self) -> int:
        return int(self.fields["status"])

    @property
    def transaction(self) -> str:
        return str(self.fields["transaction"])

    @property
    def key(self) -> str:
        return str(self.fields["key"])


# --- storage ---------------------------------------------------------------------------------------------------------


class NoSuchFileStore(Refused):
    """There is no file store of this name. Create it first, or look at `holdfast store list`."""

    code = "no-such-file-store"


class FileStoreExists(Refused):
    """A file store of this name is there already."""

    code = "file-store-exists"


class NoSuchPlace(Refused):
    """The file store has no place of this name. `holdfast store status` lists those that it has."""

    code = "no-such-place"


class PlaceInUse(Refused):
    """Another process uses the folder of this place. Stop that one, or use another folder."""

    code = "place-in-use"


class WrongPlace(Refused):
    """The folder or shelf is that of another place or file store. Name its own, or an empty one."""

    code = "wrong-place"


class NoSuchFile(Refused):
    """The file store has no file of this name."""

    code = "no-such-file"


class FileDiffers(Refused):
    """The condition of a write does not hold: the file is another than the caller believes. Nothing was changed."""

    code = "file-differs"
