"""The files of keys of a store: records of answer files whose bodies were given up, for as long as their keys are known.

    keys-00000001 keys-00000002 …      oldest first; one goes when the clock of the topic has passed all its keys
                  └─▶ lasting          what must outlive it: a record with the membership and the clock, and records with aliases

`lasting` is written whole before a file goes: an end in between leaves both, and what is read twice counts once.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.continuity.listener.durable import record as records
from holdfast.continuity.listener.durable import store_folder
from holdfast.continuity.listener.durable.record import Record
from holdfast.continuity.machines.aliases import TOKENS_MAX

LASTING = "lasting"
# As many values as a listener knows, if each answer shows one.
LASTING_MAX = TOKENS_MAX


class KeyFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, tuple[int, int]] = {}  # oldest first: the newest time, and the last place

    def path(self, number: int) -> Path:
        return self._folder / f"keys-{number:08}"

    def write(self, number: int, found: list[Record]) -> None:
        """Write a file. The records have no answers."""
        store_folder.write_whole(self.path(number), b"".join(map(records.encode, found)))
        self.note(number, found)

    def read(self, number: int) -> list[Record]:
        """The records of a file that was there on opening."""
        found = [each.record for each in records.scan(self.path(number).read_bytes())]
        self.note(number, found)
        return found

    def note(self, number: int, found: list[Record]) -> None:
        """Note the newest time and the last place in a file, or in those before it: the clock does not go back."""
        newest_us, last = next(reversed(self._known.values()), (0, 0))
        self._known[number] = (
            max([newest_us, *(each.time_us for each in found)]),
            max([last, *(each.place for each in found)]),
        )

    def forgettable(self, before_us: int, finished: int) -> list[int]:
        """The files that are all older than this, by the times of events, oldest first. Behind a place that is not finished, a
        record is the proof of an answer, and stays."""
        return [number for number, (newest_us, last) in self._known.items() if newest_us < before_us and last <= finished]

    def forget(self, number: int) -> None:
        """Delete a file, the oldest. The membership, the clock and the newest LASTING_MAX records with aliases stay."""
        old = [*self.lasting(), *(each.record for each in records.scan(self.path(number).read_bytes()))]
        stay = [msgspec.structs.replace(each, key="", members=None, given=None) for each in old if each.aliases is not None]
        newest = max((each for each in old if each.members), key=lambda each: each.place, default=Record(0, 0, ""))
        clock_us = max((each.time_us for each in old), default=0)
        clock = Record(newest.place, 0, "", time_us=clock_us, members=newest.members)
        store_folder.write_whole(self._folder / LASTING, b"".join(map(records.encode, (clock, *stay[-LASTING_MAX:]))))
        self.path(number).unlink()
        del self._known[number]

    def lasting(self) -> list[Record]:
        """What stays of files that were forgotten."""
        path = self._folder / LASTING
        return [each.record for each in records.scan(path.read_bytes())] if path.exists() else []
