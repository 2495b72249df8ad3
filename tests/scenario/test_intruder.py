"""A user who has learned every id and name of another, and says everything that can be said with them (E7).

Nothing of the other changes, nothing of the other is heard, and the other goes on. A seed makes a run repeatable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from argon2 import PasswordHasher

from holdfast.access import users as users_files
from holdfast.destination import command
from holdfast.event import batch, position
from holdfast.event.event import Head, encode_head
from holdfast.event.position import Ranges
from holdfast.node.administration import arguments
from holdfast.node.login.login import Login
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.wire import frame
from holdfast.wire.frame import Frame, Message
from tests.raw_client import RawClient
from tests.waiting import until

FRAMES = 1_500
PASSWORD = "the same for all"
SECRET = b"what only alice may read"
RULES = """
[[access]]
who = "alice"
destination = "**"
actions = ["send", "receive", "browse", "manage"]
[[access]]
who = "neighbour"
destination = "secret.**"
actions = ["send", "receive", "browse", "manage"]
deny = true
[[access]]
who = "neighbour"
destination = "**"
actions = ["send", "receive", "browse", "manage"]
"""


def batch_command(destination: str, producer: str, sequence: int, body: bytes = SECRET) -> bytes:
    made = batch.encode([encode_head(Head())], [body], source="test", first_id=sequence)
    return command.encode(command.BatchCommand(destination, producer, sequence), made)


def part_command(session: str, assembly: str, number: int, destination: str) -> bytes:
    made = batch.encode([encode_head(Head())], [SECRET], source="test", first_id=number)
    return command.encode(command.Part(session, assembly, number, destination), made)


class Listener(RawClient):
    """Remembers the bodies that it heard, too."""

    bodies: bytes = b""

    def _received(self, got: Frame) -> None:
        self.bodies += bytes(got.body)
        super()._received(got)

    async def until_answered(self) -> None:
        """Until what was said is dealt with, or the link was ended for it."""
        self.say(frame.Manage(9, "status", {}))
        async with asyncio.timeout(10):
            while not self.is_lost and not any(getattr(each, "token", 0) == 9 for each in self.heard):
                self._heard.clear()
                await self._heard.wait()
        self.heard.clear()


class Alice:
    """Somebody who has one of everything that can be had."""

    def __init__(self, node: Node) -> None:
        self.client = Listener(node)
        self._directory = node.messages.directory

    async def settle_in(self) -> None:
        client = self.client
        await client.greet(user="alice", password=PASSWORD, client="client-of-alice")
        await client.ask(frame.Manage, "create", {"name": "secret.t", "kind": "topic"})
        await client.ask(frame.Manage, "subscribe", {"topic": "secret.t", "name": "audit"})
        await client.ask(frame.Manage, "subscribe", {"topic": "secret.>", "name": "pattern", "match": "glob"})
        self.temporary = (await client.ask(frame.Manage, "temporary", {"kind": "queue"})).value["name"]
        self.producer = await client.open_producer()
        await client.ask(frame.OpenProducer, "recorder-7", True)
        for number, (producer, destination, kind) in enumerate(
            [(self.producer, "secret.q", "queue"), ("recorder-7", "secret.t", "topic"), (self.producer, "secret.q", "queue")], 1
        ):
            client.say(frame.Send(number, kind), batch_command(destination, producer, (number + 1) // 2))  # type: ignore[arg-type]
        await client.hear(frame.Receipted, 3)
        await client.ask(frame.Attach, 1, "secret.t", "topic")
        client.say(frame.Part(11), part_command(client.session, "transaction", 1, "secret.q"))
        client.say(frame.Part(12), part_command("/alice", "stage", 1, "secret.q"))
        await client.hear(frame.Receipted, 5)
        await client.ask(frame.Attach, 2, "secret.q", "queue")
        client.say(frame.Credit(2, 1, 1 << 20))
        (self.held,) = (await client.hear(frame.Deliver))[0].slices

    def belongings(self) -> dict[str, Any]:
        found, catalog = self._directory, self._directory.catalog
        session = found.sessions()[self.client.session]
        return {
            "destinations": [name for name in catalog.destinations if "secret" in name or name == self.temporary],
            "settings": [repr(catalog.find(name).settings) for name in ("secret.q", "secret.t")],
            "queues": {
                key: (queue.backlog.waiting, list(queue.receivers), getattr(queue, "terms", None))
                for key, queue in catalog.queues.items()
                if "secret" in key[0] or key[0] == self.temporary
            },
            "producers": {
                each.identifier: (each.session, each.user, each.client, each.next_sequence, list(each.recent), dict(each.held))
                for each in found.producers
                if each.identifier in ("recorder-7", self.producer)
            },
            "session": (
                session.receivers.copy(),
                list(session.subscriptions),
                list(session.producers),
                list(session.destinations),
            ),
            "assemblies": [
                bool(known and known.has(1))
                for known in (found.assemblies.find(session.name, "transaction"), found.assemblies.find("/alice", "stage"))
            ],
        }


class Intruder:
    def __init__(self, alice: Alice, dice: random.Random) -> None:
        session = alice.client.session
        self._dice = dice
        self._own = ""
        self.names: list[str] = [
            "secret.q", "secret.t", "glob:secret.>", "secret.>", "**", ".*", "glob:**", "open.q", "open.t", alice.temporary,
            "audit", "pattern", f"_{session}-1", "_DMQ", "_LOG", "", "free",
        ]  # fmt: skip
        self.ids = [session, "/alice", "/", "", alice.producer, "recorder-7", "transaction", "stage", "client-of-alice", "own"]
        self._positions = [alice.held.first, position.of(1), position.of(2), 0, 1 << 40]
        # What it may do to a temporary queue whose name it knows is to send there.
        self._sent_to = [name for name in self.names if name != alice.temporary]

    def frame(self, own: str) -> tuple[Message, bytes]:
        self._own = own
        return self._dice.choice(self.SAID)(self)

    def _name(self) -> str:
        return self._dice.choice(self.names)

    def _id(self) -> str:
        return self._dice.choice([*self.ids, self._own])

    def _number(self) -> int:
        return self._dice.choice([0, 1, 2, 3, 7])

    def _ranges(self) -> bytes:
        first = self._dice.choice(self._positions)
        return Ranges.of((first, first + self._dice.choice([0, 1, 70_000]))).to_bytes()

    def _kind(self) -> Any:
        return self._dice.choice(["queue", "topic"])

    def _match(self) -> Any:
        return self._dice.choice(["name", "glob", "regex"])

    def _manage(self) -> tuple[Message, bytes]:
        action = self._dice.choice(list(arguments.ACTIONS))
        values: dict[str, Callable[[], Any]] = {"kind": self._kind, "match": self._match, "names": lambda: ["stage"]}
        values |= {"force": lambda: True, "replace": lambda: True}
        numbers = ("place", "position", "start", "after", "events_max", "pieces")
        given: dict[str, Any] = {}
        for argument in arguments.ACTIONS[action].__struct_fields__:
            is_number = argument in numbers and not (argument == "after" and action in ("list", "subscriptions"))
            if self._dice.random() < 0.8:
                given[argument] = values[argument]() if argument in values else self._number() if is_number else self._name()
        for argument in ("selector", "wait_ms", "redelivery_limit", "redelivery_delay", "redelivery_factor", "low_percent"):
            given.pop(argument, None)
        return frame.Manage(1, action, given), b""

    def _send(self) -> tuple[Message, bytes]:
        return frame.Send(self._number(), self._kind()), batch_command(
            self._dice.choice(self._sent_to), self._id(), self._number(), b"intruded"
        )

    def _send_command(self) -> tuple[Message, bytes]:
        """A command that is no batch."""
        made: list[command.Command] = [
            command.Delete("secret.q"),
            command.Unsubscribe("secret.t", "audit"),
            command.Detach(self._id()),
            command.Confirm("secret.q", "", self._id(), self._ranges()),
            command.ForgetProducer("recorder-7"),
            command.Abandon("/alice", "stage"),
        ]
        return self._dice.choice([frame.Send(1), frame.Part(1)]), command.encode(self._dice.choice(made))

    def _part(self) -> tuple[Message, bytes]:
        made = part_command(self._id(), self._id(), self._number(), self._dice.choice(self._sent_to))
        return frame.Part(1, self._kind(), self._dice.choice(["", "open.q"])), made

    def _attach(self) -> tuple[Message, bytes]:
        held = self._dice.choice([b"", self._ranges()])
        where = (self._name(), self._kind(), self._name(), held, "", self._match())
        return frame.Attach(1, self._number(), *where, self._is_so(), self._is_so()), b""

    def _settle(self) -> tuple[Message, bytes]:
        verdict: Any = self._dice.choice(["confirm", "release", "reject"])
        return frame.Settle(1, self._number(), verdict, self._ranges(), self._dice.choice(self._positions)), b""

    def _plain(self) -> tuple[Message, bytes]:
        said: list[Message] = [
            frame.OpenSession(1, "", self._id(), self._is_so()),
            frame.OpenProducer(1, self._id(), self._is_so(), self._number()),
            frame.ForgetProducer(1, self._id()),
            frame.Credit(self._number(), 100, 1 << 20),
            frame.DetachReceiver(1, self._number()),
            frame.Browse(1, self._name(), self._name(), 0, 100),
            frame.ReadFragment(1, self._number(), self._dice.choice(self._positions), 0),
            frame.Commit(1, self._id(), self._number(), [frame.SettledPart(self._number(), self._ranges())]),
            frame.Abandon(1, self._id()),
            frame.Publish(1, "scope", self._number(), [(self._id() or "stage", 1)]),
        ]
        return self._dice.choice(said), b""

    def _is_so(self) -> bool:
        return self._dice.random() < 0.5

    SAID = (_manage, _manage, _send, _send_command, _part, _attach, _settle, _plain, _plain, _plain)


@pytest.mark.parametrize("who", ["nobody-special", "neighbour"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_user_who_knows_every_id_of_another_changes_and_hears_nothing_of_theirs(who: str, seed: int) -> None:
    secret = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    people = "".join(f'[users.{name}]\npassword = "{secret}"\n' for name in ("alice", "neighbour", "nobody-special"))
    node = await Node.in_memory(NodeSettings(session_grace_ms=60_000))
    await node.messages.wait_until_primary()
    node.clients.login = Login(users_files.read(people + RULES))
    alice = Alice(node)
    await alice.settle_in()
    before = alice.belongings()
    intruder = Intruder(alice, random.Random(seed))
    bodies = b""

    link = Listener(node)
    link.is_lost = True
    for number in range(FRAMES):
        if link.is_lost:
            bodies += link.bodies
            link = Listener(node)
            await link.greet(user=who, password=PASSWORD, client="client-of-alice")
        said, body = intruder.frame(link.session)
        link.say(said, body, session=2 if isinstance(said, frame.OpenSession) else 1)
        if number % 3:  # otherwise the next one comes before this one is dealt with
            await link.until_answered()
    await until(lambda: node.messages.applied == node.channel.durable, "everything is applied")

    assert alice.belongings() == before
    assert SECRET not in bodies + link.bodies
    taken = alice.held.first
    settled = await alice.client.ask(frame.Settle, 2, "confirm", Ranges.of((taken, taken)).to_bytes(), taken)
    published = await alice.client.ask(frame.Publish, "scope", 1, [("stage", 1)])
    committed = await alice.client.ask(frame.Commit, "transaction", 1)
    assert [type(each) for each in (settled, published, committed)] == [frame.Answered] * 3
    await node.close()
