"""Refusals of an engine, as programs and HTTP clients see them.

NotTaken       503: nothing was appended; repeat it
ReEntry        508: a server asks its own domain while it answers; nothing was appended
NotAnswered    504, 502, 409, 410, 422, 500: the request is in the topic, or may be; its number and key are told
"""

from __future__ import annotations

from holdfast.errors import OutcomeUnknown, Refused, Unavailable


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
