"""The reason why an event is dead, as a program reads it; and how a reason is made of an exception."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import holdfast.errors
from holdfast.destination.command import RELEASE_REASON_LENGTH_MAX
from holdfast.destination.state.dead import CODES
from holdfast.errors import BadSetting
from holdfast.wire.message_part import Death as TravellingDeath

REASON_LENGTH_MAX = 1_000
# An exception has more to say: its kind and message, then the last lines of its traceback.
EXCEPTION_LENGTH_MAX = 4_000
TRACEBACK_LINES_MAX = 12
# The files of Holdfast, whose lines say nothing about a program.
HOLDFAST = str(Path(holdfast.errors.__file__).parent) + os.sep


class Death(NamedTuple):
    """`code` is the reason for programs: expired, redelivered, failed, rejected, no-destination, deleted or
    unreadable."""

    destination: str
    subscription: str | None
    code: str
    reason: str
    deliveries: int
    when: datetime | None


def deaths_of(travelled: Sequence[TravellingDeath]) -> tuple[Death, ...]:
    return tuple(
        Death(
            each.destination,
            each.subscription or None,
            each.code,
            each.reason,
            each.deliveries,
            datetime.fromtimestamp(each.at_ms / 1000, UTC) if each.at_ms else None,
        )
        for each in travelled
    )


def checked_reason(reason: str | BaseException) -> str:
    """The reason that is kept with a rejected event: given in words, or made of an exception. Bounded, and valid text."""
    if isinstance(reason, BaseException):
        return _valid(_told(reason), EXCEPTION_LENGTH_MAX)
    if not isinstance(reason, str) or not reason:
        raise BadSetting("a rejection needs a reason in words, or an exception, which is shown with the dead event")
    return _valid(reason, REASON_LENGTH_MAX)


def checked_code(code: str) -> str:
    """The code of a death elsewhere, with which an event is rejected here; "" for none."""
    if code not in ("", *CODES):
        raise BadSetting(f"no event dies of {code!r:.40}; there are {', '.join(CODES)}", setting="code")
    return "" if code == "rejected" else code


def release_reason(reason: str | BaseException) -> str:
    """The reason that is kept with a released event, "" for none: one line of an exception. Bounded, and valid text."""
    if isinstance(reason, BaseException):
        reason = "".join(traceback.format_exception_only(reason)).strip()
    if not isinstance(reason, str):
        raise BadSetting(f"the reason of a release is text, or an exception, not {type(reason).__name__}", setting="reason")
    return _valid(reason, RELEASE_REASON_LENGTH_MAX)


def _told(problem: BaseException) -> str:
    """The exception in one line, then where it came from: the innermost lines of the program, which say most."""
    said = "".join(traceback.format_exception_only(problem)).strip()[: EXCEPTION_LENGTH_MAX // 2]
    frames = traceback.extract_tb(problem.__traceback__)
    of_program = [frame for frame in frames if not frame.filename.startswith(HOLDFAST)]
    lines = "".join(traceback.format_list(of_program or frames)).splitlines()
    if not lines:
        return said
    shown = lines[-TRACEBACK_LINES_MAX:]
    while len(shown) > 1 and len(said) + sum(map(len, shown)) + len(shown) > EXCEPTION_LENGTH_MAX:
        del shown[0]
    return "\n".join((said, *shown))


def _valid(text: str, length_max: int) -> str:
    return text[:length_max].encode(errors="replace").decode()
