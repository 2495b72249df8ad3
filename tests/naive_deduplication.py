"""The naive twin of deduplication: lists and dicts, one event at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from holdfast.event import position

Named = tuple[str, str]  # source, id
Placed = list[tuple[int, int]]  # a position, and where what it repeats was placed


class NaiveTable:
    """What one destination remembers, as (when, source and id, position), oldest first."""

    def __init__(self, window_ms: int, most: int = 1_000_000, time: list[int] | None = None) -> None:
        """`time` has one number, the latest time of all tables."""
        self.window_ms = window_ms
        self.most = most
        self.time = [0] if time is None else time
        self.dropped_ms = 0
        self.known: list[tuple[int, Named | bytes, int]] = []

    def take(self, names: Sequence[Named | bytes], first: int, at_ms: int) -> dict[int, int]:
        """The repetitions: by index, where the first one is."""
        self.time[0] = max(self.time[0], at_ms)
        self.forget()
        repeated = {}
        for index, name in enumerate(names):
            found = [where for _, known, where in self.known if known == name]
            if found:
                repeated[index] = found[0]
            else:
                self.known.append((self.time[0], name, first + index))
        while len(self.known) > self.most:
            self.dropped_ms = max(self.dropped_ms, self.known.pop(0)[0])
        return repeated

    def __len__(self) -> int:
        self.forget()
        return len(self.known)

    def forget(self) -> None:
        self.known = [each for each in self.known if each[0] > self.time[0] - self.window_ms]

    @property
    def shortened_to_ms(self) -> int | None:
        reach = self.time[0] - self.dropped_ms
        return reach if self.dropped_ms and reach < self.window_ms else None


@dataclass
class Sent:
    entry: int
    destination: str
    names: list[Named]
    is_replay: bool = False
    is_known: bool = True  # whether its ids can be known when it is placed: not of what was staged before


@dataclass
class NaiveDestinations:
    """Queues and a topic with one subscription; batches, transactions and stages."""

    tables: dict[str, NaiveTable | None] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    held: dict[int, Sent] = field(default_factory=dict)  # of the one producer
    next_sequence: int = 1
    parts: dict[str, list[Sent]] = field(default_factory=dict)  # by assembly or stage
    time: list[int] = field(default_factory=lambda: [0])

    def apply(self, entry: int, command: Command, names: list[Named]) -> dict[int, dict[int, int]]:
        """The repetitions, by the entries of batches."""
        match command:
            case commands.BatchCommand():
                return self.send(command, Sent(entry, command.destination, names))
            case commands.Create():
                self.waiting[command.name] = []
                self.tables[command.name] = None
                self.configure(command.name, command.settings.deduplicate_ms)
            case commands.Configure():
                self.configure(command.name, command.settings.deduplicate_ms)
            case commands.Delete():
                del self.waiting[command.name], self.tables[command.name]
            case commands.Part():
                is_stage = command.session.startswith("/")
                is_known = not is_stage or self.tables.get(command.destination) is not None
                sent = Sent(entry, command.destination, names, command.is_replay, is_known)
                self.parts.setdefault(command.assembly, []).append(sent)
            case commands.Commit():
                return self.place(self.parts.pop(command.assembly), command.at_ms)
            case commands.Publish():
                return self.place(self.parts.pop(command.scope), command.at_ms)
        return {}

    def configure(self, name: str, window_ms: int) -> None:
        table = self.tables[name]
        if not window_ms:
            self.tables[name] = None
        elif table is None:
            self.tables[name] = NaiveTable(window_ms, time=self.time)
        else:
            table.forget()
            table.window_ms = window_ms
            table.forget()

    def send(self, command: commands.BatchCommand, sent: Sent) -> dict[int, dict[int, int]]:
        if not command.producer:
            return self.place([sent], command.accepted_us // 1000)
        if command.sequence < self.next_sequence or command.sequence in self.held:
            return {}
        self.held[command.sequence] = sent
        in_order = []
        while self.next_sequence in self.held:
            in_order.append(self.held.pop(self.next_sequence))
            self.next_sequence += 1
        return self.place(in_order, command.accepted_us // 1000)

    def place(self, batches: list[Sent], at_ms: int) -> dict[int, dict[int, int]]:
        repeated: dict[int, dict[int, int]] = {}
        for sent in batches:
            if sent.destination not in self.waiting:
                continue  # it is dead
            table, first = self.tables[sent.destination], position.of(sent.entry)
            found: dict[int, int] = {}
            if table is not None and sent.is_known and not sent.is_replay:
                found = table.take(sent.names, first, at_ms)
            self.waiting[sent.destination] += [first + index for index in range(len(sent.names)) if index not in found]
            if found:
                repeated[sent.entry] = found
        return repeated
