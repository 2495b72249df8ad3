"""Answers of selectors: expensive selectors are asked about a batch before it goes into the channel, and its sender waits.

    batch ─▶ cheap, as most are ──────────────────────────▶ channel ─▶ applied
          └▶ asked in the shared turn ─▶ the answers kept ─▶ channel ─▶ applied, with the answers

Once a batch is in the channel, everything after it waits until it is applied; before that, only the session that sent it waits.
Selectors whose answers are missing when the batch is applied are asked then: a subscription came meanwhile, or the answers were
too many to keep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.channel.channel import Buffer, Entry
from holdfast.destination import command
from holdfast.destination.command import BatchCommand
from holdfast.destination.directory import Directory
from holdfast.destination.state import selector_questions
from holdfast.destination.state.selector_questions import SelectorQuestion
from holdfast.node import supervision
from holdfast.node.reading.shared_turn import SharedTurn

# Batches whose answers are kept. A session has few batches in the channel at a time: this is enough for hundreds of sessions.
KEPT_MAX = 1_024
_CHECKSUM = slice(4, 8)

Key = tuple[str, int, bytes]


class SelectorAnswers:
    def __init__(self, turn: SharedTurn) -> None:
        self._turn = turn
        self._kept: dict[Key, dict[str, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, directory: Directory, batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        """Whether selectors are asked about a batch before it may be appended; `then` is called when they were."""
        asked = selector_questions.of_batch(directory, batch, payload)
        if not asked:
            return False
        task = supervision.start(self._ask(_key_of(batch, payload), asked, then), f"asking about a batch for {batch.destination}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _ask(self, key: Key, asked: list[SelectorQuestion], then: Callable[[], None]) -> None:
        try:
            answers = await self._turn.take(selector_questions.answered(asked))
            if len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = answers[asked[0].batch.entry]
        except Exception as problem:  # a fault of ours, met again when the batch is applied: the sender does not wait for it
            supervision.report("asking about a batch", problem)
        then()

    def recall(self, directory: Directory, entry: Entry) -> None:
        """Give the directory the kept answers about the batch of this entry, which is about to be applied."""
        if self._kept and command.kind_of(entry.command) == BatchCommand.KIND:
            batch, payload = command.decode(entry.command)
            assert isinstance(batch, BatchCommand)
            known = self._kept.pop(_key_of(batch, payload), None)
            if known is not None:
                directory.answers[entry.number] = known

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _key_of(batch: BatchCommand, payload: Buffer) -> Key:
    return batch.producer, batch.sequence, bytes(payload[_CHECKSUM])
