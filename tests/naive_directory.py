"""The directory's naive twin: single events in lists and dicts, every rule as it is said. Slow, and obviously right."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from holdfast.destination.producers import WINDOW
from holdfast.event import position
from holdfast.event.position import Ranges

Key = tuple[str, str]
DEAD: Key = ("_DMQ", "")


@dataclass
class NaiveEvent:
    position: int
    deliveries: int = 0
    not_before_ms: int = 0
    deaths: list[tuple[str, str, str, int, int]] = field(default_factory=list)


@dataclass
class NaiveProducer:
    session: str
    is_durable: bool
    next_sequence: int = 1
    accepted: list[int] = field(default_factory=list)
    held: dict[int, tuple[int, int, str]] = field(default_factory=dict)


class NaiveDirectory:
    def __init__(self) -> None:
        self.kinds: dict[str, str] = {"_DMQ": "queue"}
        self.queues: dict[Key, list[NaiveEvent]] = {DEAD: []}
        self.order: dict[Key, list[int]] = {DEAD: []}  # every position ever placed, in that order
        self.delivered_up_to: dict[Key, int] = {DEAD: 0}
        self.owners: dict[Key, str] = {}
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
                self.bury(NaiveEvent(each), (destination, ""), "no such destination", at)
        for key in self.queues:
            if key[0] == destination and key != DEAD:
                self.queues[key] += [NaiveEvent(each) for each in placed]
                self.order[key] += placed

    def bury(self, event: NaiveEvent, key: Key, reason: str, at: int, more: int = 0) -> None:
        death = (*key, reason, event.deliveries + more, at)
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

    # --- the rest ----------------------------------------------------------------------------------------------------

    def settle(self, key: Key, data: bytes) -> list[NaiveEvent]:
        wanted = list(Ranges.from_bytes(data))
        return [event for event in self.queues[key] if any(first <= event.position <= last for first, last in wanted)]

    def remove(self, key: Key) -> None:
        self.attached = {holder: place for holder, place in self.attached.items() if place != key}
        self.owners.pop(key, None)
        del self.queues[key], self.order[key], self.delivered_up_to[key]

    def add(self, key: Key) -> None:
        self.queues[key], self.order[key], self.delivered_up_to[key] = [], [], 0

    def introduce(self, session: str) -> None:
        self.sessions.setdefault(session, [])

    def claim(self) -> None:
        self.epoch += 1
        for key, events in self.queues.items():
            mark = self.delivered_up_to[key]
            if mark in self.order[key]:
                handed_out = self.order[key][: self.order[key].index(mark) + 1]
                for event in events:
                    event.deliveries += event.position in handed_out

    def apply(self, entry: int, command: Command, events: int = 0) -> None:
        """Apply a command that is not refused."""
        match command:
            case commands.BatchCommand():
                self.batch(entry, command, events)
            case commands.Confirm():
                key = (command.destination, command.subscription)
                self.delivered_up_to[key] = max(self.delivered_up_to[key], command.delivered_up_to)
                gone = self.settle(key, command.ranges)
                self.queues[key] = [event for event in self.queues[key] if event not in gone]
            case commands.Release():
                for event in self.settle((command.destination, command.subscription), command.ranges):
                    event.deliveries += command.is_counted
                    event.not_before_ms = command.not_before_ms
            case commands.Reject() | commands.Dead():
                key = (command.destination, command.subscription)
                gone = self.settle(key, command.ranges)
                self.queues[key] = [event for event in self.queues[key] if event not in gone]
                for event in sorted(gone, key=lambda event: event.position):
                    self.bury(event, key, command.reason, entry, int(isinstance(command, commands.Reject)))
            case commands.Create():
                if command.name not in self.kinds:
                    self.kinds[command.name] = command.kind
                    if command.kind == "queue":
                        self.add((command.name, ""))
            case commands.Delete():
                del self.kinds[command.name]
                for key in [key for key in self.queues if key[0] == command.name]:
                    for event in sorted(self.queues[key], key=lambda event: event.position):
                        self.bury(event, key, "destination deleted", entry)
                    self.remove(key)
            case commands.Subscribe():
                if (command.topic, command.name) not in self.queues:
                    self.add((command.topic, command.name))
                    if not command.is_durable:
                        self.owners[(command.topic, command.name)] = command.session
                        self.introduce(command.session)
            case commands.Unsubscribe():
                self.remove((command.topic, command.name))
            case commands.Attach():
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

    def detach(self, entry: int, command: commands.Detach) -> None:
        if 0 < command.epoch < self.epoch or command.session not in self.sessions:
            return
        gone = [holder for holder in self.attached if holder[0] == command.session and command.receiver in (0, holder[1])]
        for holder in gone:
            del self.attached[holder]
        if command.receiver == 0:
            for key in [key for key, owner in self.owners.items() if owner == command.session]:
                self.remove(key)
            for name in self.sessions.pop(command.session):
                producer = self.producers.get(name)
                if producer and producer.session == command.session and not producer.is_durable:
                    self.forget(name, entry)
