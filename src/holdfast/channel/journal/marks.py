"""What the newest header and the notes after it say of the whole journal: how far it was released, and where its snapshot is."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.channel.journal.layout import SnapshotPlace
from holdfast.channel.journal.record import RELEASED, RELEASED_PAYLOAD, SNAPSHOT_END, SNAPSHOT_END_PAYLOAD, Note
from holdfast.channel.journal.segment import Chain


class Marks(NamedTuple):
    """Opening finds them, the writer keeps them up to date."""

    oldest_generation: int
    snapshot: SnapshotPlace

    def after(self, note: Note, generation: int) -> Marks:
        """What they say after this note, which stands in the segment of this generation."""
        if note.kind == RELEASED:
            return self._replace(oldest_generation=RELEASED_PAYLOAD.unpack(note.payload)[0])
        if note.kind == SNAPSHOT_END:
            begun = SNAPSHOT_END_PAYLOAD.unpack(note.payload)
            return self._replace(snapshot=SnapshotPlace._make((*begun, generation, note.byte)))
        return self

    def held(self, segments: Chain) -> tuple[Chain, Chain]:
        """Of these: the chain that holds entries, and what is kept before it for the newest snapshot alone."""
        chain = tuple(segment for segment in segments if segment.generation >= self.oldest_generation)
        earlier = (segment for segment in segments if segment.generation < self.oldest_generation)
        return chain, tuple(segment for segment in earlier if self.snapshot.keeps(segment.generation))
