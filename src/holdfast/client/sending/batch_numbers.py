"""The numbers of a producer's batches: from 1, without a gap, under the id that the server gave.

    1  2  3  4  5        3 is refused: a hole. Sending pauses until all that is in flight is answered
    1  2  ·              4 and 5 were refused too: the next batch is 3
    1  2  ·  4           4 was accepted, and the server holds it behind the hole: this producer is forgotten, which places
                         what was held, and a new one begins at 1

A number whose batch has an unknown outcome may be used: it counts as accepted behind the hole.

This module does no I/O: the producer asks the server to open or forget it, and tells the outcome here.
"""

from __future__ import annotations

from collections.abc import Iterable


class BatchNumbers:
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
        """Note the hole that it leaves, unless there is one before it."""
        self.hole = sequence if self.hole is None else min(self.hole, sequence)
        self._must_forget |= may_be_used

    def accepted(self, sequence: int) -> None:
        self._must_forget |= self.hole is not None and sequence > self.hole

    def mend(self) -> None:
        """Use the number of the hole next, or begin anew. Only when everything is answered."""
        assert self.hole is not None
        if self._must_forget:
            self.to_forget, self.producer = self.producer, ""
            self.next = 1
        else:
            self.next = self.hole
        self.hole = None
        self._must_forget = False

    def is_forgotten(self, last_sequence: int, in_flight: Iterable[int]) -> bool:
        """Whether the server forgot this producer: its last number is older than what was receipted."""
        unused = self.next if self.hole is None else self.hole
        return last_sequence + 1 < min((*in_flight, unused))

    def begin_anew(self) -> None:
        """Begin at 1 with a new producer: the server has forgotten this one."""
        self.producer = self.to_forget = ""
        self.next = 1
        self.hole = None
        self._must_forget = False
