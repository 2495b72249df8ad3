"""Origins: the processes that send stamped commands, and what became of those that they may send again (ADR 25).

    token        1  2  3  4  5  6  7  8
    low                      ▲                 1 … 4 were answered: if they come again, they are dropped
    applied                  ██ ██    ██       5, 6 and 8 came; 8 overtook 7
    outcomes                 5: …  6: …  8: …

The start of a process names it: after a restart it is another origin. Outcomes are kept as bytes, so that a replica that was
restored answers a repetition with the very value of one that was not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.destination.effect import Answer, Effect
from holdfast.destination.stamp import Stamp
from holdfast.errors import HoldfastError, OutcomeUnknown, by_code

# Far more processes than a cluster has; past it the one that was used least recently is forgotten.
ORIGINS_MAX = 1_024
# Outcomes of one origin above its low, and bytes of them: more than its clients have unanswered.
OUTCOMES_MAX = 16_384
BYTES_MAX = 1 << 20
# A longer answer is not kept: there are few, and each is the list of what a verdict did not take effect on.
OUTCOME_BYTES_MAX = 4_096
# In place of the outcome of a command that waits for a Final.
WAITING = b""
# In place of an outcome that is not kept.
_NOT_KEPT = b"\x90"  # an empty array

_encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode = msgspec.msgpack.Decoder().decode


class Origin:
    def __init__(self, start: str) -> None:
        self.start = start
        self.low = 0
        self.applied: list[tuple[int, int]] = []  # first and last token of each run, from `low` on, ascending
        self.outcomes: dict[int, bytes] = {}
        self._tokens: list[int] = []  # those of the outcomes, ascending
        self._bytes = 0

    def is_applied(self, token: int) -> bool:
        at = bisect_left(self.applied, (token + 1,)) - 1
        return at >= 0 and token <= self.applied[at][1]

    def raise_low(self, low: int) -> None:
        if low <= self.low:
            return
        self.low = low
        self._forget(bisect_left(self._tokens, low))
        self.applied = [(max(first, low), last) for first, last in self.applied if last >= low]

    def note_applied(self, token: int) -> None:
        runs = self.applied
        at = bisect_left(runs, (token,))
        first = last = token
        if at < len(runs) and runs[at][0] == token + 1:
            last = runs.pop(at)[1]
        if at and runs[at - 1][1] == token - 1:
            at -= 1
            first = runs.pop(at)[0]
        runs.insert(at, (first, last))

    def remember(self, token: int, outcome: bytes) -> None:
        if token not in self.outcomes:
            insort(self._tokens, token)
        self._bytes += len(outcome) - len(self.outcomes.get(token, b""))
        self.outcomes[token] = outcome
        while len(self._tokens) > OUTCOMES_MAX or self._bytes > BYTES_MAX:
            self._forget(1)

    def _forget(self, count: int) -> None:
        """Forget so many outcomes, those of the least tokens."""
        for token in self._tokens[:count]:
            self._bytes -= len(self.outcomes.pop(token))
        del self._tokens[:count]


class Origins:
    def __init__(self) -> None:
        self._origins: dict[str, Origin] = {}  # the one that was used least recently first

    def __iter__(self) -> Iterator[Origin]:
        return iter(self._origins.values())

    def __len__(self) -> int:
        return len(self._origins)

    def get(self, start: str) -> Origin:
        """The origin of this start, made if it is new, and the latest used from now on."""
        origin = self._origins.pop(start, None) or Origin(start)
        self._origins[start] = origin
        if len(self._origins) > ORIGINS_MAX:
            del self._origins[next(iter(self._origins))]
        return origin

    def repeated(self, stamp: Stamp, origin: str, token: int) -> list[Effect] | None:
        """The effects of a command that came before, or too late: its answer, or nothing. None for a command to be applied."""
        known = self.get(stamp.start)
        known.raise_low(stamp.low)
        if stamp.token < known.low:
            return []
        if not known.is_applied(stamp.token):
            return None
        outcome = known.outcomes.get(stamp.token, _NOT_KEPT)
        return [] if outcome == WAITING or not origin else [Answer(origin, token, *_read(outcome))]

    def remember(self, stamp: Stamp, value: Any, error: HoldfastError | None) -> None:
        """What became of a command."""
        said = [value] if error is None else [error.code, error.family, error.sentence, error.fields]
        outcome = _encode(said)
        self._remember(stamp, outcome if len(outcome) <= OUTCOME_BYTES_MAX else _NOT_KEPT)

    def remember_waiting(self, stamp: Stamp) -> None:
        """The command waits for a Final."""
        self._remember(stamp, WAITING)

    def _remember(self, stamp: Stamp, outcome: bytes) -> None:
        known = self._origins.get(stamp.start)
        if known is not None and stamp.token >= known.low:
            if not known.is_applied(stamp.token):
                known.note_applied(stamp.token)
            known.remember(stamp.token, outcome)


def _read(outcome: bytes) -> tuple[Any, HoldfastError | None]:
    said = _decode(outcome)
    if not said:
        return None, OutcomeUnknown(
            "this command was applied before, and its answer is not kept; ask for the state it was to change"
        )
    if len(said) == 1:
        return said[0], None
    code, family, sentence, fields = said
    return None, by_code(code, sentence, fields, family)
