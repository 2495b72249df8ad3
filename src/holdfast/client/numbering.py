"""The numbers of a producer's batches: from 1, without a gap, under the id that the server gave.

    1  2  3  4  5        3 is refused: a hole. Sending pauses until all that is in flight is answered
    1  2  ·              4 and 5 were refused too: the next batch is 3
    1  2  ·  4           4 was accepted, and the server holds it behind the hole: this producer is forgotten, which places
                         what was held, and a new one begins at 1

A number may be used where nobody knows what became of its batch: that counts as accepted behind the hole.

This module does no I/O: whoever asks the server to open a producer, or to forget one, tells it here.
"""

from __future__ import annotations

from collections.abc import Iterable


class Numbering:
    def __init__(self) -> None:
        self.producer = ""  # its id; empty while none is open
        self.next = 1
        self.hole: int | None = None
        self.to_forget = ""  # a producer that left something behind its hole
        self._must_forget = False

    def opened(self, producer: str, last_sequence: int) -> None:
        self.producer = producer
        self.next = last_sequence + 1

    def refused(self, sequence: int, *, may_be_used: bool) -> None:
        """It leaves a hole, unless there is one before it."""
        self.hole = sequence if self.hole is None else min(self.hole, sequence)
        self._must_forget |= may_be_used

    def accepted(self, sequence: int) -> None:
        self._must_forget |= self.hole is not None and sequence > self.hole

    def mend(self) -> None:
        """Everything is answered and a number was not used: use it, or begin anew."""
        assert self.hole is not None
        if self._must_forget:
            self.to_forget, self.producer = self.producer, ""
            self.next = 1
        else:
            self.next = self.hole
        self.hole = None
        self._must_forget = False

    def is_forgotten(self, last_sequence: int, in_flight: Iterable[int]) -> bool:
        """The server's last is older than what was receipted: it does not know this producer any more."""
        unused = self.next if self.hole is None else self.hole
        return last_sequence + 1 < min((*in_flight, unused))

    def begin_anew(self) -> None:
        """The server has forgotten this producer, and what it left behind."""
        self.producer = self.to_forget = ""
        self.next = 1
        self.hole = None
        self._must_forget = False
