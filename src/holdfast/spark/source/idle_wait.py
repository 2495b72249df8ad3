"""The idle wait: how long the source waits for something new before it tells Spark that nothing has come.

    no trigger interval    Spark asks again some milliseconds after each answer. A wait saves these questions, and what comes
                           meanwhile is read at once: waits grow up to `most_s`
    a trigger interval     Spark asks again at the next interval. A wait saves nothing, and one that is longer than the interval
                           makes Spark complain that the query falls behind: there is none

Spark does not tell its sources which trigger a query has. The pause between an answer and the next question tells it, unless the
wait itself was longer than the interval; so now and then there is no wait, to learn it again.
"""

from __future__ import annotations

# Spark pauses for 10 ms without an interval (`spark.sql.streaming.pollingDelay`); a busy machine takes a little longer.
PROMPT_S = 0.05
FIRST_WAIT_S = 0.1
# Of so many waits, one is left out.
LEARN_EVERY = 16


class IdleWait:
    """Pure: the pauses are handed in."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._wait_s = 0.0
        self._asked = 0

    def next_s(self, pause_s: float | None) -> float:
        """Seconds to wait now; `pause_s`: how long after the last idle answer Spark asked, None if the last was not idle."""
        self._asked += 1
        if pause_s is None or pause_s >= PROMPT_S:
            self._wait_s = 0.0
        elif self._asked % LEARN_EVERY == 0:
            return 0.0
        else:
            self._wait_s = min(self._most_s, max(FIRST_WAIT_S, 2 * self._wait_s))
        return self._wait_s
