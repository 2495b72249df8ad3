"""The account of a run: which events were accepted, delivered and settled, and which promises that breaks.

    nothing lost         every accepted event was delivered to everyone it was meant for
    settled stays so     an event whose confirm was settled is not delivered again
    settled once         no two recipients of an audience hear that they have settled an event
    order kept           each recipient sees the events of each producer, at their first delivery, in the order of sending; but an
                         event that is marked as redelivered may come later, because a client had it whose program did not take it
    nothing invented     nothing is delivered that was never sent

The simulation, the faults tests and the demo use it. Recipients that compete for one queue share an audience: an event is meant
for each audience once. Duplicates before settling are allowed (a crash may cost a confirm), and are counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

Audience = str
Name = tuple[Hashable, int]  # producer, number of the event in its order of sending


@dataclass
class Verdict:
    accepted: int = 0
    delivered: int = 0
    duplicates: int = 0
    lost: list[tuple[Audience, Name]] = field(default_factory=list)
    delivered_after_settled: list[tuple[Audience, Name]] = field(default_factory=list)
    settled_twice: list[tuple[Audience, Name]] = field(default_factory=list)
    out_of_order: list[tuple[Audience, Name, int]] = field(default_factory=list)
    invented: list[tuple[Audience, Name]] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        return not (self.lost or self.delivered_after_settled or self.settled_twice or self.out_of_order or self.invented)

    def __str__(self) -> str:
        broken: tuple[tuple[str, Sequence[object]], ...] = (
            ("lost", self.lost),
            ("delivered after settled", self.delivered_after_settled),
            ("settled twice", self.settled_twice),
            ("out of order", self.out_of_order),
            ("invented", self.invented),
        )
        facts = f"{self.accepted} accepted, {self.delivered} delivered, {self.duplicates} duplicates"
        return facts + "".join(f"; {len(found)} {what}, such as {found[:3]}" for what, found in broken if found)


class Account:
    def __init__(self, *audiences: Audience) -> None:
        self._audiences = audiences
        self._sent: set[Name] = set()
        self._accepted: dict[Name, tuple[Audience, ...]] = {}
        self._seen: dict[Audience, set[Name]] = {audience: set() for audience in audiences}
        self._settled: dict[Audience, set[Name]] = {audience: set() for audience in audiences}
        self._newest: dict[tuple[Audience, Hashable, Hashable], int] = {}
        self._verdict = Verdict()

    def sent(self, producer: Hashable, number: int) -> None:
        """Note an event that is about to be sent; it may become accepted."""
        self._sent.add((producer, number))

    def accepted(self, producer: Hashable, number: int, *audiences: Audience) -> None:
        """Note a receipt. Without audiences, the event is meant for all of them."""
        self._accepted[producer, number] = audiences or self._audiences

    def delivered(
        self, audience: Audience, recipient: Hashable, producer: Hashable, number: int, *, is_redelivered: bool = False
    ) -> None:
        name = (producer, number)
        self._verdict.delivered += 1
        if name not in self._sent:
            self._verdict.invented.append((audience, name))
        if name in self._settled[audience]:
            self._verdict.delivered_after_settled.append((audience, name))
        if name in self._seen[audience]:
            self._verdict.duplicates += 1
            return
        self._seen[audience].add(name)
        newest = self._newest.get((audience, recipient, producer), 0)
        if number < newest and not is_redelivered:
            self._verdict.out_of_order.append((audience, name, newest))
        self._newest[audience, recipient, producer] = max(newest, number)

    def settled(self, audience: Audience, producer: Hashable, number: int) -> None:
        """Note that a recipient heard that its confirm is applied."""
        name = (producer, number)
        if name in self._settled[audience]:
            self._verdict.settled_twice.append((audience, name))
        self._settled[audience].add(name)

    def missing(self) -> int:
        """Return how many accepted events an audience still has not seen."""
        return len(self._unseen())

    def _unseen(self) -> list[tuple[Audience, Name]]:
        return [
            (audience, name) for name, meant in self._accepted.items() for audience in meant if name not in self._seen[audience]
        ]

    def verdict(self) -> Verdict:
        self._verdict.accepted = len(self._accepted)
        self._verdict.lost = self._unseen()
        return self._verdict
