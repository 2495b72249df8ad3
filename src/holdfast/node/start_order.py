"""Who comes first after a start (A7): what was recorded while the system was starting, then what was unfinished before, then
what is new.

Between the tail that was found and the claim of the new primary lie the batches that arrived during the start, a boot Recorder's
among them. They are preferred by delivery, with one exception (rule 14): a producer's own sequence is never broken, so the
batches of a producer that may have something unfinished from before keep their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.channel.channel import Entry
from holdfast.destination import command, effect
from holdfast.destination.directory import Directory
from holdfast.destination.producers import WINDOW, Producer
from holdfast.event.position import Ranges


class StartOrder:
    def __init__(self) -> None:
        self._early: dict[effect.BacklogKey, list[tuple[int, int]]] = {}
        self._unfinished: frozenset[str] = frozenset()

    def reached_tail(self, directory: Directory) -> None:
        """Everything from before the start is applied: remember whose events are unfinished."""
        # By original number: a batch that was carried is as old as it was.
        entries = [backlog.oldest_entry() for backlog in directory.backlogs().values()] + list(directory.bodies.carried)
        oldest = min((entry for entry in entries if entry is not None), default=0)
        self._unfinished = frozenset(
            producer.identifier for producer in directory.producers if _may_have_unfinished(producer, directory, oldest)
        )

    def note(self, entry: Entry, effects: Sequence[effect.Effect]) -> None:
        """An entry that arrived during the start was applied."""
        if command.kind_of(entry.command) != command.BatchCommand.KIND:
            return
        batch, _ = command.decode(entry.command)
        assert isinstance(batch, command.BatchCommand)
        if batch.producer in self._unfinished:
            return
        for each in effects:
            if isinstance(each, effect.Placed):
                self._early.setdefault(each.backlog, []).append((each.first, each.first + each.events - 1))

    def early(self) -> dict[effect.BacklogKey, Ranges]:
        """What goes before everything else, by backlog."""
        return {key: Ranges.gather(ranges) for key, ranges in self._early.items()}


def _may_have_unfinished(producer: Producer, directory: Directory, oldest: int) -> bool:
    """Only the newest batches of a producer are known one by one; older ones may be unfinished if anything that old is needed."""
    entries = [entry for _, entry in producer.recent]
    if any(directory.catalog.is_needed(entry) for entry in entries):
        return True
    return len(entries) == WINDOW and 0 < oldest < min(entries)
