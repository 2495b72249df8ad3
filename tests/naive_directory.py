"""The directory's naive twin: single events in lists and dicts, every rule as it is said. Slow, and obviously right."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from holdfast.destination import command as commands
from holdfast.destination.batch_traits import Traits
from holdfast.destination.command import Command
from holdfast.destination.removal import Limits
from holdfast.destination.settings import Settings
from holdfast.destination.state.producers import WINDOW
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.machines import batch_of

Key = tuple[str, str]
DEAD: Key = ("_DMQ", "")
ADMIN: Key = ("_ADMIN", "")
STAGES = "/"  # where a session is named, of what belongs to none


@dataclass
class NaiveEvent:
    position: int
    deliveries: int = 0
    not_before_ms: int = 0
    reason: str = ""  # of its last release
    delayed_until_ms: int = 0  # as its producer said
    deaths: list[tuple[str, str, str, int, int, str, int]] = field(default_factory=list)


@dataclass
class NaiveProducer:
    session: str
    is_durable: bool
    next_sequence: int = 1
    accepted: list[int] = field(default_factory=list)
    held: dict[int, tuple[int, int, str]] = field(default_factory=dict)


@dataclass
class NaivePart:
    entry: int
    events: int
    destination: str
    fragments: tuple[int, int]


def traits_for(entry: int) -> Traits:
    """What the batch at an entry of the channel is like: every mixture comes."""
    delay, expiry = (150 if entry % 5 == 2 else 0), (1_000 + entry if entry % 4 == 3 else 0)
    priority = {3: 9, 5: 0}.get(entry % 7, 4)
    return Traits(priority, entry % 6 == 1, delay, expiry, expiry)


class NaiveDirectory:
    def __init__(self) -> None:
        self.assemblies: dict[Key, dict[int, NaivePart]] = {}  # by session and name, by number
        self.outcomes: dict[Key, bool] = {}  # whether it was committed
        self.scopes: dict[str, int] = {}  # the highest number each has published
        self.larges: dict[int, list[int]] = {}  # the fragments of every large event that ever was, by its entry
        self.kinds: dict[str, str] = {"_DMQ": "queue", "_LOG": "topic", "_ADMIN": "queue"}
        self.queues: dict[Key, list[NaiveEvent]] = {DEAD: [], ADMIN: []}
        self.order: dict[Key, list[int]] = {DEAD: [], ADMIN: []}  # every position ever placed, in that order
        self.in_hand: dict[tuple[Key, int], tuple[str, int]] = {}  # where and which: with whom
        self.settings: dict[str, Settings] = {}
        self.sizes: dict[Key, dict[int, int]] = {}  # of the batches placed while a high water was set in bytes
        self.owners: dict[Key, str] = {}
        self.limits: dict[Key, Limits] = {}
        self.attached: dict[tuple[str, int], Key] = {}
        self.producers: dict[str, NaiveProducer] = {}
        self.sessions: dict[str, list[str]] = {}  # the producers each has opened
        self.epoch = 0

    # --- placing -----------------------------------------------------------------------------------------------------

    def batch(self, entry: int, command: commands.BatchCommand, events: int) -> None:
        batch = (entry, events, command.destination)
        producer = self.producers.get(command.producer)
        sequence = command.sequence
        if producer is None:
            self.place(batch, entry)
        elif sequence not in producer.accepted:
            producer.accepted.append(sequence)
            if sequence < producer.next_sequence:
                self.place(batch, entry)
                return
            producer.held[sequence] = batch
            while sequence > producer.next_sequence + WINDOW or producer.next_sequence in producer.held:
                if producer.next_sequence in producer.held:
                    self.place(producer.held.pop(producer.next_sequence), entry)
                producer.next_sequence += 1

    def place(self, batch: tuple[int, int, str], at: int) -> None:
        entry, events, destination = batch
        kind = self.kinds.get(destination)
        placed = [position.of(entry, index) for index in range(events)]
        if kind is None:
            for each in placed:
                self.bury(NaiveEvent(each), (destination, ""), "no such destination", at, "no-destination")
        for key in self.queues:
            if key[0] == destination and key != DEAD:
                delay = traits_for(entry).not_before_ms
                self.queues[key] += [NaiveEvent(each, not_before_ms=delay, delayed_until_ms=delay) for each in placed]
                self.order[key] += placed
                if key in self.sizes:
                    self.sizes[key][entry] = len(batch_of(events, entry))

    def settings_of(self, key: Key) -> Settings:
        return self.settings.get(key[0], Settings())

    def bytes_waiting(self, key: Key) -> int:
        entries = {position.entry_of(event.position) for event in self.queues[key]}
        return sum(size for entry, size in self.sizes[key].items() if entry in entries)

    def bury(self, event: NaiveEvent, key: Key, reason: str, at: int, code: str, at_ms: int = 0, more: int = 0) -> None:
        death = (*key, reason, event.deliveries + more, at, code, at_ms)
        for dead in self.queues[DEAD]:
            if dead.position == event.position:
                dead.deaths.append(death)
                return
        self.queues[DEAD].append(NaiveEvent(event.position, deaths=[death]))

    def forget(self, name: str, at: int) -> None:
        producer = self.producers.pop(name, None)
        if producer and name in self.sessions.get(producer.session, []):
            self.sessions[producer.session].remove(name)
        for sequence in sorted(producer.held) if producer else []:
            assert producer is not None
            self.place(producer.held[sequence], at)

    # --- assemblies --------------------------------------------------------------------------------------------------

    def part(self, entry: int, command: commands.Part, events: int) -> None:
        key = (command.session, command.assembly)
        if command.session == STAGES or (command.session in self.sessions and key not in self.outcomes):
            made = NaivePart(entry, events, command.destination, command.fragments)
            self.assemblies.setdefault(key, {}).setdefault(command.number, made)

    def commit(self, entry: int, command: commands.Commit) -> None:
        key = (command.session, command.assembly)
        if key in self.outcomes or command.session not in self.sessions:
            return
        parts = self.assemblies.pop(key, {})
        self.outcomes[key] = self.may_commit(command, parts)
        if not self.outcomes[key]:
            return
        for settled in command.settled:
            place = (settled.destination, settled.subscription)
            gone = self.settle(place, settled.ranges)
            self.queues[place] = [event for event in self.queues[place] if event not in gone]
        for number in sorted(parts):
            part = parts[number]
            if part.destination:
                self.place((part.entry, part.events, part.destination), entry)
            if part.fragments != (0, 0):
                self.larges[part.entry] = [parts[each].entry for each in range(part.fragments[0], part.fragments[1] + 1)]

    def may_commit(self, command: commands.Commit, parts: dict[int, NaivePart]) -> bool:
        if sorted(parts) != list(range(1, command.parts + 1)):
            return False
        if any(part.destination and part.destination not in self.kinds for part in parts.values()):
            return False
        for settled in command.settled:
            key = (settled.destination, settled.subscription)
            if not any(holder[0] == command.session and place == key for holder, place in self.attached.items()):
                return False
            listed = sum(last - first + 1 for first, last in Ranges.from_bytes(settled.ranges))
            if listed != len(self.settle(key, settled.ranges)):
                return False
        return True

    # --- stages ------------------------------------------------------------------------------------------------------

    def publish(self, entry: int, command: commands.Publish, stages: list[tuple[str, int]]) -> None:
        is_new = command.number > self.scopes.get(command.scope, -1)
        if is_new and not all(self.may_publish(*stage) for stage in stages):
            return
        self.scopes[command.scope] = max(command.number, self.scopes.get(command.scope, -1))
        for name, _ in stages:
            parts = self.assemblies.pop((STAGES, name), {})
            for number in sorted(parts) if is_new else []:
                self.place((parts[number].entry, parts[number].events, parts[number].destination), entry)

    def may_publish(self, name: str, count: int) -> bool:
        parts = self.assemblies.get((STAGES, name), {})
        return sorted(parts) == list(range(1, count + 1)) and all(part.destination in self.kinds for part in parts.values())

    # --- the rest ----------------------------------------------------------------------------------------------------

    def settle(self, key: Key, data: bytes) -> list[NaiveEvent]:
        wanted = list(Ranges.from_bytes(data))
        return [event for event in self.queues[key] if any(first <= event.position <= last for first, last in wanted)]

    def remove(self, key: Key) -> None:
        self.attached = {holder: place for holder, place in self.attached.items() if place != key}
        self.owners.pop(key, None)
        del self.queues[key], self.order[key]
        self.sizes.pop(key, None)
        self.limits.pop(key, None)

    def add(self, key: Key) -> None:
        self.queues[key], self.order[key] = [], []
        if self.settings[key[0]].bytes_max or self.limits.get(key, Limits()).bytes:
            self.sizes[key] = {}

    def introduce(self, session: str) -> None:
        self.sessions.setdefault(session, [])

    def claim(self) -> None:
        self.epoch += 1
        for key, events in self.queues.items():
            for event in events:
                event.deliveries += (key, event.position) in self.in_hand
        self.in_hand.clear()

    def apply(self, entry: int, command: Command, events: int = 0) -> None:
        """Apply a command that is not refused."""
        self._apply(entry, command, events)
        waiting = {(key, event.position) for key, events in self.queues.items() for event in events}
        self.in_hand = {
            where: holder for where, holder in self.in_hand.items() if where in waiting and self.attached.get(holder) == where[0]
        }

    def _apply(self, entry: int, command: Command, events: int = 0) -> None:
        match command:
            case commands.InHand():
                is_outdated = 0 < command.epoch < self.epoch  # 0, and less, is nobody's epoch (rule 7)
                if not is_outdated and self.attached.get(command.holder) == command.backlog:
                    for event in self.settle(command.backlog, command.ranges):
                        self.in_hand[command.backlog, event.position] = command.holder
            case commands.BatchCommand():
                self.batch(entry, command, events)
            case commands.Confirm():
                key = (command.destination, command.subscription)
                gone = self.settle(key, command.ranges)
                self.queues[key] = [event for event in self.queues[key] if event not in gone]
            case commands.Release():
                for event in self.settle((command.destination, command.subscription), command.ranges):
                    event.deliveries += command.is_counted
                    self.in_hand.pop(((command.destination, command.subscription), event.position), None)
                    event.not_before_ms = max(event.delayed_until_ms, command.not_before_ms)
                    event.reason = command.reason or event.reason
                    settings = self.settings_of((command.destination, command.subscription))
                    if command.is_counted and command.often_ms and event.deliveries >= 20:
                        event.not_before_ms = max(event.not_before_ms, command.at_ms + command.often_ms)
                    if command.is_counted and settings.redelivery_delay_ms and command.wait != "exact":
                        longer = settings.redelivery_delay_ms * settings.redelivery_factor ** (event.deliveries - 1)
                        event.not_before_ms = max(event.not_before_ms, command.at_ms + longer)
            case commands.Reject() | commands.Dead():
                key = (command.destination, command.subscription)
                gone = self.settle(key, command.ranges)
                self.queues[key] = [event for event in self.queues[key] if event not in gone]
                is_reject = isinstance(command, commands.Reject)
                code = command.code if isinstance(command, commands.Dead) else "rejected"
                for event in sorted(gone, key=lambda event: event.position):
                    told = f"{command.reason}: {event.reason}" if event.reason and not is_reject else command.reason
                    self.bury(event, key, told, entry, code, command.at_ms, int(is_reject))
            case commands.Create():
                if command.name not in self.kinds:
                    self.kinds[command.name] = command.kind
                    self.settings[command.name] = command.settings
                    if command.kind == "queue":
                        self.add((command.name, ""))
            case commands.Delete():
                del self.kinds[command.name]
                for key in [key for key in self.queues if key[0] == command.name]:
                    for event in sorted(self.queues[key], key=lambda event: event.position):
                        self.bury(event, key, "destination deleted", entry, "deleted", command.at_ms)
                    self.remove(key)
            case commands.Purge():
                self.queues[command.name, ""] = []
            case commands.Configure():
                given = {name: getattr(command.settings, name) for name in command.changed}
                self.settings[command.name] = settings = msgspec.structs.replace(self.settings[command.name], **given)
                for key in [key for key in self.queues if key[0] == command.name]:
                    if not settings.bytes_max and not self.limits.get(key, Limits()).bytes:
                        self.sizes.pop(key, None)
                    else:
                        self.sizes.setdefault(key, {})
            case commands.Subscribe():
                if (command.topic, command.name) not in self.queues:
                    self.limits[command.topic, command.name] = command.limits or Limits()
                    self.add((command.topic, command.name))
                    if not command.is_durable:
                        self.owners[(command.topic, command.name)] = command.session
                        self.introduce(command.session)
            case commands.SubscribeLike():
                key, other = (command.topic, command.name), (command.topic, command.like)
                self.limits[key] = self.limits.get(other, Limits())
                self.add(key)
                delays = ((event.position, event.delayed_until_ms) for event in self.queues[other])
                self.queues[key] = [NaiveEvent(each, not_before_ms=at, delayed_until_ms=at) for each, at in delays]
                self.order[key] = list(self.order[other])
                if key in self.sizes:
                    self.sizes[key] = dict(self.sizes[other])
            case commands.Remove():
                key = (command.topic, command.name)
                limits, waiting = self.limits.get(key, Limits()), self.queues[key]
                is_too_old = limits.age_ms and any(position.entry_of(event.position) == command.oldest for event in waiting)
                if 0 < limits.events < len(waiting) or is_too_old or (limits.bytes and self.bytes_waiting(key) > limits.bytes):
                    self.remove(key)
            case commands.Unsubscribe():
                self.remove((command.topic, command.name))
            case commands.Attach():
                if command.take_over:
                    where = (command.destination, command.subscription)
                    self.attached = {holder: key for holder, key in self.attached.items() if key != where}
                self.attached[(command.session, command.receiver)] = (command.destination, command.subscription)
                self.introduce(command.session)
            case commands.Detach():
                self.detach(entry, command)
            case commands.OpenProducer():
                producer = self.producers.setdefault(command.producer, NaiveProducer(command.session, command.is_durable))
                producer.session, producer.is_durable = command.session, command.is_durable
                self.introduce(command.session)
                if command.producer not in self.sessions[command.session]:
                    self.sessions[command.session].append(command.producer)
            case commands.ForgetProducer():
                self.forget(command.producer, entry)
            case commands.Claim():
                self.claim()
            case commands.Part():
                self.part(entry, command, events)
            case commands.Commit():
                self.commit(entry, command)
            case commands.Abandon() if command.session == STAGES:
                self.assemblies.pop((STAGES, command.assembly), None)
            case commands.Abandon():
                if (command.session, command.assembly) not in self.outcomes and command.session in self.sessions:
                    self.assemblies.pop((command.session, command.assembly), None)
                    self.outcomes[command.session, command.assembly] = False

    def detach(self, entry: int, command: commands.Detach) -> None:
        if 0 < command.epoch < self.epoch or command.session not in self.sessions:
            return
        gone = [holder for holder in self.attached if holder[0] == command.session and command.receiver in (0, holder[1])]
        for holder in gone:
            del self.attached[holder]
        if command.receiver == 0:
            for key in [key for key, owner in self.owners.items() if owner == command.session]:
                self.remove(key)
            self.assemblies = {key: parts for key, parts in self.assemblies.items() if key[0] != command.session}
            self.outcomes = {key: outcome for key, outcome in self.outcomes.items() if key[0] != command.session}
            for name in self.sessions.pop(command.session):
                producer = self.producers.get(name)
                if producer and producer.session == command.session and not producer.is_durable:
                    self.forget(name, entry)
