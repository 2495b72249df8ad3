"""The operator log: tells an operator what happens, in the log and so in `_LOG`; limited in number (`notices`).

    the journal          80 % full; short of space, drawing on the reserve; full, refusing sends; with room again
    a destination        80 % of its high water; blocked; taking events again
                         deduplicating for less time than it is set to
    a subscription       removed past a limit of its terms, with the number of events that waited in it
    events               that died, by destination and code, counted
    a user               that was refused what no rule allows

Nothing here waits or raises, and an event on its way costs nothing here: the log is told when one of these things has happened,
and checks once a second how full the journal is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from holdfast.channel.channel import Channel, Pressure
from holdfast.destination.backlog.history import OFTEN
from holdfast.destination.effect import Died, Effect, Purged, Resembling, ReturnedOften, SubscriptionRemoved, WindowShortened
from holdfast.destination.name import DEAD
from holdfast.destination.state.deduplication import REMEMBERED_MAX
from holdfast.errors import Blocked, DiskFailed, HoldfastError
from holdfast.node.logs.notices import Notices, folded
from holdfast.node.settings import size_text

# Lines of this logger are events of `_LOG` even while space is short: the reserve takes them.
SPACE = "holdfast.space"
space_log = logging.getLogger(SPACE)
flow_log = logging.getLogger("holdfast.flow")
dead_log = logging.getLogger("holdfast.dead")
access_log = logging.getLogger("holdfast.access")

CHECK_S = 1.0
# A place that fills up is told of at the first percentage, and again only after it was below the second.
FILLING_PERCENT = 80
EMPTYING_PERCENT = 70


class Filling:
    """Remembers which of the places that fill up have passed 80 %. Pure."""

    def __init__(self) -> None:
        self._passed: dict[str, None] = {}

    def passes(self, name: str, percent: float) -> bool:
        """Whether a place has just passed 80 %."""
        if percent >= FILLING_PERCENT and name not in self._passed:
            self._passed[name] = None
            return True
        if percent < EMPTYING_PERCENT:
            self.forget(name)
        return False

    def forget(self, name: str) -> None:
        self._passed.pop(name, None)


class OperatorLog:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._notices = Notices()
        self._filling = Filling()
        self._told: dict[type[Effect], Callable[[Any], None]] = {
            WindowShortened: self.window_shortened,
            Died: self.died,
            ReturnedOften: self.returned_often,
            SubscriptionRemoved: self.subscription_removed,
            Purged: self.purged,
            Resembling: self.resembling,
        }
        self._timer: asyncio.TimerHandle | None = None
        channel.watch_pressure(self._pressure_changed)

    # --- the journal -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check the journal from now on."""
        pressure = self._channel.pressure
        if pressure.is_short:
            self._pressure_changed(pressure)
        self._check_journal()

    def _check_journal(self) -> None:
        pressure = self._channel.pressure
        percent = 100 * pressure.used_bytes / pressure.ordinary_bytes if pressure.ordinary_bytes else 0
        if self._filling.passes("", percent) and not pressure.is_short:
            used, full = size_text(pressure.used_bytes), size_text(pressure.ordinary_bytes)
            line = f"the journal is {percent:.0f} % full: {used} of {full} are used; confirm what waits, or give it more room"
            self._notices.say(space_log, logging.WARNING, "journal filling", folded(line))
        self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check_journal)

    def _pressure_changed(self, pressure: Pressure) -> None:
        if pressure.is_short:
            left = size_text(pressure.events_reserve_bytes)
            line = f"the journal is short of space ({pressure.reason}): events draw on their reserve, of which {left} are left"
            self._notices.say(space_log, logging.WARNING, "journal short", folded(line))
        else:
            free = size_text(pressure.free_bytes)
            self._notices.say(space_log, logging.INFO, "journal short", folded(f"the journal has room again: {free} are free"))

    def send_failed(self, problem: HoldfastError) -> None:
        """The channel did not take a batch."""
        if isinstance(problem, Blocked | DiskFailed):
            line = folded(f"events sent are not accepted: {problem}")
            self._notices.say(space_log, logging.ERROR, f"not accepted: {problem.code}", line)

    # --- destinations, and their events ------------------------------------------------------------------------------

    def note(self, each: Effect) -> None:
        """Log an effect, if it is one for operators."""
        if (tell := self._told.get(type(each))) is not None:
            tell(each)

    def destination_filled(self, name: str, percent: float, is_blocked: bool) -> None:
        """A destination is filled to this percentage of its high water."""
        if self._filling.passes(name, percent) and not is_blocked:
            line = f"{name!r} is {percent:.0f} % full; when it is full, those who send to it are held back"
            self._notices.say(flow_log, logging.WARNING, f"filling {name}", folded(line))

    def destination_blocked(self, name: str, is_blocked: bool, reason: str) -> None:
        if is_blocked:
            line, level = f"{name!r} is blocked: {reason}; those who send to it are held back", logging.WARNING
        else:
            line, level = f"{name!r} takes events again", logging.INFO
        self._notices.say(flow_log, level, f"blocked {name}", folded(line))

    def destination_forgotten(self, name: str) -> None:
        """A destination was deleted, or has no high water any more."""
        self._filling.forget(name)

    def window_shortened(self, shortened: WindowShortened) -> None:
        name, to_s, set_s = shortened.destination, shortened.to_ms / 1000, shortened.window_ms / 1000
        line = (
            f"{name!r} deduplicates for {to_s:g} s and not for the {set_s:g} s it is set to: it remembers {REMEMBERED_MAX:,} "
            "events, and more come"
        )
        self._notices.say(flow_log, logging.WARNING, f"shortened {name}", folded(line))

    def died(self, died: Died) -> None:
        name, subscription = died.backlog
        where = f"{name!r}, subscription {subscription!r}," if subscription else f"{name!r}"
        self._notices.say(
            dead_log,
            logging.WARNING,
            f"dead {died.backlog} {died.code}",
            lambda count: f"{count:,} {'event' if count == 1 else 'events'} of {where} died ({died.code}); see {DEAD}",
            died.events,
        )

    def returned_often(self, often: ReturnedOften) -> None:
        name, subscription = often.backlog
        where = f"{name!r}, subscription {subscription!r}," if subscription else f"{name!r}"
        self._notices.say(
            dead_log,
            logging.WARNING,
            f"often {often.backlog}",
            lambda count: (
                f"{count:,} {'event' if count == 1 else 'events'} of {where} came back more than {OFTEN} times; set a "
                "redelivery_limit, so that such events go to the dead ones"
            ),
            often.events,
        )

    def subscription_removed(self, removed: SubscriptionRemoved) -> None:
        topic, name = removed.backlog
        events = f"{removed.events:,} {'event' if removed.events == 1 else 'events'}"
        line = f"subscription {name!r} of {topic!r} was removed with the {events} that waited in it: {removed.reason}"
        self._notices.say(flow_log, logging.WARNING, f"removed {removed.backlog}", folded(line))

    def purged(self, purged: Purged) -> None:
        events = f"{purged.events:,} {'event' if purged.events == 1 else 'events'}"
        line = f"{purged.backlog[0]!r} was purged of {events}"
        self._notices.say(flow_log, logging.WARNING, f"purged {purged.backlog}", folded(line))

    def resembling(self, made: Resembling) -> None:
        name = made.queue
        line = (
            f"queue {name!r} came into being on first use, and its name is like that of topics in use ({made.like!r}); a queue "
            f"and a topic do not see each other's events. Was client.topic({name!r}), or --topic, meant? Then delete the queue; "
            f"otherwise say so with ensure_queue({name!r})"
        )
        self._notices.say(flow_log, logging.WARNING, f"resembling {name}", folded(line))

    # --- users -------------------------------------------------------------------------------------------------------

    def denied(self, user: str, action: str, destination: str) -> None:
        line = folded(f"{user} may not {action} {destination!r}; refused")
        self._notices.say(access_log, logging.WARNING, f"denied {user} {action} {destination}", line)

    def stop(self) -> None:
        """Log what is folded, and end."""
        if self._timer is not None:
            self._timer.cancel()
        self._notices.stop()
