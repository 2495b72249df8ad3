"""The naive twin of subscribing: topics, subscriptions of every kind, patterns, temporary topics. Single events in lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from holdfast.event import position

Key = tuple[str, str]
Holder = tuple[str, int]

# What each pattern means, said in another language.
PATTERNS = {"glob:a.*": r"a\.[^./]*", "glob:**": r"[^_].*", "regex:a\\.(x|y)": r"a\.(x|y)"}
SELECTORS: dict[str, Callable[[int | None], bool]] = {
    "": lambda n: True,
    "n > 1": lambda n: n is not None and n > 1,
    "n = 0 OR n IS NULL": lambda n: n is None or n == 0,
    "n > 100": lambda n: False,
}


class Refusal(Exception):
    """The twin refuses the command, and has changed nothing."""


@dataclass
class NaiveSubscription:
    owner: str
    is_durable: bool
    is_shared: bool
    selector: str
    no_local: bool
    client: str
    waiting: list[int] = field(default_factory=list)
    receivers: list[Holder] = field(default_factory=list)
    owners: list[Holder] = field(default_factory=list)
    events_max: int = 0  # past it, the subscription is removed; 0: never
    made_at: int = 0

    def takes(self, n: int | None, client: str) -> bool:
        return not (self.no_local and client and client == self.client) and SELECTORS[self.selector](n)


@dataclass
class Sent:
    entry: int
    topic: str
    values: list[int | None]  # the property n of each event


@dataclass
class NaiveProducer:
    client: str
    session: str
    next_sequence: int = 1
    held: dict[int, Sent] = field(default_factory=dict)


class NaiveSubscriptions:
    def __init__(self) -> None:
        self.topics: dict[str, str] = {}  # and the session that a temporary one belongs to
        self.subscriptions: dict[Key, NaiveSubscription] = {}
        self.producers: dict[str, NaiveProducer] = {}

    def apply(self, entry: int, command: Command, values: list[int | None]) -> None:
        match command:
            case commands.BatchCommand():
                self.send(command, Sent(entry, command.destination, values))
            case commands.Create():
                self.topics.setdefault(command.name, command.session)
            case commands.Delete():
                self.delete(command)
            case commands.Subscribe():
                self.subscribe(command, entry)
            case commands.Remove():
                found = self.subscriptions.get((command.topic, command.name))
                if found and 0 < found.events_max < len(found.waiting) and found.made_at == command.made_at:
                    del self.subscriptions[command.topic, command.name]
            case commands.SubscribeLike():
                self.subscribe_like(command, entry)
            case commands.Unsubscribe():
                self.unsubscribe((command.topic, command.name), command.is_forced)
            case commands.Attach():
                self.attach((command.destination, command.subscription), (command.session, command.receiver), command)
            case commands.Detach():
                self.detach(command.session, command.receiver)
            case commands.OpenProducer():
                known = self.producers.setdefault(command.producer, NaiveProducer(command.client, command.session))
                known.client, known.session = command.client, command.session
            case commands.Claim():
                for key in [key for key, found in self.subscriptions.items() if is_passing(found) and not found.receivers]:
                    del self.subscriptions[key]

    # --- events ------------------------------------------------------------------------------------------------------

    def send(self, command: commands.BatchCommand, sent: Sent) -> None:
        producer = self.producers.get(command.producer)
        if producer is None:
            self.place(sent, "")
        elif command.sequence >= producer.next_sequence:
            producer.held.setdefault(command.sequence, sent)
            while producer.next_sequence in producer.held:
                self.place(producer.held.pop(producer.next_sequence), producer.client)
                producer.next_sequence += 1

    def place(self, sent: Sent, client: str) -> None:
        if sent.topic not in self.topics:
            return
        for (topic, _), subscription in self.subscriptions.items():
            if topic == sent.topic or (topic in PATTERNS and self.is_matched(topic, sent.topic)):
                for index, n in enumerate(sent.values):
                    if subscription.takes(n, client):
                        subscription.waiting.append(position.of(sent.entry, index))

    def is_matched(self, pattern: str, topic: str) -> bool:
        return not self.topics[topic] and re.fullmatch(PATTERNS[pattern], topic) is not None

    # --- subscribing -------------------------------------------------------------------------------------------------

    def subscribe(self, command: commands.Subscribe, entry: int) -> None:
        key = (command.topic if command.match == "name" else f"{command.match}:{command.topic}", command.name)
        is_own = not command.is_durable and not command.is_shared
        made = NaiveSubscription(
            command.session if is_own else "", command.is_durable, command.is_shared, command.selector, command.no_local,
            command.client if command.no_local else "", events_max=command.limits.events if command.limits else 0, made_at=entry,
        )  # fmt: skip
        if command.is_shared and command.no_local:
            raise Refusal
        if command.match == "name" and (command.topic not in self.topics or (self.topics[command.topic] and not is_own)):
            raise Refusal
        found = self.subscriptions.get(key)
        if found is None:
            self.subscriptions[key] = made
        elif (found.owner, found.is_durable) != (made.owner, made.is_durable) or (
            found.is_shared != made.is_shared and not (found.is_durable and command.replace)
        ):
            raise Refusal
        elif (found.selector, found.no_local, found.is_shared) == (made.selector, made.no_local, made.is_shared):
            if not found.receivers:
                found.client = made.client
            if command.limits is not None:
                found.events_max = made.events_max
        elif found.receivers or (found.waiting and command.replace is False):
            raise Refusal
        else:
            del self.subscriptions[key]
            self.subscriptions[key] = made

    def subscribe_like(self, command: commands.SubscribeLike, entry: int) -> None:
        key, found = (command.topic, command.name), self.subscriptions.get((command.topic, command.name))
        other = self.subscriptions.get((command.topic, command.like))
        if other is None or not other.is_durable:
            raise Refusal
        if found is not None and (found is other or found.receivers or not command.replace):
            raise Refusal
        self.subscriptions.pop(key, None)
        terms = (other.owner, other.is_durable, other.is_shared, other.selector, other.no_local, other.client)
        self.subscriptions[key] = NaiveSubscription(*terms, list(other.waiting), events_max=other.events_max, made_at=entry)

    def unsubscribe(self, key: Key, is_forced: bool) -> None:
        if key not in self.subscriptions or self.subscriptions[key].receivers:
            raise Refusal
        if self.subscriptions[key].waiting and not is_forced:
            raise Refusal
        del self.subscriptions[key]

    def delete(self, command: commands.Delete) -> None:
        name = command.name
        of_topic = [found for key, found in self.subscriptions.items() if key[0] == name]
        if name not in self.topics or (self.topics[name] and any(found.receivers for found in of_topic)):
            raise Refusal
        if any(found.owners for found in of_topic) or (not command.is_forced and any(found.waiting for found in of_topic)):
            raise Refusal
        self.end_topic(name)

    def end_topic(self, name: str) -> None:
        del self.topics[name]
        for key in [key for key in self.subscriptions if key[0] == name]:
            del self.subscriptions[key]

    # --- receivers ---------------------------------------------------------------------------------------------------

    def attach(self, key: Key, holder: Holder, command: commands.Attach) -> None:
        is_owner = command.is_owner
        found = self.subscriptions.get(key)
        elsewhere = [other for other, each in self.subscriptions.items() if holder in each.receivers and other != key]
        if found is None or elsewhere or found.owner not in ("", holder[0]):
            raise Refusal
        if command.take_over and (is_owner or found.is_shared or not found.is_durable):
            raise Refusal
        if holder not in found.receivers:
            if found.receivers and command.take_over:
                self.check_take_over(found, holder[0])
                found.receivers.clear()
            elif found.receivers and not found.is_shared:
                raise Refusal
            found.receivers.append(holder)
        if is_owner and holder not in found.owners:
            found.owners.append(holder)

    @staticmethod
    def check_take_over(found: NaiveSubscription, session: str) -> None:
        for former, _ in found.receivers:
            if found.owners or former == session or former.split("/")[1:] != session.split("/")[1:]:
                raise Refusal

    def detach(self, session: str, receiver: int) -> None:
        for key, found in list(self.subscriptions.items()):
            before = len(found.receivers)
            found.receivers = [each for each in found.receivers if each[0] != session or receiver not in (0, each[1])]
            found.owners = [each for each in found.owners if each in found.receivers]
            if is_passing(found) and before and not found.receivers:
                del self.subscriptions[key]
        if receiver == 0:
            for name in [name for name, owner in self.topics.items() if owner == session]:
                self.end_topic(name)
            for key in [key for key, found in self.subscriptions.items() if found.owner == session]:
                del self.subscriptions[key]
            for name in [name for name, producer in self.producers.items() if producer.session == session]:
                gone = self.producers.pop(name)
                for sequence in sorted(gone.held):
                    self.place(gone.held[sequence], gone.client)


def is_passing(found: NaiveSubscription) -> bool:
    """It goes with its last receiver."""
    return found.is_shared and not found.is_durable
