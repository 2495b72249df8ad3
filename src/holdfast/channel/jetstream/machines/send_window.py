"""The send window: which command is sent next, which is sent again, and which is given up.

    put ─▶ waiting ───▶ │ sent, not answered: at most 256 and 4 MiB │ ─▶ accepted, refused, or given up
    put ─▶ fragments ─▶ │ their own share: 1 MiB                    │

While servers take commands, new ones are sent in the order of `put`. After the first that is not taken or not answered, the
window is stalled: only the oldest such command is tried, with growing pauses. Once a server takes any command, all that were not
taken follow, in their order, and then the new ones. So an election costs few publications and, as a rule, no order.

    open ──(not taken, silent, connection lost)──▶ stalled ──(a leader answers)──▶ open

Every command has one deadline, counted from `put`. A command that is given up was sent, and may be in the stream, unless each
of its attempts is known to have failed. Three silences in a row, each an attempt's time without a word, mean that the server
should be left. The caller says what time it is.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

PAUSE_MIN_S = 0.05
PAUSE_MAX_S = 0.5
SILENCES_MAX = 3


class Limits(NamedTuple):
    """An attempt is answered within `attempt_s`; a command is given up after `give_up_s`."""

    count_max: int
    bytes_max: int
    fragments_bytes_max: int
    attempt_s: float
    give_up_s: float


class GivenUp(NamedTuple):
    token: int
    may_be_stored: bool


class _Command:
    """A command that was put. `open_attempts` may still have succeeded; `is_due` must be sent again."""

    __slots__ = ("answer_by", "give_up_at", "is_due", "is_fragment", "length", "open_attempts")

    def __init__(self, length: int, is_fragment: bool, give_up_at: float) -> None:
        self.length = length
        self.is_fragment = is_fragment
        self.give_up_at = give_up_at
        self.answer_by = 0.0
        self.open_attempts = 0
        self.is_due = False


class SendWindow:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._commands: dict[int, _Command] = {}  # in the order of `put`, so that deadlines ascend
        self._waiting: deque[int] = deque()
        self._fragments: deque[int] = deque()
        self._sent: dict[int, _Command] = {}  # in the order in which they were first sent
        self._again: deque[int] = deque()
        self._events_sent = 0
        self._events_bytes = 0
        self._fragments_bytes = 0
        self._waiting_bytes = 0
        self._is_stalled = False
        self._probe: int | None = None
        self._pause_s = PAUSE_MIN_S
        self._retry_at = 0.0
        self._silences = 0

    @property
    def is_empty(self) -> bool:
        return not self._commands

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were put and never sent."""
        return self._waiting_bytes

    @property
    def open_bytes(self) -> int:
        """Bytes that were put and not answered."""
        return self._waiting_bytes + self._events_bytes + self._fragments_bytes

    @property
    def wants_another_server(self) -> bool:
        return self._silences >= SILENCES_MAX

    def put(self, token: int, length: int, is_fragment: bool, now: float) -> None:
        self._commands[token] = _Command(length, is_fragment, now + self._limits.give_up_s)
        (self._fragments if is_fragment else self._waiting).append(token)
        self._waiting_bytes += length

    # --- sending -------------------------------------------------------------------------------------------------------

    def next_to_send(self, now: float) -> int | None:
        """Return the command to send now, and count it as sent; None when nothing may be sent."""
        token = self._probe_at(now) if self._is_stalled else self._next_in_order()
        if token is not None:
            self._mark_sent(token, now)
        return token

    def _probe_at(self, now: float) -> int | None:
        if self._probe is not None or now < self._retry_at:
            return None
        self._probe = next((token for token, command in self._sent.items() if command.is_due), None)
        if self._probe is None:  # those that were not taken are given up meanwhile
            self._probe = self._next_new()
        return self._probe

    def _next_in_order(self) -> int | None:
        while self._again:
            token = self._again.popleft()
            if token in self._sent and self._sent[token].is_due:
                return token
        return self._next_new()

    def _next_new(self) -> int | None:
        if self._waiting and self._has_room_for_events():
            return self._waiting.popleft()
        if self._fragments and self._fragments_bytes < self._limits.fragments_bytes_max:
            return self._fragments.popleft()
        return None

    def _has_room_for_events(self) -> bool:
        return self._events_sent < self._limits.count_max and self._events_bytes < self._limits.bytes_max

    def _mark_sent(self, token: int, now: float) -> None:
        command = self._commands[token]
        command.answer_by = now + self._limits.attempt_s
        command.open_attempts += 1
        command.is_due = False
        if token not in self._sent:
            self._sent[token] = command
            self._waiting_bytes -= command.length
            self._count(command, 1)

    def _count(self, command: _Command, by: int) -> None:
        if command.is_fragment:
            self._fragments_bytes += by * command.length
        else:
            self._events_sent += by
            self._events_bytes += by * command.length

    # --- answers -------------------------------------------------------------------------------------------------------

    def accepted(self, token: int) -> None:
        """A server has stored it. That ends a stall: what was not taken follows."""
        self._answered(token)

    def refused(self, token: int) -> None:
        """A server has said no for good. It leads, so that this ends a stall, too."""
        self._answered(token)

    def _answered(self, token: int) -> None:
        self._silences = 0
        self._pause_s = PAUSE_MIN_S
        self._remove(token)
        if self._is_stalled:
            self._is_stalled = False
            self._probe = None
            self._again = deque(token for token, command in self._sent.items() if command.is_due)

    def not_taken(self, token: int, now: float, *, is_answer: bool = True) -> None:
        """This attempt has failed, and nothing happened: no leader, or (no answer) it was not even sent."""
        if is_answer:
            self._silences = 0
        command = self._sent.get(token)
        if command is None:
            return
        command.open_attempts = max(0, command.open_attempts - 1)
        command.is_due = True
        self._stall(token, now)

    def connection_lost(self, now: float) -> None:
        """What was sent may never have arrived: all of it is sent again, from the oldest on."""
        for command in self._sent.values():
            command.is_due = True
        self._probe = None
        if self._sent:
            self._is_stalled = True
            self._retry_at = now + self._pause_s

    def forget(self, token: int) -> None:
        """Nobody waits for it any more. That says nothing about the servers."""
        self._remove(token)

    def _stall(self, token: int, now: float) -> bool:
        """Begin or lengthen a stall. Return False for a command that fails within a stall and is not the one that is tried."""
        if self._is_stalled and token != self._probe:
            return False
        if self._is_stalled:
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        self._is_stalled = True
        self._probe = None
        self._retry_at = now + self._pause_s
        return True

    def _remove(self, token: int) -> None:
        command = self._commands.pop(token, None)
        if token == self._probe:
            self._probe = None
        if command is None:
            return
        if self._sent.pop(token, None) is None:
            (self._fragments if command.is_fragment else self._waiting).remove(token)
            self._waiting_bytes -= command.length
        else:
            self._count(command, -1)

    # --- time ----------------------------------------------------------------------------------------------------------

    def wake_at(self) -> float | None:
        """Return when `expire` or `next_to_send` has something to do; None while there is nothing to wait for."""
        if not self._commands:
            return None
        times = [next(iter(self._commands.values())).give_up_at]
        times += [command.answer_by for command in self._sent.values() if not command.is_due]
        if self._is_stalled and self._probe is None:
            times.append(self._retry_at)
        return min(times)

    def expire(self, now: float) -> list[GivenUp]:
        """Return the commands that are given up; note attempts that were not answered."""
        given_up = []
        for token, command in list(self._commands.items()):
            if command.give_up_at > now:
                break
            given_up.append(GivenUp(token, command.open_attempts > 0))
            self._remove(token)
        for token, command in self._sent.items():
            if not command.is_due and command.answer_by <= now:
                command.is_due = True
                self._silences += self._stall(token, now)
        return given_up

    def turned_away(self) -> None:
        """The server was left; the count of silences begins again."""
        self._silences = 0

    def hurry(self, give_up_at: float) -> None:
        """Give everything up at this time at the latest."""
        for command in self._commands.values():
            command.give_up_at = min(command.give_up_at, give_up_at)

    def drop_waiting(self) -> list[int]:
        """Forget and return what was never sent."""
        dropped = [*self._waiting, *self._fragments]
        for token in dropped:
            self._remove(token)
        return dropped
