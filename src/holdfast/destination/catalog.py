"""The catalog: which destinations a message manager has, and what of the channel they still need.

name ─▶ queue or topic                    what clients speak of
(name, subscription) ─▶ queue             every backlog by its key; a subscription is a queue that a topic fills
(pattern, subscription) ─▶ queue          one that many topics fill; no topic can be called like a pattern
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NoReturn

from holdfast.destination.backlog import Backlog
from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.dead import DeadQueue
from holdfast.destination.effect import BacklogKey
from holdfast.destination.name import ADMIN, LOG, is_pattern
from holdfast.destination.queue import Queue
from holdfast.destination.subscription import PatternSubscription, Subscription
from holdfast.destination.topic import Topic
from holdfast.errors import NoSuchDestination, NoSuchSubscription, WrongKind

Destination = Queue | Topic

# Log records that wait for a subscription nobody receives from; what is logged past them is not kept.
LOG_EVENTS_MAX = 100_000


class Catalog:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.dead = DeadQueue(bodies)
        self.destinations: dict[str, Destination] = {}
        self.queues: dict[BacklogKey, Queue] = {}
        self.patterns: dict[BacklogKey, PatternSubscription] = {}
        for well_known in (self.dead, Topic(LOG, Settings(events_max=LOG_EVENTS_MAX), bodies), Queue(ADMIN, Settings(), bodies)):
            self.add(well_known)

    # --- finding -----------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Destination:
        found = self.destinations.get(name)
        return self._none(name) if found is None else found

    @staticmethod
    def _none(name: str) -> NoReturn:
        raise NoSuchDestination(f"there is no destination '{name}'; create it first", name=name)

    def pattern(self, key: str, subscription: str) -> PatternSubscription:
        """The subscription of all topics that match; `key` is the pattern as it stands in keys."""
        found = self.patterns.get((key, subscription))
        if found is None:
            raise NoSuchSubscription(
                f"there is no subscription '{subscription}' of the pattern '{key}'; subscribe first", subscription=subscription
            )
        return found

    def subscription(self, topic: str, name: str) -> Subscription:
        """A subscription of a topic, or of the pattern with this key."""
        return self.pattern(topic, name) if is_pattern(topic) else self.topic(topic).subscription(name)

    def topic(self, name: str) -> Topic:
        found = self.find(name)
        if not isinstance(found, Topic):
            raise WrongKind(f"'{name}' is a queue and has no subscriptions; use a topic", name=name, kind="queue")
        return found

    def queue(self, name: str, subscription: str) -> Queue:
        """The queue of this name, or the subscription of the topic or pattern of this name."""
        found = self.destinations.get(name)
        if found is None:
            return self.pattern(name, subscription) if is_pattern(name) else self._none(name)
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

    def topics(self) -> Iterator[Topic]:
        return (each for each in self.destinations.values() if isinstance(each, Topic))

    def subscriptions(self, topic: str) -> list[dict[str, Any]]:
        """What is known of the subscriptions of a topic, with those of patterns that it fills; or of those of one pattern."""
        if is_pattern(topic):
            return [each.describe() for key, each in self.patterns.items() if key[0] == topic]
        found = self.topic(topic)
        return [each.describe() for each in (*found.subscriptions.values(), *found.patterns)]

    def backlogs(self) -> Iterator[Backlog]:
        return (queue.backlog for queue in self.queues.values())

    def listing(self, after: str = "", limit: int | None = None) -> list[dict[str, Any]]:
        """The destinations by their names, from the one after `after` on."""
        names = sorted(self.destinations)
        first = bisect_right(names, after)
        return [self.destinations[name].describe() for name in names[first : None if limit is None else first + limit]]

    # --- changing ----------------------------------------------------------------------------------------------------

    def add(self, destination: Destination) -> None:
        self.destinations[destination.name] = destination
        if isinstance(destination, Queue):
            self.queues[destination.key] = destination
        else:
            for pattern in self.patterns.values():
                destination.join(pattern)

    def add_subscription(self, subscription: Subscription) -> None:
        self.queues[subscription.key] = subscription
        if isinstance(subscription, PatternSubscription):
            self.patterns[subscription.key] = subscription
            for topic in self.topics():
                topic.join(subscription)

    def remove_queue(self, queue: Queue) -> None:
        del self.queues[queue.key]
        if isinstance(queue, PatternSubscription):
            del self.patterns[queue.key]
            for topic in self.topics():
                topic.leave(queue)
        elif isinstance(queue, Subscription):
            self.topic(queue.topic).unsubscribe(queue.name)

    # --- what is needed of the channel (rules 8 and 9) ---------------------------------------------------------------

    def is_needed(self, entry: int) -> bool:
        """Somebody still waits for an event of the batch of this entry."""
        return self._bodies.is_held(entry) or any(backlog.needs(entry) for backlog in self.backlogs())

    def oldest_needed(self) -> int | None:
        """The least entry number of the channel that holds a body somebody needs."""
        found = [backlog.oldest_entry() for backlog in self.backlogs()]
        found += [self._bodies.oldest_held(), self._bodies.oldest_carried(), self._bodies.oldest_pinned()]
        return min((entry for entry in found if entry is not None), default=None)

    def needed_between(self, first: int, last: int) -> list[int]:
        """The entries whose bodies lie in first .. last of the channel and are needed, ascending."""
        needed = dict.fromkeys(self._bodies.held_between(first, last))
        for backlog in self.backlogs():
            needed.update(dict.fromkeys(backlog.entries_between(first, last)))
        here = {entry: None for entry in needed if entry not in self._bodies.carried}
        here.update(dict.fromkeys(self._bodies.carried_to(first, last)))
        here.update(dict.fromkeys(self._bodies.pinned_between(first, last)))
        return sorted(here)
