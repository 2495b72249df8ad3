"""The naive twin of a message manager that takes part in transactions over several: the table of ADR 25 as it is said."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from tests.naive_directory import Key, NaiveDirectory, NaiveEvent

Transaction = tuple[str, str]  # session, assembly
Meanwhile = tuple[Key, list[int], commands.Dead | None]


@dataclass
class NaiveTransaction:
    is_first: bool
    status: str  # prepared, committed, aborted
    decision: str = ""
    parts: int = 0
    settled: list[commands.Settled] = field(default_factory=list)
    meanwhile: list[Meanwhile] = field(default_factory=list)


class NaiveParticipant(NaiveDirectory):
    def __init__(self) -> None:
        super().__init__()
        self.transactions: dict[Transaction, NaiveTransaction] = {}
        self.locked: dict[tuple[Key, int], Transaction] = {}
        self.postponed: list[Command] = []

    def settle(self, key: Key, data: bytes) -> list[NaiveEvent]:
        return [event for event in super().settle(key, data) if (key, event.position) not in self.locked]

    def obey(self, entry: int, command: Command, events: int = 0) -> None:
        """Apply any command of a transaction, or another one that is not refused, or keep it for later."""
        match command:
            case commands.Introduce():
                self.introduce(command.session)
            case commands.Prepare():
                self.prepare(command)
            case commands.Decision():
                self.decide(command)
            case commands.Final():
                self.final(entry, command)
            case commands.Complete() | commands.Check():
                pass
            case commands.Part() if (command.session, command.assembly) in self.transactions:
                pass
            case _ if self.is_to_wait(command):
                self.postponed.append(command)
            case _:
                self.obey_now(entry, command, events)

    def obey_now(self, entry: int, command: Command, events: int) -> None:
        prepared = [key for key, known in self.transactions.items() if known.status == "prepared"]
        spared = {key: self.assemblies[key] for key in prepared if key in self.assemblies}
        kept = {key: [event for event in waiting if (key, event.position) in self.locked] for key, waiting in self.queues.items()}
        if isinstance(command, commands.Dead):
            where = (command.destination, command.subscription)
            touched = [
                event.position for event in super().settle(where, command.ranges) if (where, event.position) in self.locked
            ]
            self.note(where, touched, command)
        self.apply(entry, command, events)
        self.assemblies.update(spared)
        if isinstance(command, commands.Purge):
            where = (command.name, "")
            self.queues[where] = kept[where]
            self.note(where, [event.position for event in kept[where]], None)

    def note(self, where: Key, positions: list[int], death: commands.Dead | None) -> None:
        for key, known in self.transactions.items():
            touched = [each for each in positions if self.locked.get((where, each)) == key]
            if touched:
                known.meanwhile.append((where, touched, death))

    def is_to_wait(self, command: Command) -> bool:
        match command:
            case commands.Delete():
                parts = [part for key in self.prepared() for part in self.assemblies.get(key, {}).values()]
                locked = any(key[0] == command.name for key, _ in self.locked)
                return locked or any(part.destination == command.name for part in parts)
            case commands.Abandon():
                return (command.session, command.assembly) in self.prepared()
        return False

    def prepared(self) -> list[Transaction]:
        return [key for key, known in self.transactions.items() if known.status == "prepared"]

    def prepare(self, command: commands.Prepare) -> None:
        key = (command.session, command.assembly)
        if key in self.transactions or key in self.outcomes:
            return
        is_first = command.here == command.participants[0]
        parts = self.assemblies.get(key, {})
        as_commit = commands.Commit(command.session, command.assembly, command.parts, command.settled)
        if command.session not in self.sessions or not self.may_commit(as_commit, parts):
            self.assemblies.pop(key, None)
            self.transactions[key] = NaiveTransaction(is_first, "aborted")
            return
        self.transactions[key] = NaiveTransaction(is_first, "prepared", "", command.parts, command.settled)
        for settled in command.settled:
            where = (settled.destination, settled.subscription)
            for event in self.settle(where, settled.ranges):
                self.locked[where, event.position] = key

    def decide(self, command: commands.Decision) -> None:
        key = (command.session, command.assembly)
        known = self.transactions.get(key)
        if known is None:
            if not command.is_commit and key not in self.outcomes:
                self.assemblies.pop(key, None)
                self.transactions[key] = NaiveTransaction(True, "aborted", "abort")
        elif known.status == "prepared" and not known.decision:
            known.decision = "commit" if command.is_commit else "abort"

    def final(self, entry: int, command: commands.Final) -> None:
        key = (command.session, command.assembly)
        known = self.transactions.get(key)
        if known is None:
            if not command.is_commit and key not in self.outcomes:
                self.assemblies.pop(key, None)
                self.transactions[key] = NaiveTransaction(command.here == command.participants[0], "aborted")
            return
        wanted = "commit" if command.is_commit else "abort"
        if known.status != "prepared" or (known.is_first and known.decision != wanted):
            return
        freed = {each for each, owner in self.locked.items() if owner == key}
        self.locked = {each: owner for each, owner in self.locked.items() if owner != key}
        parts = self.assemblies.pop(key, {})
        known.status = "committed" if command.is_commit else "aborted"
        if command.is_commit:
            for where, each in freed:
                self.queues[where] = [event for event in self.queues[where] if event.position != each]
            for number in sorted(parts):
                self.place((parts[number].entry, parts[number].events, parts[number].destination), entry)
        else:
            self.catch_up(entry, known)
        waited, self.postponed = self.postponed, []
        for each_command in waited:
            if not isinstance(each_command, commands.Delete) or each_command.name in self.kinds:
                self.obey(entry, each_command)

    def catch_up(self, entry: int, known: NaiveTransaction) -> None:
        for where, positions, death in known.meanwhile:
            gone = [event for event in self.queues[where] if event.position in positions]
            self.queues[where] = [event for event in self.queues[where] if event not in gone]
            for event in gone if death is not None else ():
                assert death is not None
                self.bury(event, where, death.reason, entry, death.code)
