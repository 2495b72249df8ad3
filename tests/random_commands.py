"""Random commands that make sense: drawn numbers, turned into commands by what the naive twin says is possible at the moment."""

from __future__ import annotations

import contextlib

from hypothesis import strategies
from msgspec.structs import replace

from holdfast.destination import command as commands
from holdfast.destination.applying.publishing import encode_payload
from holdfast.destination.command import Command
from holdfast.destination.removal import Limits
from holdfast.destination.settings import Settings
from holdfast.errors import NotPublished, TransactionAborted
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.machines import Manager, batch_of
from tests.naive_directory import DEAD, STAGES, Key, NaiveDirectory, traits_for

Choice = tuple[int, int, int, int]
number = strategies.integers(0, 255)
choices = strategies.lists(strategies.tuples(number, number, number, number), min_size=1, max_size=60)

NAMES = ["orders", "alerts", "nowhere"]
SESSIONS = ["ann", "bob"]
PRODUCERS = ["", "press", "mill"]
FRAGMENT = b"fragment"


class Driver:
    """Turns choices into commands and applies each to the directory and to its naive twin."""

    def __init__(self, kinds: list[str] | None = None, naive: NaiveDirectory | None = None) -> None:
        self.manager = Manager()
        self.naive = naive or NaiveDirectory()
        self.commands: list[Command] = []
        self.carried: dict[int, int] = {}
        self.aborted = False
        self.generation = 0
        self._kinds = kinds or ["send"] * 5 + ["confirm"] * 3 + [
            "release", "reject", "dead", "attach", "attach", "take_over", "detach", "subscribe", "unsubscribe", "like", "remove",
            "create", "create", "delete", "purge",
            "in_hand", "in_hand",
            "open", "open", "forget", "claim", "carry", "configure",
            "part", "part", "part", "fragment", "fragment", "commit", "commit", "abandon",
            "stage", "stage", "stage", "publish", "publish", "drop",
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

    def apply(self, command: Command, events: int = 0, stages: list[tuple[str, int]] | None = None) -> None:
        self.commands.append(command)
        entry = len(self.manager.log) + 1
        if isinstance(command, commands.Publish):
            with contextlib.suppress(NotPublished):
                self.manager.ask(command, encode_payload(stages))
            self.naive.publish(entry, command, stages or [])
            return
        if isinstance(command, commands.BatchCommand):
            self.manager.send(command.destination, events, command.producer, command.sequence, traits_for(entry))
        elif isinstance(command, commands.Carried):
            bodies = [self.body(original) for original in command.entries]
            self.manager.append(
                commands.Carried(command.epoch, command.entries, [len(body) for body in bodies]), b"".join(bodies)
            )
            self.carried.update(dict.fromkeys(command.entries, entry))
        elif isinstance(command, commands.Dead | commands.InHand | commands.Remove):
            self.manager.append(command)
        elif isinstance(command, commands.Part):
            self.manager.append(command, batch_of(events, entry, traits_for(entry)) if command.destination else FRAGMENT)
        elif isinstance(command, commands.Commit):
            self.aborted = False
            try:
                self.manager.ask(command)
            except TransactionAborted:
                self.aborted = True
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

    def _configure(self, a: int, b: int, c: int) -> Command | None:
        name = NAMES[a % 2]
        if name not in self.naive.kinds:
            return None
        settings = Settings(redelivery_limit=b % 3, bytes_max=c % 2 * 1_000, redelivery_delay_ms=20, redelivery_factor=3)
        changed = [["bytes_max"], ["bytes_max", "redelivery_limit"], ["redelivery_delay_ms", "redelivery_factor"], []]
        return commands.Configure(name, settings, changed=changed[b % 4])

    def _release(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c)
        if settled is None:
            return None
        made = commands.Release(*settled[0], settled[1], settled[2], c % 4 * 100, c % 5 > 0, at_ms=a)
        return replace(
            made, wait=("", "back-off", "exact")[b % 3], often_ms=b % 2 * 1_000, reason=("", "timeout", "no stock")[b % 3]
        )

    def _reject(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c, with_dead=False)
        return settled and commands.Reject(*settled[0], settled[1], settled[2], f"reason {c % 3}")

    def _dead(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c, with_dead=False)
        return settled and commands.Dead(self.naive.epoch, *settled[0], settled[2], "redelivered too often")

    def _in_hand(self, a: int, b: int, c: int) -> Command | None:
        settled = self._settle(a, b, c)
        if settled is None:
            return None
        holders = [*self.naive.attached, ("nobody", 1)]
        return commands.InHand(self.naive.epoch - c % 2, settled[0], holders[c % len(holders)], settled[2])

    def _attach(self, a: int, b: int, c: int) -> Command | None:
        session = SESSIONS[a % 2]
        keys = [key for key in self.naive.queues if self.naive.owners.get(key, session) == session]
        key, receiver = keys[b % len(keys)], 1 + c % 3
        others = [holder for holder, place in self.naive.attached.items() if place == key and holder != (session, receiver)]
        if self.naive.attached.get((session, receiver), key) != key or (key[1] and others):
            return None
        return commands.Attach(session, receiver, *key)

    def _take_over(self, a: int, b: int, c: int) -> Command | None:
        session, receiver = SESSIONS[a % 2], 1 + c % 3
        former = {key: holder[0] for holder, key in self.naive.attached.items() if key[1] and key not in self.naive.owners}
        keys = [key for key, holder in former.items() if holder != session]
        if not keys or self.naive.attached.get((session, receiver), keys[b % len(keys)]) != keys[b % len(keys)]:
            return None
        return commands.Attach(session, receiver, *keys[b % len(keys)], take_over=True)

    def _detach(self, a: int, b: int, c: int) -> Command:
        return commands.Detach(SESSIONS[a % 2], 1 + b % 3 if c % 4 else 0, 0, self.naive.epoch)

    def _subscribe(self, a: int, b: int, c: int) -> Command | None:
        name, session = ["pager", "audit", "screen"][a % 3], SESSIONS[b % 2]
        if self.naive.kinds.get("alerts") != "topic" or ("alerts", name) in self.naive.queues:
            return None
        limits = [None, None, Limits(3), Limits(bytes=120), Limits(age_ms=1), Limits(20, 900, 1)][c // 2 % 6]
        return commands.Subscribe("alerts", name, c % 2 == 0, session, limits=limits)

    def _remove(self, a: int, b: int, c: int) -> Command | None:
        keys = [key for key in self.naive.queues if key[1]]
        if not keys:
            return None
        key = keys[a % len(keys)]
        made_at = getattr(self.manager.directory.queue(key), "made_at", 0)
        old = [position.entry_of(event.position) for event in self.naive.queues[key]] or [1]
        return commands.Remove(self.naive.epoch, *key, made_at, old[b % len(old)] if c % 3 else 0)

    def _like(self, a: int, b: int, c: int) -> Command | None:
        others = [key for key in self.naive.queues if key[1] and key not in self.naive.owners]
        name = ["copy", "pager"][a % 2]
        if not others or ("alerts", name) in self.naive.queues:
            return None
        return commands.SubscribeLike("alerts", name, others[b % len(others)][1])

    def _unsubscribe(self, a: int, b: int, c: int) -> Command | None:
        free = [key for key in self.naive.queues if key[1] and key not in self.naive.attached.values()]
        return commands.Unsubscribe(*free[a % len(free)]) if free else None

    def _create(self, a: int, b: int, c: int) -> Command | None:
        name, kind = NAMES[a % 2], ("queue", "topic")[a % 2]
        return commands.Create(name, kind, is_implicit=True)  # type: ignore[arg-type]

    def _delete(self, a: int, b: int, c: int) -> Command | None:
        name = NAMES[a % 2]
        return commands.Delete(name) if name in self.naive.kinds and c > 160 else None

    def _purge(self, a: int, b: int, c: int) -> Command | None:
        name = NAMES[a % len(NAMES)]
        return commands.Purge(name) if self.naive.kinds.get(name) == "queue" and c > 100 else None

    def _open(self, a: int, b: int, c: int) -> Command:
        return commands.OpenProducer(PRODUCERS[1 + a % 2], SESSIONS[b % 2], c % 3 == 0)

    def _forget(self, a: int, b: int, c: int) -> Command:
        return commands.ForgetProducer(PRODUCERS[1 + a % 2])

    def _claim(self, a: int, b: int, c: int) -> Command:
        return commands.Claim(self.naive.epoch + 1, SESSIONS[a % 2])

    # --- assemblies --------------------------------------------------------------------------------------------------

    def _part(self, a: int, b: int, c: int) -> tuple[Command, int]:
        session, assembly = SESSIONS[a % 2], str(a % 4 // 2 + self.generation)
        parts = self.naive.assemblies.get((session, assembly), {})
        number = len(parts) + 1 if c < 200 else 1 + c % 5
        first = number
        while first - 1 in parts and not parts[first - 1].destination:
            first -= 1
        is_large = first < number and number not in parts
        fragments, events = ((first, number - 1), 1) if is_large else ((0, 0), 1 + b % 3)
        size = len(FRAGMENT) * (number - first)
        destination = NAMES[b % 16 % 3]
        return commands.Part(session, assembly, number, destination, fragments, len(FRAGMENT) * is_large, size * is_large), events

    def _fragment(self, a: int, b: int, c: int) -> Command:
        session, assembly = SESSIONS[a % 2], str(a % 4 // 2 + self.generation)
        parts = self.naive.assemblies.get((session, assembly), {})
        return commands.Part(session, assembly, len(parts) + 1 if c < 220 else 1 + c % 5)

    def _commit(self, a: int, b: int, c: int) -> Command:
        session, assembly = SESSIONS[a % 2], str(a % 4 // 2 + self.generation)
        self.generation += c % 7 == 0
        parts = self.naive.assemblies.get((session, assembly), {})
        settled = []
        for key in sorted({place for holder, place in self.naive.attached.items() if holder[0] == session}):
            waiting = [event.position for event in self.naive.queues[key]]
            listed = waiting[b % 3 : b % 3 + c % 3] + ([position.of(1)] if c > 240 else [])
            if listed:
                settled.append(commands.Settled(*key, Ranges.gather((each, each) for each in listed).to_bytes()))
        return commands.Commit(session, assembly, len(parts) + (b > 230), settled)

    def _abandon(self, a: int, b: int, c: int) -> Command | None:
        return commands.Abandon(SESSIONS[a % 2], str(a % 4 // 2 + self.generation)) if b > 128 else None

    # --- stages ------------------------------------------------------------------------------------------------------

    def _stage(self, a: int, b: int, c: int) -> tuple[Command, int]:
        name = f"s{a % 3}"
        number = len(self.naive.assemblies.get((STAGES, name), {})) + 1 if c < 220 else 1 + c % 4
        return commands.Part(STAGES, name, number, NAMES[b % 20 % 3 if b > 128 else b % 2]), 1 + b % 3

    def _publish(self, a: int, b: int, c: int) -> tuple[Command, int, list[tuple[str, int]]]:
        scope = f"q{a % 2}"
        number = self.naive.scopes.get(scope, -1) + (1 + c % 3 if c < 200 else 0)
        names = [f"s{(b + index) % 3}" for index in range(1 + a % 3)]
        stages = [(name, len(self.naive.assemblies.get((STAGES, name), {})) + (c > 248)) for name in names]
        return commands.Publish(STAGES, scope, number), 0, stages

    def _drop(self, a: int, b: int, c: int) -> Command:
        return commands.Abandon(STAGES, f"s{a % 3}")

    def _carry(self, a: int, b: int, c: int) -> Command | None:
        last = 1 + a % max(len(self.manager.log), 1)
        if self.manager.directory.is_pinned(1, last):
            return None
        entries = self.manager.directory.needed_between(1, last)
        return commands.Carried(self.naive.epoch, entries, []) if entries else None
