"""The report of an audit, as plain values: for the terminal, for programs (JSON), and for the page. Knows nothing of Spark.

verdict       "0 lost, 0 duplicated"
destinations  where the events of each destination are
producers     the same by producer, those with something wrong first
lost, duplicates, strangers, holes       named, as far as a person would read; the numbers are always of all of them
account       what the server says of each subscription: accepted = confirmed + dead + waiting
timeline      how many were accepted when, by where they are now
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import msgspec

# How many of each kind are named. The numbers count all.
NAMED_MAX = 500


class Counted(msgspec.Struct, kw_only=True, frozen=True):
    """The events of one destination, or of one producer there: how many were seen where. An event may be in several."""

    destination: str
    receipted: int = 0
    archived: int = 0
    waiting: int = 0
    dead: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    strangers: int = 0
    waiting_only: int = 0  # not archived yet
    dead_only: int = 0
    delivered_only: int = 0
    confirmed: int = 0  # of a queue: receipted and seen nowhere, and so many were confirmed there

    @property
    def all(self) -> int:
        return self.archived + self.waiting_only + self.dead_only + self.delivered_only + self.confirmed + self.lost

    def settled(self, confirmed: int) -> Self:
        """The same, where so many were confirmed by recipients that did not write down which."""
        confirmed = min(confirmed, self.lost)
        return msgspec.structs.replace(self, lost=self.lost - confirmed, confirmed=confirmed)


class Produced(Counted, kw_only=True, frozen=True):
    """`producer` is the first id of its start; None stands for all ids that no node made."""

    producer: str | None
    started_at: str | None = None
    first: str = ""
    last: str = ""


class LostRange(msgspec.Struct, kw_only=True, frozen=True):
    destination: str
    producer: str | None
    first: str
    last: str
    count: int
    first_position: int | None = None
    last_position: int | None = None


class Duplicate(msgspec.Struct, kw_only=True, frozen=True):
    destination: str
    id: str
    copies: int
    reason: str
    first_position: int | None = None
    last_position: int | None = None


class Stranger(msgspec.Struct, kw_only=True, frozen=True):
    destination: str
    id: str
    state: str


class Hole(msgspec.Struct, kw_only=True, frozen=True):
    producer: str
    first: str
    last: str
    count: int


class Account(msgspec.Struct, kw_only=True, frozen=True):
    """The server's counts for a subscription (or a queue) since it was made."""

    destination: str
    subscription: str
    accepted: int
    confirmed: int
    dead: int
    expired: int
    waiting: int


class Moment(msgspec.Struct, kw_only=True, frozen=True):
    """Events accepted in one step of the timeline, from `at` on (UTC), that are `state` now."""

    at: str
    state: str
    events: int


class Report(msgspec.Struct, kw_only=True, frozen=True):
    made_at: str
    subject: dict[str, str]  # what was looked at: url, table, …
    has_receipts: bool
    has_archive: bool
    destinations: list[Counted]
    producers: list[Produced] = []
    lost_ranges: list[LostRange] = []
    duplicates: list[Duplicate] = []
    strangers: list[Stranger] = []
    holes: list[Hole] = []
    hole_ids: int = 0
    unread_lines: int = 0  # of the receipts
    account: list[Account] = []
    timeline: list[Moment] = []

    def total(self, name: str) -> int:
        return sum(getattr(each, name) for each in self.destinations)

    @property
    def unarchived(self) -> int:
        """Events that were confirmed to the server as archived and are not in the table; counted, so none can be named."""
        if not self.has_archive or not self.account:
            return 0
        return max(0, sum(each.confirmed for each in self.account if each.subscription) - self.total("archived"))

    @property
    def lost(self) -> int:
        return max(self.total("lost"), self.unarchived)

    @property
    def duplicated(self) -> int:
        return self.total("duplicated")

    @property
    def is_whole(self) -> bool:
        return not self.lost and not self.duplicated

    @property
    def verdict(self) -> str:
        return f"{self.lost:,} lost, {self.duplicated:,} duplicated"

    def remarks(self) -> Iterator[str]:
        """Remarks that are needed to read the verdict rightly."""
        if self.unarchived > self.total("lost"):
            yield (
                f"{self.unarchived:,} events were confirmed by the archive's subscription and are not in the table; "
                "without their receipts they cannot be named"
            )
        if not self.has_receipts and not self.account:
            yield "neither receipts nor the server's account were given: what was lost before it was archived is not known"
        elif not self.has_receipts:
            yield "no receipts were given: lost is what the server counted as confirmed and the table does not have"
        if confirmed := self.total("confirmed"):
            yield f"{confirmed:,} events of queues were confirmed by recipients; which ones, only what they wrote down can tell"
        if self.unread_lines:
            yield f"{self.unread_lines:,} lines of the receipts could not be read: a producer that is killed leaves one cut short"
        if strangers := self.total("strangers"):
            yield f"{strangers:,} events have no receipt: their producer ended before it heard, or the receipts are not all here"
        if self.hole_ids:
            yield f"{self.hole_ids:,} ids between others of their producer were seen nowhere: not sent, or sent elsewhere"

    def to_json(self) -> dict[str, object]:
        """Everything, with what follows from it."""
        totals = {name: self.total(name) for name in TOLD}
        judged = {"verdict": self.verdict, "lost": self.lost, "duplicated": self.duplicated, "is_whole": self.is_whole}
        found: dict[str, object] = msgspec.to_builtins(self)
        return {**judged, "unarchived": self.unarchived, "totals": totals, "remarks": [*self.remarks()], **found}


COUNTS = ("receipted", "archived", "waiting", "dead", "delivered", "lost", "duplicated", "strangers")
# Figures of a destination: the counts, and those that the server adds to them.
TOLD = (*COUNTS[:5], "confirmed", *COUNTS[5:])
COUNTS_ONLY = ("waiting_only", "dead_only", "delivered_only")
