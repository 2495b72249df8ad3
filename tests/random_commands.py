"""Random commands that make sense: drawn numbers, turned into commands by what the naive twin says is possible at the moment."""

from __future__ import annotations

from hypothesis import strategies

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.machines import Manager
from tests.naive_directory import DEAD, Key, NaiveDirectory

Choice = tuple[int, int, int, int]
number = strategies.integers(0, 255)
choices = strategies.lists(strategies.tuples(number, number, number, number), min_size=1, max_size=60)

NAMES = ["orders", "alerts", "nowhere"]
SESSIONS = ["ann", "bob"]
PRODUCERS = ["", "press", "mill"]


class Driver:
    """Turns choices into commands and applies each to the directory and to its naive twin."""

    def __init__(self, kinds: list[str] | None = None) -> None:
        self.manager = Manager()
        self.naive = NaiveDirectory()
        self.commands: list[Command] = []
        self.carried: dict[int, int] = {}
        self._kinds = kinds or ["send"] * 5 + ["confirm"] * 3 + [
            "release", "reject", "dead", "attach", "attach", "detach", "subscribe", "unsubscribe", "create", "create", "delete",
            "open", "open", "forget", "claim", "carry",
        ]  # fmt: skip
        for command in (
            commands.Create("orders", "queue"),
            commands.Create("alerts", "topic"),
            commands.Subscribe("alerts", "audit", True),
            commands.Attach("ann", 1, "orders"),
            commands.Attach("ann", 2, "alerts", "audit"),
            commands.Attach("ann", 3, "_DMQ"),
            commands.OpenProducer("press", "ann"),
        ):
            self.apply(command)

    def apply(self, command: Command, events: int = 0) -> None:
        self.commands.append(command)
        entry = len(self.manager.log) + 1
        if isinstance(command, commands.BatchCommand):
            self.manager.send(command.destination, events, command.producer, command.sequence)
        elif isinstance(command, commands.Carried):
            bodies = [self.body(original) for original in command.entries]
            self.manager.append(
                commands.Carried(command.epoch, command.entries, [len(body) for body in bodies]), b"".join(bodies)
            )
            self.carried.update(dict.fromkeys(command.entries, entry))
        elif isinstance(command, commands.Dead):
            self.manager.append(command)
        else:
            self.manager.ask(command)
        self.naive.apply(entry, command, events)

    def body(self, entry: int) -> bytes:
        directory = self.manager.directory
        return bytes(directory.batch_in(self.manager.log[directory.locate(entry) - 1], entry))

    def step(self, choice: Choice) -> bool:
        """Whether the choice was possible."""
        kind, a, b, c = choice
        made = getattr(self, "_" + self._kinds[kind % len(self._kinds)])(a, b, c)
        if made is None:
            return False
        if isinstance(made, tuple):
            self.apply(*made)
        else:
            self.apply(made)
        return True

    # --- each makes a command, or None when none is possible ---------------------------------------------------------

    def _send(self, a: int, b: int, c: int) -> tuple[Command, int]:
        name, producer = PRODUCERS[a % 3], self.naive.producers.get(PRODUCERS[a % 3])
        sequence = max(1, (producer.next_sequence if producer else 1) + c % 6 - 2) + (70 if c > 248 else 0)
        return commands.BatchCommand(NAMES[b % 16 % 3], name, sequence), 1 + b % 5

    def _settle(self, a: int, b: int, c: int, with_dead: bool = True) -> tuple[Key, str, bytes] | None:
        keys = sorted({key for key in self.naive.attached.values() if with_dead or key != DEAD})
        if not keys:
            return None
        key = keys[a % len(keys)]
        session = next(holder[0] for holder, place in self.naive.attached.items() if place == key)
        known = sorted(self.naive.order[key] or [event.position for event in self.naive.queues[key]]) or [position.of(1)]
        first = known[b % len(known)]
        spans = [(first, first + c % 3)]
        if c > 128:
            spans.append((known[c % len(known)], known[c % len(known)]))
        if c > 230:
            spans.append((first, known[-1]) if first < known[-1] else (known[0], first))
        newest = position.of(len(self.manager.log) + 1) - 1
        return key, session, Ranges.gather((low, min(high, newest)) for low, high in spans).to_bytes()

    def _confirm(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c)
        if settled is None:
            return None
        key, session, ranges = settled
        order = self.naive.order[key]
        in_order = [each for at, each in enumerate(order) if each == max(order[: at + 1])]
        return commands.Confirm(*key, session, ranges, in_order[c % len(in_order)] if in_order and c % 3 else 0)

    def _release(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c)
        return settled and commands.Release(*settled[0], settled[1], settled[2], c % 4 * 100, c % 5 > 0)

    def _reject(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c, with_dead=False)
        return settled and commands.Reject(*settled[0], settled[1], settled[2], f"reason {c % 3}")

    def _dead(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c, with_dead=False)
        return settled and commands.Dead(self.naive.epoch, *settled[0], settled[2], "redelivered too often")

    def _attach(self, a: int, b: int, c: int) -> Command | None:
        session = SESSIONS[a % 2]
        keys = [key for key in self.naive.queues if self.naive.owners.get(key, session) == session]
        key, receiver = keys[b % len(keys)], 1 + c % 3
        if self.naive.attached.get((session, receiver), key) != key:
            return None
        return commands.Attach(session, receiver, *key)

    def _detach(self, a: int, b: int, c: int) -> Command:
        return commands.Detach(SESSIONS[a % 2], 1 + b % 3 if c % 4 else 0, 0, self.naive.epoch)

    def _subscribe(self, a: int, b: int, c: int) -> Command | None:
        name, session = ["pager", "audit", "screen"][a % 3], SESSIONS[b % 2]
        if self.naive.kinds.get("alerts") != "topic" or ("alerts", name) in self.naive.queues:
            return None
        return commands.Subscribe("alerts", name, c % 2 == 0, session)

    def _unsubscribe(self, a: int, b: int, c: int) -> Command | None:
        free = [key for key in self.naive.queues if key[1] and key not in self.naive.attached.values()]
        return commands.Unsubscribe(*free[a % len(free)]) if free else None

    def _create(self, a: int, b: int, c: int) -> Command | None:
        name, kind = NAMES[a % 2], ("queue", "topic")[a % 2]
        return commands.Create(name, kind, is_implicit=True)  # type: ignore[arg-type]

    def _delete(self, a: int, b: int, c: int) -> Command | None:
        name = NAMES[a % 2]
        return commands.Delete(name) if name in self.naive.kinds and c > 160 else None

    def _open(self, a: int, b: int, c: int) -> Command:
        return commands.OpenProducer(PRODUCERS[1 + a % 2], SESSIONS[b % 2], c % 3 == 0)

    def _forget(self, a: int, b: int, c: int) -> Command:
        return commands.ForgetProducer(PRODUCERS[1 + a % 2])

    def _claim(self, a: int, b: int, c: int) -> Command:
        return commands.Claim(self.naive.epoch + 1, SESSIONS[a % 2])

    def _carry(self, a: int, b: int, c: int) -> Command | None:
        entries = self.manager.directory.needed_between(1, 1 + a % max(len(self.manager.log), 1))
        return commands.Carried(self.naive.epoch, entries, []) if entries else None
