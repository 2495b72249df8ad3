"""What a program may ask of a client, checked before anything is done: timeouts, credit, and the loop it is called from."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, get_args

from holdfast.errors import BadSetting, WrongLoop

# When an event that was handed out counts as finished: see `confirming`.
ConfirmMode = Literal["event", "auto", "client", "duplicates-ok"]
# More than any recipient holds; what is larger is a mistake, and must fit 64 bits on the wire.
CREDIT_MAX = 1 << 40


def seconds(timeout: float | None, default: float) -> float:
    """How long a call may wait for its answer: what it was given, or the client's own."""
    if timeout is None:
        return default
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise BadSetting(
            f"a timeout of {timeout!r} leaves no time to wait; give a positive number of seconds, or none for the client's own",
            setting="timeout",
        )
    return timeout


def patience(timeout: float | None) -> float | None:
    """How long to wait for an event: 0 takes only what is here, None waits for ever."""
    if timeout is not None and (not isinstance(timeout, int | float) or not timeout >= 0):
        raise BadSetting(
            f"a timeout of {timeout!r} is no time to wait for an event; give seconds, 0 for what is here, or none to wait",
            setting="timeout",
        )
    return timeout


def credit(events: int, size: int) -> tuple[int, int]:
    """How much may be handed over ahead of use."""
    for given, what in ((events, "events"), (size, "bytes")):
        if type(given) is not int or not 1 <= given <= CREDIT_MAX:
            raise BadSetting(
                f"credit of {given!r} {what} is not possible; give a whole number from 1 to {CREDIT_MAX:,}",
                setting="credit" if what == "events" else "credit_bytes",
            )
    return events, size


def confirm_mode(given: Any) -> ConfirmMode:
    """How events are confirmed, or BadSetting with the ways there are."""
    known = get_args(ConfirmMode)
    if given not in known:
        raise BadSetting(f"there is no confirm mode {given!r:.40}; there are: {', '.join(known)}", setting="confirm")
    chosen: ConfirmMode = given
    return chosen


def same_loop(loop: asyncio.AbstractEventLoop) -> None:
    """WrongLoop when this is not the loop that the client was opened in: nothing would ever be heard."""
    if asyncio.get_running_loop() is not loop:
        raise WrongLoop(
            "a client belongs to the event loop it was opened in, and this is another one; "
            "connect again here, or use holdfast.blocking, which any thread may call"
        )
