"""A draft and its outcome: what somebody wants in the journal, and what became of it."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.channel.channel import Buffer, Purpose
from holdfast.errors import HoldfastError


class Draft(NamedTuple):
    """What is to be written: a command, or a note of the journal to itself."""

    kind: int
    payload: Buffer
    purpose: Purpose


# The number of its entry (for a note: of the next), or why it was not taken.
Outcome = int | HoldfastError
