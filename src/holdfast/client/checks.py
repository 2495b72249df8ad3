"""Checks of the arguments of a program, before anything is done: options, timeouts, credit, names, and the loop of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from holdfast.destination import name as names
from holdfast.errors import BadEvent, BadSetting, WrongLoop
from holdfast.event.event import Event

# When an event that was handed out counts as finished: see `confirm_modes`.
ConfirmMode = Literal["event", "auto", "client", "duplicates-ok"]
# More than any recipient holds. A larger number is a mistake; it must fit 64 bits on the wire.
CREDIT_MAX = 1 << 40
# Ten years: longer is a mistake.
DELAY_SECONDS_MAX = 10 * 365 * 86_400


def options(given: Iterable[str], kind: type, call: str) -> None:
    """TypeError for an option that a call does not have. `kind` is the TypedDict of those it has."""
    for name in given:
        if name not in kind.__annotations__:
            raise TypeError(f"{call}() has no option {name!r}; it has: {', '.join(kind.__annotations__)}")


def seconds(timeout: float | None, default: float) -> float:
    """How long a call may wait for its answer: its own timeout, or else the client's."""
    if timeout is None:
        return default
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise BadSetting(
            f"a timeout of {timeout!r} leaves no time to wait; give a positive number of seconds, or none for the client's own",
            setting="timeout",
        )
    return timeout


def event_timeout(timeout: float | None) -> float | None:
    """How long to wait for an event: 0 takes only an event that is here, None waits for ever."""
    if timeout is not None and (not isinstance(timeout, int | float) or not timeout >= 0):
        raise BadSetting(
            f"a timeout of {timeout!r} is no time to wait for an event; give seconds, 0 for what is here, or none to wait",
            setting="timeout",
        )
    return timeout


def credit(events: int, size: int) -> tuple[int, int]:
    """How many events and bytes may be handed over ahead of use."""
    for given, what in ((events, "events"), (size, "bytes")):
        if type(given) is not int or not 1 <= given <= CREDIT_MAX:
            raise BadSetting(
                f"credit of {given!r} {what} is not possible; give a whole number from 1 to {CREDIT_MAX:,}",
                setting="credit" if what == "events" else "credit_bytes",
            )
    return events, size


def confirm_mode(given: Any) -> ConfirmMode:
    """The confirm mode. BadSetting lists the modes there are."""
    known = get_args(ConfirmMode)
    if given not in known:
        raise BadSetting(f"there is no confirm mode {given!r:.40}; there are: {', '.join(known)}", setting="confirm")
    chosen: ConfirmMode = given
    return chosen


def same_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Refuse a call from another loop than the one that opened the client: it would never get an answer."""
    if asyncio.get_running_loop() is not loop:
        raise WrongLoop(
            "a client belongs to the event loop it was opened in, and this is another one; "
            "connect again here, or use holdfast.blocking, which any thread may call"
        )


def check_name(name: str) -> str:
    """Refuse an impossible name before it travels. The server says what may be done with Holdfast's own destinations."""
    if isinstance(name, str) and names.is_temporary(name):
        names.check_temporary(name)
    else:
        names.check_usable(name)
    return name


def check_subscription(name: str) -> str:
    names.check_subscription(name)
    return name


def check_many(events: Iterable[Any]) -> None:
    """Refuse one event where many are expected: the letters of a text, or the names in a dict, are never meant."""
    if isinstance(events, str | bytes | Mapping | Event) or not isinstance(events, Iterable):
        raise BadEvent(f"send_many takes a list of events, not {type(events).__name__}; send one with send")


def milliseconds(delay: float) -> int:
    """A delay in seconds, as it travels."""
    if not isinstance(delay, int | float) or not 0 <= delay <= DELAY_SECONDS_MAX:
        raise BadSetting(f"a delay of {delay!r} s is not possible; give seconds, 0 for at once", delay=delay)
    return round(delay * 1000)
