"""Flow control at a message manager: which destinations are full (B12).

                       low water            high water          1.25 x high water
    waiting   ────────────┼─────────────────────┼────────────────────────┼──────────▶
                          │◀── unblocked        │ blocked ──▶             │ refusing ──▶
    producers             go on                 are told, and hold back   are refused (batches under way came in between)

A topic is as full as the fullest of its subscriptions, but for those that are removed past a limit. All client managers are told
when a destination becomes blocked and when it is free again; `clients.client_flow` does the rest. Only a primary tells them, and
nothing of it is replicated: the next primary measures anew. Destinations without a high water cost nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.bus.bus import CLIENT_MANAGERS, Bus
from holdfast.bus.message import Watermark, WatermarksTold
from holdfast.destination.settings import Settings
from holdfast.destination.state.catalog import Destination
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.state import State
from holdfast.destination.state.topic import Topic
from holdfast.node.logs.operator_log import OperatorLog


def fullness(destination: Destination) -> tuple[int, int]:
    """Events and bytes that wait, in the fullest backlog of a destination. A subscription that is removed past a limit holds
    nobody back, and does not count."""
    queues = [destination] if isinstance(destination, Queue) else _blocking(destination)
    events = max((queue.backlog.waiting for queue in queues), default=0)
    sizes = (queue.backlog.sizes for queue in queues)
    return events, max((each.total for each in sizes if each is not None), default=0)


def _blocking(topic: Topic) -> Sequence[Queue]:
    return [each for each in topic.subscriptions.values() if not each.terms.limits.is_any]


def level(name: str, settings: Settings, events: int, bytes: int, was_blocked: bool) -> Watermark:
    """How full a destination is with so much waiting. Between low and high water it stays what it was."""
    measured = [(events, settings.events_max, "events"), (bytes, settings.bytes_max, "bytes")]
    limited = [each for each in measured if each[1]]
    full = [each for each in limited if each[0] >= each[1]]
    is_low = all(100 * waiting <= settings.low_percent * high for waiting, high, _ in limited)
    is_blocked = bool(full) or (was_blocked and not is_low)
    waiting, high, unit = (full or limited)[0]
    reason = f"{waiting:,} {unit} wait, the high water is {high:,}" if is_blocked else ""
    return Watermark(name, True, is_blocked, any(4 * waiting > 5 * high for waiting, high, _ in limited), reason)


def percent(settings: Settings, events: int, bytes: int) -> float:
    """How near a destination is to its high water."""
    measured = ((events, settings.events_max), (bytes, settings.bytes_max))
    return max((100 * waiting / high for waiting, high in measured if high), default=0)


class DestinationFlow:
    def __init__(self, manager: str, state: State, bus: Bus, operator_log: OperatorLog) -> None:
        self.version = 0  # so many changes were told
        self._manager = manager
        self._state = state
        self._bus = bus
        self._operator_log = operator_log
        self._levels: dict[str, Watermark] = {}
        self._touched: dict[str, None] = {}

    @property
    def is_watching(self) -> bool:
        """There is a destination with a high water."""
        return bool(self._levels)

    def is_blocked(self, name: str) -> bool:
        found = self._levels.get(name)
        return found is not None and found.is_blocked

    def blocked(self) -> list[str]:
        """The destinations that are full."""
        return sorted(name for name, level in self._levels.items() if level.is_blocked)

    def begin(self) -> None:
        """This node is primary: measure every destination that has a high water."""
        for name, found in self._state.catalog.destinations.items():
            if found.settings.has_high_water:
                self.configured(name)

    def configured(self, name: str) -> None:
        """A destination was created, deleted or configured."""
        found = self._state.catalog.destinations.get(name)
        if found is not None and found.settings.has_high_water and (isinstance(found, Queue) or found.subscriptions):
            self._levels.setdefault(name, Watermark(name, False))
            self._touched[name] = None
        elif self._levels.pop(name, None) is not None:
            self._touched.pop(name, None)
            self._operator_log.destination_forgotten(name)
            self._tell_all(Watermark(name, False))

    def touched(self, name: str) -> None:
        """The number of events that wait in a destination has changed."""
        if name in self._levels:
            self._touched[name] = None

    def tell_changes(self) -> None:
        """Tell the client managers which of the touched destinations are blocked now, or free again."""
        touched, self._touched = self._touched, {}
        for name in touched:
            destination, before = self._state.catalog.destinations[name], self._levels[name]
            filled = fullness(destination)
            found = level(name, destination.settings, *filled, before.is_blocked)
            self._levels[name] = found
            self._operator_log.destination_filled(name, percent(destination.settings, *filled), found.is_blocked)
            if found.is_blocked != before.is_blocked:
                self._operator_log.destination_blocked(name, found.is_blocked, found.reason)
            if found[:4] != before[:4]:
                self._tell_all(found)

    def _tell_all(self, level: Watermark) -> None:
        self.version += 1
        self._bus.publish(CLIENT_MANAGERS, self._stamped(level))

    def _stamped(self, level: Watermark) -> Watermark:
        return level._replace(manager=self._manager, epoch=self._state.epoch, version=self.version)

    def tell(self, client_manager: str) -> None:
        """Tell a client manager that is new, or has missed a change, about every destination that has a high water."""
        levels = [self._stamped(each) for each in self._levels.values()]
        self._bus.publish(client_manager, WatermarksTold(self._manager, self._state.epoch, self.version, levels))
