"""The credit window: how many events may be granted and not yet handed to the program, and when more are granted.

    open      granted, and not used up:  at the server │ on their way │ here, up to the one that the program was handed last
              ▲ more is granted when no more than half of the window is open; then all of it is

A window of an exact size stays as it is. Any other follows the pace of the program:

    a quarter of a second of its work    so that a slow program sits on nothing that others could work on
    not below two round trips' worth     so that the program never waits for the network
    at least 1, at most 4,000            a window grows fourfold at a time, and shrinks at once

The pace is looked at when more is granted, never for each event: the seconds that the program was at work, and not waiting for
events, by the events it was handed. The last second weighs most. Events that lie here count as given back too late when they are
more than a second of work, or when the program has taken none for a second and for four times as long as it ever took lately.

This module does no I/O and knows no clock: it is told the time, in seconds.
"""

from __future__ import annotations

# Events of a program whose pace is not known yet.
START_EVENTS = 4
# Events that the fastest program needs so as never to wait for a round trip (four times 1,000 was measured at 2.8x).
MOST_EVENTS = 4_000
# A window grows by no more than this at a time: a few quick events say little.
GROWTH = 4
# The work of a program that may wait for it.
WORK_S = 0.25
# A round trip is never taken for longer: asking may have waited for a link.
ROUND_TRIP_S_MAX = 0.5
# What is known of the pace weighs half as much after so much more work.
HALF_LIFE_S = 1.0
# More work than this is given back when the program has become slower.
EXCESS_S = 1.0
# A program that takes nothing for so long, although events are here, has stalled; so has one that needs some times its usual gap.
STALL_S = 1.0
STALL_GAPS = 4


class CreditWindow:
    def __init__(self, size: int | None) -> None:
        """`size`: exactly so many events; None: as the program needs."""
        self.is_adapting = size is None
        self.size = START_EVENTS if size is None else size
        self.open = 0
        self.waits_since_s: float | None = None  # the program waits for an event
        self._used = 0  # events, ever
        self._done = 0  # events handed to the program when the pace was looked at last
        self._looked_s: float | None = None
        self._work_s = 0.0  # the seconds and events of the pace; older ones weigh less
        self._work_events = 0.0
        self._gap_s = 0.0  # the longest that the program worked between two looks, lately
        self._round_trip_s = 0.0

    # --- credit ------------------------------------------------------------------------------------------------------

    def is_due(self, handed: int = 0) -> bool:
        """More should be granted; `handed`: so many of what is open were handed to the program."""
        return 2 * (self.open - handed) <= self.size

    def grant(self, handed: int = 0) -> int:
        """Open all of the window; how many events are to be granted for it."""
        events = max(0, self.size - self.open + handed)
        self.open += events
        return events

    def use(self, events: int) -> None:
        """So many are used up: the program was handed them."""
        self.open -= events
        self._used += events

    def drop(self, events: int) -> None:
        """So many are used up, and the program was not handed them: they say nothing about its pace."""
        self.use(events)
        self._done += events

    def withdraw(self, here: int) -> int:
        """Take back all that is open but for the events that lie here; how many. Those on their way come off the next credit."""
        events = max(0, self.open - here)
        self.open -= events
        return events

    def begin(self, here: int) -> None:
        """The server has forgotten the credit: nothing is open but what lies here."""
        self.open = here

    # --- the pace ----------------------------------------------------------------------------------------------------

    @property
    def _event_s(self) -> float:
        """How long the program works on an event; 0 while that is not known."""
        return self._work_s / self._work_events if self._work_events else 0.0

    def note_round_trip(self, seconds: float) -> None:
        """A question took so long to be answered. The quickest answer tells most."""
        seconds = min(seconds, ROUND_TRIP_S_MAX)
        self._round_trip_s = min(seconds, self._round_trip_s) if self._round_trip_s else seconds

    def wait(self, now_s: float) -> None:
        """The program waits for an event from now on, or is still waiting."""
        if self.waits_since_s is None:
            self.waits_since_s = now_s

    def go_on(self, now_s: float) -> None:
        """The program waited, and is handed an event now."""
        if self._looked_s is None:  # its first one
            self._looked_s, self._done = now_s, self._used + 1
        elif self.waits_since_s is not None:
            self._looked_s += now_s - max(self.waits_since_s, self._looked_s)
        self.waits_since_s = None

    def rest(self, now_s: float) -> None:
        """Until now the program could not go on, for reasons that say nothing about its pace."""
        self._looked_s = now_s

    def look(self, now_s: float, handed: int = 0) -> None:
        """See how many events the program was handed since the last look, and set the size of the window by that."""
        done = self._used + handed
        events, self._done = max(0, done - self._done), max(done, self._done)
        if self._looked_s is None:
            self._looked_s = now_s
        elif events:
            seconds = max(0.0, now_s - self._looked_s)
            self._looked_s = now_s
            faded = 0.5 ** (seconds / HALF_LIFE_S)
            self._work_s = self._work_s * faded + seconds
            self._work_events = self._work_events * faded + events
            self._gap_s = max(seconds, self._gap_s / 2)
            self._fit()

    def _fit(self) -> None:
        wanted_s = max(WORK_S, 2 * self._round_trip_s)
        wanted = MOST_EVENTS if self._event_s * MOST_EVENTS <= wanted_s else int(wanted_s / self._event_s)
        if self.is_adapting:
            self.size = max(1, min(wanted, GROWTH * self.size, MOST_EVENTS))

    # --- giving back -------------------------------------------------------------------------------------------------

    def keep(self, now_s: float, ahead: int) -> int:
        """How many of the events that lie here, and that the program was not handed, to keep. All, unless it has stalled or has
        become slower; one, after a stall, so that a program that goes on has work at once."""
        if not self.is_adapting or self._looked_s is None:
            return ahead
        if ahead > 1 and now_s - self._looked_s >= max(STALL_S, STALL_GAPS * self._gap_s):
            self._forget_pace()
            return 1
        is_slow = ahead > 2 * self.size and ahead * self._event_s > EXCESS_S
        return self.size if is_slow else ahead

    def _forget_pace(self) -> None:
        """Begin again: a program that has stalled may go on in any way."""
        self.size = 1
        self._work_s = self._work_events = 0.0
