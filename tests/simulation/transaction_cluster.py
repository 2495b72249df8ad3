"""A cluster on a simulated network, from one seed: message managers with their channels, client managers, and transactions.

    client manager ──append──▶ channel ─▶ directory, and its naive twin, which must be equal after every entry
          ▲                                   │
          └──────answers, announcements───────┘

Messages are lost, doubled, delayed and overtaken; some come when everybody has given them up. Client managers die and begin anew
with another start. Message managers are restored from a snapshot and the channel. Meanwhile events are confirmed by others, given
up and purged, sessions end, destinations are deleted and made again. At last the network heals, and everything must end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.cluster.transaction_coordinator import Kind, Step, TransactionCoordinator
from holdfast.destination import command as commands
from holdfast.destination.backlog.bodies import events_in
from holdfast.destination.command import Command, Settled, Stamp
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Answer
from holdfast.destination.stamp import STAMPED, stamp_of
from holdfast.destination.state.cluster.transactions import InDoubt
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.machines import batch_of
from tests.naive_directory import DEAD
from tests.naive_participant import NaiveParticipant

QUEUE = ("orders", "")
OTHERS = "others"  # a session that receives everywhere and is part of no transaction
OF_TRANSACTIONS = (commands.Prepare, commands.Decision, commands.Final, commands.Complete)
WITH_EVENTS = (commands.BatchCommand, commands.Part)
Said = Callable[[Any, bool], None]  # what a command was answered with; whether it was refused


@dataclass
class Plan:
    """A transaction as its client wants it."""

    session: str
    name: str
    participants: list[str]
    parts: dict[str, int] = field(default_factory=dict)
    settled: dict[str, list[Settled]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.session, self.name


class MessageManager:
    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self.directory = Directory()
        self.twin = NaiveParticipant()
        self.log: list[bytes] = []
        self._cluster = cluster
        self._snapshot: tuple[int, list[bytes]] = (0, [])
        self._applied: set[tuple[str, int]] = set()
        self._low: dict[str, int] = {}
        self.say(commands.Create("orders", "queue"))
        self.say(commands.Attach(OTHERS, 1, "orders"))
        for _ in range(3):
            self.send(self._cluster.dice.randint(1, 4))

    def say(self, command: Command, payload: bytes = b"") -> None:
        """Append a command of the primary, or of somebody who is always heard."""
        self.append(commands.encode(command, payload))

    def send(self, events: int) -> None:
        self.say(commands.BatchCommand("orders", "", 0), batch_of(events, len(self.log) + 1))

    def append(self, data: bytes) -> None:
        self.log.append(data)
        entry = len(self.log)
        effects = self.directory.apply(entry, data)
        is_new = self._is_new(data)
        answers = [effect for effect in effects if isinstance(effect, Answer)]
        command, payload = commands.decode(data)
        is_refused = any(answer.error is not None and answer.token == getattr(command, "token", 0) for answer in answers)
        if is_new and (isinstance(command, OF_TRANSACTIONS) or not is_refused):
            self.twin.obey(entry, command, events_in(payload) if isinstance(command, WITH_EVENTS) else 0)
        self.compare()
        for answer in answers:
            self._cluster.send(partial(self._cluster.answer, answer))

    def _is_new(self, data: bytes) -> bool:
        """What the stamp says of a command, naively."""
        if not data[0] & STAMPED:
            return True
        stamp = stamp_of(data)
        self._low[stamp.start] = max(self._low.get(stamp.start, 0), stamp.low)
        is_new = (stamp.start, stamp.token) not in self._applied and stamp.token >= self._low[stamp.start]
        self._applied.add((stamp.start, stamp.token))
        return is_new

    def compare(self) -> None:
        directory, twin = self.directory, self.twin
        assert set(directory.backlogs()) == set(twin.queues)
        for key, events in twin.queues.items():
            waiting = waiting_in(directory, key)
            expected = [event.position for event in events]
            assert (sorted(waiting) if key == DEAD else waiting) == (sorted(expected) if key == DEAD else expected), self.name
        locks = {key: backlog.locks.all() for key, backlog in directory.backlogs().items() if backlog.locks is not None}
        named: dict[Any, list[tuple[int, int]]] = {}
        for key, each in twin.locked:
            named.setdefault(key, []).append((each, each))
        assert locks == {key: Ranges.gather(spans) for key, spans in named.items()}
        prepared = {(each.session, each.assembly) for each in directory.transactions.in_doubt() if each.is_prepared}
        assert prepared == set(twin.prepared())
        assert len(directory.transactions.waiting) == len(twin.postponed)
        under_way = {(each.session, each.name): each.count for each in directory.assemblies}
        assert under_way == {key: len(parts) for key, parts in twin.assemblies.items()}

    def take_snapshot(self) -> None:
        self._snapshot = (len(self.log), list(self.directory.snapshot()))

    def die(self) -> None:
        """Begin again from the newest snapshot and the channel after it."""
        at, chunks = self._snapshot
        restored = Directory.restore(chunks) if chunks else Directory()
        for entry, data in enumerate(self.log[at:], at + 1):
            restored.apply(entry, data)
        assert restored.digest() == self.directory.digest()
        self.directory = restored

    def status(self, key: tuple[str, str]) -> str:
        known = self.directory.transactions.outcome(key) or self.directory.assemblies.outcome(*key)
        return "" if known is None else "aborted" if known.reason else "committed"


class ClientManager:
    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self._cluster = cluster
        self._life = 0
        self.begin()

    def begin(self) -> None:
        """Start, knowing nothing."""
        self._life += 1
        self.start = f"{self.name}.{self._life}"
        self._token = 0
        self._unanswered: dict[int, tuple[str, Command, bytes, Said]] = {}
        self.coordinators: dict[tuple[str, str], tuple[TransactionCoordinator, Plan | None]] = {}
        self._under_way: dict[tuple[str, str], list[Step]] = {}

    def submit(self, manager: str, command: Command, said: Said, payload: bytes = b"") -> None:
        self._token += 1
        made = replace(command, origin=self.start, token=self._token)
        self._unanswered[self._token] = (manager, made, payload, said)
        self._append(self._token)

    def _append(self, token: int) -> None:
        manager, made, payload, _ = self._unanswered[token]
        data = commands.encode(made, payload, Stamp(self.start, token, min(self._unanswered)))
        self._cluster.send(lambda: self._cluster.managers[manager].append(data))

    def answer(self, token: int, value: Any, is_refused: bool) -> None:
        waiting = self._unanswered.pop(token, None)
        if waiting is not None:
            waiting[3](value, is_refused)

    def say_again(self) -> None:
        """Say again what is not answered. What belongs to no transaction is given up then: it may come later, and is late."""
        for token, (_, made, _, _) in list(self._unanswered.items()):
            if isinstance(made, OF_TRANSACTIONS):
                self._append(token)
            else:
                del self._unanswered[token]

    def run(self, plan: Plan) -> None:
        """Coordinate a transaction. The session is introduced and the parts are sent before."""
        self.coordinators[plan.key] = TransactionCoordinator(plan.participants), plan

    def recover(self, found: InDoubt) -> None:
        key = (found.session, found.assembly)
        if key not in self.coordinators:
            self.coordinators[key] = TransactionCoordinator(found.participants, is_recovering=True), None

    def go_on(self) -> None:
        for key, (coordinator, plan) in list(self.coordinators.items()):
            for step in coordinator.steps():
                if step not in self._under_way.setdefault(key, []):
                    self._under_way[key].append(step)
                    self.submit(step.participant, command_of(key, coordinator, plan, step), self._said(key, coordinator, step))
            if coordinator.is_over:
                del self.coordinators[key], self._under_way[key]

    def _said(self, key: tuple[str, str], coordinator: TransactionCoordinator, step: Step) -> Said:
        def said(value: Any, is_refused: bool) -> None:
            coordinator.answered(step, None if is_refused else value or ("done",))
            if coordinator.is_commit is not None:
                self._cluster.told(key, coordinator.is_commit)

        return said


def command_of(key: tuple[str, str], coordinator: TransactionCoordinator, plan: Plan | None, step: Step) -> Command:
    participants, here = list(coordinator.participants), step.participant
    match step.kind:
        case Kind.PREPARE:
            assert plan is not None, "who recovers prepares nothing"
            return commands.Prepare(*key, plan.parts.get(here, 0), participants, here, plan.settled.get(here, []))
        case Kind.COMMIT | Kind.ABORT:
            return commands.Decision(*key, participants, step.kind is Kind.COMMIT, step.reason)
        case Kind.FINAL_COMMIT | Kind.FINAL_ABORT:
            return commands.Final(*key, participants, here, step.kind is Kind.FINAL_COMMIT, step.reason)
        case Kind.COMPLETE:
            return commands.Complete(*key)


class Cluster:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.is_faulty = True
        self.decided: dict[tuple[str, str], bool] = {}  # what anybody was told
        self.plans: list[Plan] = []
        self._now = 0
        self._messages: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        names = ["east", "north", "south", "west"][: self.dice.randint(2, 4)]
        self.managers = {name: MessageManager(name, self) for name in names}
        self.clients = [ClientManager(f"cm{number}", self) for number in range(self.dice.randint(1, 3))]

    # --- the network -------------------------------------------------------------------------------------------------

    def send(self, message: Callable[[], None]) -> None:
        copies = 1
        if self.is_faulty:
            copies = self.dice.choices([0, 1, 2], [15, 70, 15])[0]
        for _ in range(copies):
            late = self.dice.choices([3, 10, 200], [80, 15, 5])[0] if self.is_faulty else 2
            self._count += 1
            self._messages.append((self._now + self.dice.randint(1, late), self._count, message))

    def answer(self, answer: Answer) -> None:
        for client in self.clients:
            if client.start == answer.origin:
                client.answer(answer.token, answer.value, answer.error is not None)

    def told(self, key: tuple[str, str], is_commit: bool) -> None:
        assert self.decided.setdefault(key, is_commit) == is_commit, f"{key} was told to be both"

    def tick(self) -> None:
        self._now += 1
        due = [each for each in self._messages if each[0] <= self._now]
        self._messages = [each for each in self._messages if each[0] > self._now]
        self.dice.shuffle(due)
        for _, _, message in due:
            message()
        for client in self.clients:
            client.go_on()
            if self._now % 7 == 0:
                client.say_again()
        if self._now % 11 == 0:
            self.announce()

    def announce(self) -> None:
        for manager in self.managers.values():
            for found in manager.directory.transactions.in_doubt():
                if not self.is_faulty or len(manager.log) - found.since > self.dice.randint(0, 30):
                    client = self.dice.choice(self.clients)
                    self.send(partial(client.recover, found))

    # --- what happens ------------------------------------------------------------------------------------------------

    def happen(self) -> None:
        """Something happens, good or bad."""
        manager = self.dice.choice(list(self.managers.values()))
        what = self.dice.choices(
            [
                "begin",
                "send",
                "confirm",
                "dead",
                "purge",
                "end",
                "delete",
                "abandon",
                "client dies",
                "manager dies",
                "snapshot",
                "claim",
            ],
            [30, 15, 8, 5, 2, 4, 2, 3, 4, 4, 4, 2],
        )[0]
        if what == "begin":
            self.begin()
        elif what == "send":
            manager.send(self.dice.randint(1, 4))
        elif what == "client dies":
            self.dice.choice(self.clients).begin()
        elif what == "manager dies":
            manager.die()
        elif what == "snapshot":
            manager.take_snapshot()
        else:
            self.disturb(manager, what)

    def disturb(self, manager: MessageManager, what: str) -> None:
        asked: dict[str, Command] = {
            "confirm": commands.Confirm("orders", "", OTHERS, self.some(manager)),
            "dead": commands.Dead(0, "orders", "", self.some(manager), "too old", "expired"),
            "purge": commands.Purge("orders"),
        }
        if what in asked and self.dice.random() < 0.5:
            self.dice.choice(self.clients).submit(manager.name, asked[what], lambda value, is_refused: None)
        elif what in asked and QUEUE in manager.twin.queues:
            manager.say(asked[what])
        elif what == "end" and self.plans:
            manager.say(commands.Detach(self.dice.choice(self.plans).session))
        elif what == "abandon" and self.plans:
            manager.say(commands.Abandon(*self.dice.choice(self.plans).key))
        elif what == "delete" and not manager.twin.postponed and "orders" in manager.twin.kinds:
            manager.say(commands.Delete("orders"))
        elif what == "claim":
            manager.say(commands.Claim(manager.twin.epoch + 1, "n"))
        if "orders" not in manager.twin.kinds:
            manager.say(commands.Create("orders", "queue"))
            manager.say(commands.Attach(OTHERS, 1, "orders"))

    def some(self, manager: MessageManager, count: int = 3) -> bytes:
        """Some events that wait."""
        waiting = [event.position for event in manager.twin.queues.get(QUEUE, [])] or [position.of(1)]
        chosen = self.dice.sample(waiting, min(len(waiting), self.dice.randint(1, count)))
        return Ranges.gather((each, each) for each in chosen).to_bytes()

    def begin(self) -> None:
        """A client begins a transaction: its parts are sent, and a client manager is asked to commit it."""
        number = len(self.plans)
        some = sorted(self.dice.sample(list(self.managers), self.dice.randint(1, len(self.managers))))
        plan = Plan(f"s{number}", "t", some)
        self.plans.append(plan)
        for name in some:
            manager = self.managers[name]
            manager.say(commands.Introduce(plan.session, "cm", 1))
            if "orders" in manager.twin.kinds:
                manager.say(commands.Attach(plan.session, 1, "orders"))
            if self.dice.random() < 0.7 and manager.twin.queues.get(QUEUE):
                plan.settled[name] = [Settled(*QUEUE, self.some(manager, 2))]
            plan.parts[name] = self.dice.randint(0, 2)
            for part in range(1, plan.parts[name] + 1):
                data = commands.encode(commands.Part(*plan.key, part, "orders"), batch_of(1, number))
                if self.dice.random() < 0.95:
                    manager.append(data)
                self.send(partial(manager.append, data))  # it may come twice, or late
        self.dice.choice(self.clients).run(plan)

    # --- the end -----------------------------------------------------------------------------------------------------

    @staticmethod
    def positions_of(settled: list[Settled]) -> list[int]:
        return [each for one in settled for first, last in Ranges.from_bytes(one.ranges) for each in range(first, last + 1)]

    def heal(self, ticks_max: int) -> int:
        """The faults end: after how many ticks nothing is in doubt any more. What is on its way comes, late."""
        self.is_faulty = False
        for tick in range(ticks_max):
            if self.is_quiet:
                return tick
            self.tick()
        raise AssertionError(f"something is in doubt after {ticks_max} ticks")

    @property
    def is_quiet(self) -> bool:
        is_doubtful = any(each.directory.transactions.open for each in self.managers.values())
        return not is_doubtful and not any(client.coordinators for client in self.clients)

    def hear_late(self) -> None:
        """Everything that is on its way comes."""
        while self._messages:
            self.tick()


def waiting_in(directory: Directory, key: tuple[str, str]) -> list[int]:
    found: list[int] = []
    backlog = directory.backlog(key)
    slot, index = 0, 0
    while (run := backlog.next_run(slot, index)) is not None:
        slot, first, events = run
        found += range(first, first + events)
        index = position.index_of(first) + events
    return found
