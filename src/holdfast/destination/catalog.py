"""The catalog: which destinations a message manager has, and what of the channel they still need.

name ─▶ queue or topic                    what clients speak of
(name, subscription) ─▶ queue             every backlog by its key; a subscription is a queue that a topic fills
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.destination.backlog import Backlog
from holdfast.destination.bodies import Bodies
from holdfast.destination.dead import DeadQueue
from holdfast.destination.effect import BacklogKey
from holdfast.destination.name import DEAD
from holdfast.destination.queue import Queue
from holdfast.destination.subscription import Subscription
from holdfast.destination.topic import Topic
from holdfast.errors import NoSuchDestination, WrongKind

Destination = Queue | Topic


class Catalog:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.dead = DeadQueue(bodies)
        self.destinations: dict[str, Destination] = {DEAD: self.dead}
        self.queues: dict[BacklogKey, Queue] = {self.dead.key: self.dead}

    # --- finding -----------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Destination:
        found = self.destinations.get(name)
        if found is None:
            raise NoSuchDestination(f"there is no destination '{name}'; create it first", name=name)
        return found

    def topic(self, name: str) -> Topic:
        found = self.find(name)
        if not isinstance(found, Topic):
            raise WrongKind(f"'{name}' is a queue and has no subscriptions; use a topic", name=name, kind="queue")
        return found

    def queue(self, name: str, subscription: str) -> Queue:
        """The queue of this name, or the subscription of the topic of this name."""
        found = self.find(name)
        if isinstance(found, Topic):
            if not subscription:
                raise WrongKind(f"'{name}' is a topic; name the subscription of it that is meant", name=name, kind="topic")
            return found.subscription(subscription)
        if subscription:
            raise WrongKind(f"'{name}' is a queue and has no subscriptions; leave the subscription out", name=name, kind="queue")
        return found

    def queues_of(self, name: str) -> list[Queue]:
        found = self.find(name)
        return [found] if isinstance(found, Queue) else list(found.subscriptions.values())

    def backlogs(self) -> Iterator[Backlog]:
        return (queue.backlog for queue in self.queues.values())

    def listing(self) -> list[dict[str, Any]]:
        return [self.destinations[name].describe() for name in sorted(self.destinations)]

    # --- changing ----------------------------------------------------------------------------------------------------

    def add(self, destination: Destination) -> None:
        self.destinations[destination.name] = destination
        if isinstance(destination, Queue):
            self.queues[destination.key] = destination

    def add_subscription(self, subscription: Subscription) -> None:
        self.queues[subscription.key] = subscription

    def remove_queue(self, queue: Queue) -> None:
        del self.queues[queue.key]
        if isinstance(queue, Subscription):
            del self.topic(queue.topic).subscriptions[queue.name]

    # --- what is needed of the channel (rules 8 and 9) ---------------------------------------------------------------

    def is_needed(self, entry: int) -> bool:
        """Somebody still waits for an event of the batch of this entry."""
        return self._bodies.is_held(entry) or any(backlog.needs(entry) for backlog in self.backlogs())

    def oldest_needed(self) -> int | None:
        """The least entry number of the channel that holds a body somebody needs."""
        found = [backlog.oldest_entry() for backlog in self.backlogs()]
        found += [self._bodies.oldest_held(), self._bodies.oldest_carried()]
        return min((entry for entry in found if entry is not None), default=None)

    def needed_between(self, first: int, last: int) -> list[int]:
        """The entries whose bodies lie in first .. last of the channel and are needed, ascending."""
        needed = dict.fromkeys(self._bodies.held_between(first, last))
        for backlog in self.backlogs():
            needed.update(dict.fromkeys(backlog.entries_between(first, last)))
        here = {entry: None for entry in needed if entry not in self._bodies.carried}
        here.update(dict.fromkeys(self._bodies.carried_to(first, last)))
        return sorted(here)
