"""What tests of the destination machines share: a channel in memory whose every command is applied at once."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.destination import command as commands
from holdfast.destination.batch_traits import PLAIN, Traits
from holdfast.destination.command import Attach, Command, Create, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Answer, Effect
from holdfast.errors import HoldfastError
from holdfast.event import batch, position
from holdfast.event.position import Ranges


def batch_of(events: int, mark: int = 0, traits: Traits = PLAIN) -> bytes:
    """A batch of so many small events."""
    return batch.encode(
        [b"\x80"] * events, [b"%d" % mark] * events, source="test", first_id=mark << 32, priority=traits.priority,
        not_before_ms=traits.not_before_ms, earliest_expiry_ms=traits.earliest_expiry_ms,
        latest_expiry_ms=traits.latest_expiry_ms, has_groups=traits.has_groups,
    )  # fmt: skip


def positions(entry: int, events: int = 1) -> list[int]:
    return [position.of(entry, index) for index in range(events)]


def ranges(*entries_or_spans: int | tuple[int, int]) -> bytes:
    """Ranges as bytes: a whole entry for a number, positions first .. last for a pair."""
    spans = [span if isinstance(span, tuple) else (position.of(span), position.of(span, 65_535)) for span in entries_or_spans]
    return Ranges.gather(spans).to_bytes()


class Manager:
    """A message manager without a shell: appends a command, applies it, remembers everything."""

    def __init__(self) -> None:
        self.directory = Directory()
        self.log: list[bytes] = []
        self.effects: list[Effect] = []

    def send(self, destination: str, events: int = 1, producer: str = "", sequence: int = 0, traits: Traits = PLAIN) -> int:
        """Append a batch; its entry number."""
        self.append(commands.BatchCommand(destination, producer, sequence), batch_of(events, len(self.log) + 1, traits))
        return len(self.log)

    def append(self, command: Command, payload: bytes = b"") -> list[Effect]:
        self.log.append(commands.encode(command, payload))
        self.effects = self.directory.apply(len(self.log), self.log[-1])
        return self.effects

    def ask(self, command: Command, payload: bytes = b"") -> Any:
        """Append a command somebody waits for; its answer, raised when it is a refusal."""
        fields = {name: getattr(command, name) for name in command.__struct_fields__}
        effects = self.append(type(command)(**{**fields, "origin": "test", "token": 7}), payload)
        answers = [effect for effect in effects if isinstance(effect, Answer)]
        assert len(answers) == 1 and effects[-1] is answers[0] and answers[0][:2] == ("test", 7)
        if answers[0].error is not None:
            raise answers[0].error
        return answers[0].value

    def ask_all(self, command: Command, payload: bytes = b"") -> Any:
        """As `ask`, for a command after which others that waited are applied, and perhaps answered: its own answer."""
        effects = self.append(replace(command, origin="test", token=7), payload)
        (answer,) = (effect for effect in effects if isinstance(effect, Answer) and effect.token == 7)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def refusal(self, command: Command, payload: bytes = b"") -> HoldfastError:
        """The error a command is answered with; it must have changed nothing."""
        before = self.directory.digest()
        try:
            value = self.ask(command, payload)
        except HoldfastError as error:
            assert self.directory.digest() == before, "a refused command changed the state"
            assert self.effects[:-1] == [], "a refused command had an effect"
            return error
        raise AssertionError(f"{command} was not refused but answered {value!r}")

    def waiting(self, destination: str, subscription: str = "") -> list[int]:
        """The positions that wait, in the order in which they would be delivered."""
        found: list[int] = []
        backlog = self.directory.backlog((destination, subscription))
        slot, index = 0, 0
        while (run := backlog.next_run(slot, index)) is not None:
            slot, first, events = run
            found += range(first, first + events)
            index = position.index_of(first) + events
        assert len(found) == backlog.waiting
        return found


def manager_at_work() -> Manager:
    """A queue `orders`, a topic `alerts` with a subscription `audit`; session ann receives from both and from the dead queue."""
    made = Manager()
    for command in (
        Create("orders", "queue"),
        Create("alerts", "topic"),
        Subscribe("alerts", "audit", True),
        Attach("ann", 1, "orders"),
        Attach("ann", 2, "alerts", "audit"),
        Attach("ann", 3, "_DMQ"),
    ):
        made.ask(command)
    return made
