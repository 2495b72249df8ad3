"""Retries: what becomes of an event whose handler failed. Pure.

    delivery   0       1       2       3        …     retries
    then       1 s     2 s     4 s     8 s             rejected: it goes to the dead events with the reason

The pause doubles from the first to the longest. Without a limit an event is tried for ever.

Events that failed together, as when a database was away, do not come back together: each pause is shortened by a random share,
up to `jitter` of it. The dice are thrown outside; this module is told what they showed.

Not every exception is worth another try: `reject_on` names kinds after which there is none, `retry_on` the only kinds after which
there is one. A kind that both name is not tried again.

A try that ended with its process has raised nothing, and counts all the same: an event that kills its process is given up, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import BadSetting

# Doublings past this make no difference: the longest pause is reached long before.
DOUBLINGS_MAX = 60
# Half of a pause is sure, half is by chance: what failed in one second comes back spread over as long as it has waited.
JITTER = 0.5

Kinds = tuple[type[BaseException], ...]


class RetryPolicy(NamedTuple):
    retries: int | None
    first_s: float
    longest_s: float
    jitter: float = 0.0
    retry_on: Kinds | None = None
    reject_on: Kinds = ()

    @classmethod
    def of(
        cls,
        retries: int | None,
        backoff: tuple[float, float],
        jitter: float = 0.0,
        retry_on: type[BaseException] | Kinds | None = None,
        reject_on: type[BaseException] | Kinds | None = None,
    ) -> RetryPolicy:
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
        if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise BadSetting(
                f"jitter={jitter!r} is not a share of a pause; give a number from 0 (none) to 1 (all of it)", setting="jitter"
            )
        only = None if retry_on is None else _kinds("retry_on", retry_on)
        return cls(retries, first_s, longest_s, float(jitter), only, _kinds("reject_on", reject_on or ()))

    def is_final(self, problem: BaseException) -> bool:
        """Whether an exception of a handler is one after which there is no other try, however many are left."""
        return isinstance(problem, self.reject_on) or (self.retry_on is not None and not isinstance(problem, self.retry_on))

    def is_used_up(self, deliveries: int) -> bool:
        """Whether all tries of an event that was delivered so often were begun: the last one ended with its process."""
        return self.retries is not None and deliveries > self.retries

    def pause_s(self, deliveries: int, chance: float = 0.0) -> float | None:
        """Return how long an event waits that failed after so many deliveries before; None: it was the last try.

        `chance` is what the dice showed, from 0 to 1: with 0 the pause is whole."""
        if self.retries is not None and deliveries >= self.retries:
            return None
        whole_s = min(self.longest_s, self.first_s * 2 ** min(deliveries, DOUBLINGS_MAX))
        return float(whole_s * (1 - self.jitter * chance))


def _kinds(setting: str, given: Any) -> Kinds:
    kinds = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise BadSetting(
            f"{setting}={given!r} is not a tuple of kinds of exceptions; give some, as in (ValueError, KeyError)", setting=setting
        )
    return kinds
