"""What is known of a stretch of a backlog, and what is read of it: by whoever asks a server, and by whoever looks into a folder.

place = slot × 65,536 + index in the batch          see `destination.extent`
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.event.batch import Batch


class Extent(NamedTuple):
    """What waits from a place on, within limits."""

    identity: str  # of the subscription: what no other has, here or anywhere
    confirmed: int  # the place of the oldest event that waits; the newest when none does
    start: int
    end: int
    cuts: list[int]  # places between them that divide it into pieces of about equal size
    events: int  # that wait between start and end
    bytes: int  # their batches, as they lie; beyond some hundred batches an estimate
    left: int  # events that wait from the end on
    newest: int  # behind the last event that was placed


class ReadSlice(NamedTuple):
    """Events of one batch, all or some, that follow each other."""

    first: int  # position; the others follow
    events: int
    destination: str  # where it was sent
    accepted_us: int  # when it was accepted, microseconds since 1970; 0: not known
    batch: Batch  # just these events; its lengths are read when they are asked for
