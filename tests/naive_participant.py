"""The naive twin of a message manager that takes part in transactions over several: the table of ADR 25 as it is said."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from tests.naive_directory import STAGES, Key, NaiveDirectory, NaiveEvent

Transaction = tuple[str, str]  # session, assembly
Stages = list[tuple[str, int]]
Meanwhile = tuple[int, Key, list[int], commands.Dead | None]  # the entry, where, which; how they died, or None: purged


@dataclass
class NaiveTransaction:
    is_first: bool
    status: str  # prepared, committed, aborted
    decision: str = ""
    parts: int = 0
    settled: list[commands.Settled] = field(default_factory=list)
    meanwhile: list[Meanwhile] = field(default_factory=list)
    scope: str = ""  # of a publication
    number: int = 0
    stages: Stages = field(default_factory=list)


class NaiveParticipant(NaiveDirectory):
    def __init__(self) -> None:
        super().__init__()
        self.transactions: dict[Transaction, NaiveTransaction] = {}
        self.locked: dict[tuple[Key, int], Transaction] = {}
        self.postponed: list[tuple[Command, Stages]] = []
        self._sees_locked = False

    def settle(self, key: Key, data: bytes) -> list[NaiveEvent]:
        return [event for event in super().settle(key, data) if self._sees_locked or (key, event.position) not in self.locked]

    def obey(self, entry: int, command: Command, events: int = 0, stages: Stages | None = None) -> None:
        """Apply any command of a transaction, or another one that is not refused, or keep it for later."""
        match command:
            case commands.Introduce():
                self.introduce(command.session)
            case commands.Prepare() if command.session == STAGES:
                self.prepare_stages(command, stages or [])
            case commands.Prepare():
                self.prepare(command)
            case commands.Part() if (command.session, command.assembly) in self.locked_stages():
                pass
            case commands.Decision():
                self.decide(command)
            case commands.Final():
                self.final(entry, command)
            case commands.Complete() | commands.Check():
                pass
            case commands.Part() | commands.Commit() if (command.session, command.assembly) in self.transactions:
                pass
            case _ if self.is_to_wait(command, stages or []):
                if (command, stages or []) not in self.postponed:  # nobody waits for an answer here: once is enough
                    self.postponed.append((command, stages or []))
            case commands.Publish():
                self.publish(entry, command, stages or [])
            case commands.Abandon() if (command.session, command.assembly) in self.transactions:
                pass
            case _:
                self.obey_now(entry, command, events)

    def obey_now(self, entry: int, command: Command, events: int) -> None:
        if isinstance(command, commands.Purge):
            where = (command.name, "")
            self.queues[where] = [event for event in self.queues[where] if (where, event.position) in self.locked]
            self.note(entry, where, [event.position for event in self.queues[where]], None)
            return
        if isinstance(command, commands.Dead):
            where = (command.destination, command.subscription)
            if where not in self.queues:
                return
            touched = [event.position for event in super().settle(where, command.ranges)]
            self.note(entry, where, touched, command)
        spared = {key: self.assemblies[key] for key in self.prepared() if key in self.assemblies}
        self._sees_locked = isinstance(command, commands.InHand)
        self.apply(entry, command, events)
        self._sees_locked = False
        self.assemblies.update(spared)

    def note(self, entry: int, where: Key, positions: list[int], death: commands.Dead | None) -> None:
        for key, known in self.transactions.items():
            touched = [each for each in positions if self.locked.get((where, each)) == key]
            if touched:
                known.meanwhile.append((entry, where, touched, death))

    def locked_stages(self) -> list[tuple[str, str]]:
        return [(STAGES, name) for key in self.prepared() for name, _ in self.transactions[key].stages]

    def locked_scopes(self) -> list[str]:
        return [self.transactions[key].scope for key in self.prepared() if self.transactions[key].scope]

    def is_new(self, known: NaiveTransaction) -> bool:
        return bool(known.scope) and known.number > self.scopes.get(known.scope, -1)

    def is_to_wait(self, command: Command, stages: Stages) -> bool:
        match command:
            case commands.Publish():
                locked = self.locked_stages()
                return command.scope in self.locked_scopes() or any((STAGES, name) in locked for name, _ in stages)
            case commands.Abandon() if command.session == STAGES:
                return (STAGES, command.assembly) in self.locked_stages()
            case commands.Delete():
                new = [(STAGES, name) for key in self.prepared() for name, _ in self.transactions[key].stages
                       if self.is_new(self.transactions[key])]  # fmt: skip
                parts = [part for key in [*self.prepared(), *new] for part in self.assemblies.get(key, {}).values()]
                is_locked = any(key[0] == command.name for key, _ in self.locked)
                return is_locked or any(part.destination == command.name for part in parts)
            case commands.Abandon():
                return (command.session, command.assembly) in self.prepared()
            case commands.Unsubscribe() | commands.Remove() | commands.Subscribe() | commands.SubscribeLike():
                return any(key == (command.topic, command.name) for key, _ in self.locked)
            case commands.Detach() if command.receiver == 0 and command.session in self.sessions:
                return any(self.owners.get(key) == command.session for key, _ in self.locked)
        return False

    def is_void(self, command: Command) -> bool:
        """What a command that waited speaks of is gone meanwhile."""
        if isinstance(command, commands.Delete):
            return command.name not in self.kinds
        return isinstance(command, commands.Unsubscribe | commands.Remove) and (command.topic, command.name) not in self.queues

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

    def prepare_stages(self, command: commands.Prepare, stages: Stages) -> None:
        key = (command.session, command.assembly)
        if key in self.transactions:
            return
        locked = self.locked_stages()
        known = NaiveTransaction(command.here == command.participants[0], "prepared", scope=command.scope, number=command.number)
        is_locked = command.scope in self.locked_scopes() or any((STAGES, name) in locked for name, _ in stages)
        if is_locked or (self.is_new(known) and not all(self.may_publish(*stage) for stage in stages)):
            known.status = "aborted"
        else:
            known.stages = stages
        self.transactions[key] = known

    def decide(self, command: commands.Decision) -> None:
        key = (command.session, command.assembly)
        known = self.transactions.get(key)
        if known is None:
            if not command.is_commit and key not in self.outcomes:
                if key[0] != STAGES:
                    self.assemblies.pop(key, None)
                self.transactions[key] = NaiveTransaction(True, "aborted", "abort")
        elif known.status == "prepared" and not known.decision:
            known.decision = "commit" if command.is_commit else "abort"

    def final(self, entry: int, command: commands.Final) -> None:
        key = (command.session, command.assembly)
        known = self.transactions.get(key)
        if known is None:
            if not command.is_commit and key not in self.outcomes:
                if key[0] != STAGES:
                    self.assemblies.pop(key, None)
                self.transactions[key] = NaiveTransaction(command.here == command.participants[0], "aborted")
            return
        wanted = "commit" if command.is_commit else "abort"
        if known.status != "prepared" or (known.is_first and known.decision != wanted):
            return
        freed = {each for each, owner in self.locked.items() if owner == key}
        self.locked = {each: owner for each, owner in self.locked.items() if owner != key}
        if known.scope and command.is_commit:
            self.publish(entry, commands.Publish(STAGES, known.scope, known.number), known.stages)
        parts = self.assemblies.pop(key, {}) if key[0] != STAGES else {}
        known.status = "committed" if command.is_commit else "aborted"
        if command.is_commit:
            for where, each in freed:
                self.queues[where] = [event for event in self.queues[where] if event.position != each]
            for number in sorted(parts):
                part = parts[number]
                if part.destination:
                    self.place((part.entry, part.events, part.destination), entry)
                if part.fragments != (0, 0):
                    self.larges[part.entry] = [parts[each].entry for each in range(part.fragments[0], part.fragments[1] + 1)]
        else:
            self.catch_up(known)
        waited, self.postponed = self.postponed, []
        for each_command, stages in waited:
            if not self.is_void(each_command):
                self.obey(entry, each_command, 0, stages)

    def catch_up(self, known: NaiveTransaction) -> None:
        for entry, where, positions, death in known.meanwhile:
            gone = [event for event in self.queues[where] if event.position in positions]
            self.queues[where] = [event for event in self.queues[where] if event not in gone]
            for event in sorted(gone, key=lambda event: event.position) if death is not None else ():
                assert death is not None
                told = f"{death.reason}: {event.reason}" if event.reason and death.code == "redelivered" else death.reason
                self.bury(event, where, told, entry, death.code, death.at_ms)
