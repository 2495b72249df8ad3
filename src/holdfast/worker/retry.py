"""Retries: what becomes of an event whose handler failed. Pure.

    delivery   0       1       2       3        …     retries
    then       1 s     2 s     4 s     8 s             rejected: it goes to the dead events with the reason

The pause doubles from the first to the longest. Without a limit an event is tried for ever.

A try that ended with its process has raised nothing, and counts all the same: an event that kills its process is given up, too.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import BadSetting

# Doublings past this make no difference: the longest pause is reached long before.
DOUBLINGS_MAX = 60


class RetryPolicy(NamedTuple):
    retries: int | None
    first_s: float
    longest_s: float

    @classmethod
    def of(cls, retries: int | None, backoff: tuple[float, float]) -> RetryPolicy:
        """Check what a program asks for. BadSetting says what is wrong with it."""
        if retries is not None and (not isinstance(retries, int) or isinstance(retries, bool) or retries < 0):
            raise BadSetting(
                f"retries={retries!r} is not a number of retries; give 0 or more, or None for no limit", setting="retries"
            )
        try:
            first_s, longest_s = (float(each) for each in backoff)
        except (TypeError, ValueError):
            first_s, longest_s = -1.0, -1.0
        if not 0 <= first_s <= longest_s < 1e9:
            raise BadSetting(
                f"backoff={backoff!r} is not a first and a longest pause in seconds; give two, as in (1, 60)", setting="backoff"
            )
        return cls(retries, first_s, longest_s)

    def is_used_up(self, deliveries: int) -> bool:
        """Whether all tries of an event that was delivered so often were begun: the last one ended with its process."""
        return self.retries is not None and deliveries > self.retries

    def pause_s(self, deliveries: int) -> float | None:
        """Return how long an event waits that failed after so many deliveries before; None: it was the last try."""
        if self.retries is not None and deliveries >= self.retries:
            return None
        return float(min(self.longest_s, self.first_s * 2 ** min(deliveries, DOUBLINGS_MAX)))
