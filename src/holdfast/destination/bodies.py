"""Where the bodies of batches lie in the channel: at their own entry, unless they were carried forward (rule 9).

    entry 17 ── carried ──▶ 9,204          locate(17) = 9,204; positions of entry 17 keep their names (rule 1)

Also which entries are held back by rule 6: they are in the channel, belong to a destination, and will be placed later than
entries after them. Shared by all backlogs of one message manager.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort

from holdfast.destination import command as commands
from holdfast.errors import BatchDamaged, NoSuchPosition
from holdfast.event import batch

_LEAD_BYTES = 3


class Bodies:
    def __init__(self) -> None:
        self._at: dict[int, int] = {}
        self._by_place: list[tuple[int, int]] = []  # heap of (where, entry); outdated ones are passed over
        self._held: list[int] = []

    # --- carried -----------------------------------------------------------------------------------------------------

    @property
    def carried(self) -> dict[int, int]:
        return self._at

    def locate(self, entry: int) -> int:
        return self._at.get(entry, entry)

    def carry(self, entry: int, to: int) -> None:
        self._at[entry] = to
        heapq.heappush(self._by_place, (to, entry))

    def forget(self, entry: int) -> None:
        """Nobody needs the body of this entry any more."""
        del self._at[entry]

    def oldest_carried(self) -> int | None:
        """The least entry number that carries a body somebody needs."""
        heap = self._by_place
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def carried_to(self, first: int, last: int) -> list[int]:
        """The entries whose bodies were carried to somewhere in first .. last."""
        return [entry for entry, place in self._at.items() if first <= place <= last]

    # --- held back ---------------------------------------------------------------------------------------------------

    def hold(self, entry: int) -> None:
        insort(self._held, entry)

    def let_go(self, entry: int) -> None:
        del self._held[bisect_left(self._held, entry)]

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    def is_held(self, entry: int) -> bool:
        at = bisect_left(self._held, entry)
        return at < len(self._held) and self._held[at] == entry

    def held_between(self, first: int, last: int) -> list[int]:
        return self._held[bisect_left(self._held, first) : bisect_right(self._held, last)]

    def oldest_held(self) -> int | None:
        return next((entry for entry in self._held if entry not in self._at), None)


def batch_in(data: commands.Buffer, entry: int) -> memoryview:
    """The batch of `entry` in the bytes of the command that has it: its own batch command, or the `Carried` it was copied to."""
    view = memoryview(data)
    if commands.kind_of(view) == commands.BatchCommand.KIND:
        return view[_LEAD_BYTES + int.from_bytes(view[1:_LEAD_BYTES], "little") :]
    command, payload = commands.decode(view)
    if not isinstance(command, commands.Carried) or entry not in command.entries:
        raise NoSuchPosition(f"a {type(command).__name__} command does not hold the batch of entry {entry}", entry=entry)
    at = command.entries.index(entry)
    start = sum(command.lengths[:at])
    return payload[start : start + command.lengths[at]]


def events_in(payload: memoryview) -> int:
    """How many events a batch has; BatchDamaged for what cannot be one.

    A client manager checks before it appends, so this is damage.
    """
    if len(payload) < batch.FIXED_LENGTH or not batch.count_of(payload):
        raise BatchDamaged(f"a batch command carries {len(payload)} bytes that are no batch; the channel is damaged")
    return batch.count_of(payload)


def check_carried(command: commands.Carried, payload: memoryview) -> None:
    if len(command.entries) != len(command.lengths) or sum(command.lengths) != len(payload):
        raise BatchDamaged(
            f"a carried command names {len(command.entries)} batches of {sum(command.lengths)} bytes "
            f"and has {len(payload)} bytes; the channel is damaged"
        )
