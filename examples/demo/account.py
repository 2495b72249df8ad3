"""The account: what the processes themselves wrote down, put side by side.

accepted     a producer had the receipt
delivered    a recipient had it in its hands, counted as often as that happened
confirmed    a recipient's confirm was applied
duplicates   handed to the recipients of one place more than once
lost         accepted, and not confirmed by someone it was meant for
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

Name = tuple[str, int]


class Log:
    """A file of JSON lines that grows while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new_lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return [msgspec.json.decode(line) for line in whole.splitlines()]


class Place:
    """A queue, or one subscription of a topic: everything accepted for it must be confirmed here."""

    def __init__(self, title: str, producers: list[str]) -> None:
        self.title = title
        self.producers = producers
        self.delivered: Counter[Name] = Counter()
        self.confirmed: Counter[Name] = Counter()
        self.delivered_at: list[float] = []

    def note(self, line: dict[str, Any]) -> None:
        if "got" in line:
            self.delivered_at.append(line["t"])
        self.delivered.update((name, number) for name, number in line.get("got", ()))
        self.confirmed.update((name, number) for name, number in line.get("confirmed", ()))


class Kill(NamedTuple):
    """When the server was killed, and when it listened again."""

    killed_at: float
    listened_at: float


class Account:
    def __init__(self, places: list[Place]) -> None:
        self.places = places
        self.accepted: dict[str, set[int]] = {}
        self.kills: list[Kill] = []
        self._receipts_at: list[float] = []

    def note_accepted(self, producer: str, line: dict[str, Any]) -> None:
        first, last = line["accepted"]
        self.accepted.setdefault(producer, set()).update(range(first, last + 1))
        self._receipts_at.append(line["t"])

    @property
    def accepted_count(self) -> int:
        return sum(map(len, self.accepted.values()))

    def meant_for(self, place: Place) -> set[Name]:
        return {(producer, number) for producer in place.producers for number in self.accepted.get(producer, ())}

    def lost(self) -> dict[str, set[Name]]:
        """Accepted and not confirmed, by place."""
        return {place.title: self.meant_for(place) - place.confirmed.keys() for place in self.places}

    @property
    def lost_count(self) -> int:
        return sum(map(len, self.lost().values()))

    @property
    def delivered_count(self) -> int:
        return sum(place.delivered.total() for place in self.places)

    @property
    def confirmed_count(self) -> int:
        return sum(len(place.confirmed) for place in self.places)

    @property
    def duplicates(self) -> int:
        return sum(place.delivered.total() - len(place.delivered) for place in self.places)

    def recoveries_s(self) -> list[float]:
        """From each kill to the first receipt that any producer had from the server that came after it.

        Receipts that the dead one had sent may still be on their way when it is gone: they do not count.
        """
        found = []
        for kill in self.kills:
            later = [at for at in self._receipts_at if at > kill.listened_at]
            if later:
                found.append(min(later) - kill.killed_at)
        return found

    def pauses_s(self, since: float, until: float) -> tuple[float, float]:
        """The longest times without a receipt, and without a delivery, for anybody."""
        delivered = [at for place in self.places for at in place.delivered_at]
        return _longest_pause_s(self._receipts_at, since, until), _longest_pause_s(delivered, since, until)

    def lines(self) -> list[tuple[str, str]]:
        """Names and values, for people."""
        recoveries = self.recoveries_s()
        times = f"p50 {median(recoveries):.2f} s, max {max(recoveries):.2f} s" if recoveries else "nothing to recover from"
        return [
            ("server killed (SIGKILL)", f"{len(self.kills)} times"),
            ("accepted (receipted)", f"{self.accepted_count:,}"),
            ("to be confirmed", f"{sum(len(self.meant_for(place)) for place in self.places):,}"),
            ("confirmed", f"{self.confirmed_count:,}"),
            ("delivered", f"{self.delivered_count:,}"),
            ("duplicates", f"{self.duplicates:,}"),
            ("lost", f"{self.lost_count:,}"),
            ("kill to next receipt", times),
        ]


def _longest_pause_s(moments: list[float], since: float, until: float) -> float:
    within = [since, *sorted(at for at in moments if since < at < until), until]
    return max(later - earlier for earlier, later in pairwise(within))
