"""The catalog: the destinations of a message manager, and the entries of the channel that they still need.

name ─▶ queue or topic                    what clients speak of
(name, subscription) ─▶ queue             every backlog by its key; a subscription is a queue that a topic fills
(pattern, subscription) ─▶ queue          one that many topics fill; no topic can be called like a pattern
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NoReturn

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.effect import BacklogKey
from holdfast.destination.name import ADMIN, LOG, is_pattern
from holdfast.destination.settings import Settings
from holdfast.destination.state.dead import DeadQueue
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import user_of
from holdfast.destination.state.subscription import PatternSubscription, Subscription, Terms
from holdfast.destination.state.topic import Topic
from holdfast.errors import NoSuchDestination, NoSuchSubscription, WrongKind

Destination = Queue | Topic

# Log records that wait in a subscription without receivers; records past them are not kept.
LOG_EVENTS_MAX = 100_000
# The names of the newest changes, for those who know what was before them.
NEWS_MAX = 128


class Catalog:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.has_selectors = False  # some subscription has, or had, one
        self.limited: dict[BacklogKey, Subscription] = {}  # subscriptions that are removed past a limit
        self.dead = DeadQueue(bodies)
        self.destinations: dict[str, Destination] = {}
        self.version = 0  # how many times a destination came, went, or got other settings, since it was restored
        self._news: deque[str] = deque(maxlen=NEWS_MAX)
        self._temporaries: dict[str, int] = {}  # temporary destinations, by the user whose session owns them
        # Sorted at the first question: a listing of a hundred thousand asks page by page.
        self._names: list[str] | None = None
        self._keys: list[BacklogKey] | None = None  # of subscriptions
        self.queues: dict[BacklogKey, Queue] = {}
        self.patterns: dict[BacklogKey, PatternSubscription] = {}
        self._families: dict[str, str] = {}  # a topic of each family of names, such as prices.eu of `prices.`; for notices only
        for well_known in (self.dead, Topic(LOG, Settings(events_max=LOG_EVENTS_MAX), bodies), Queue(ADMIN, Settings(), bodies)):
            self.add(well_known)

    # --- finding -----------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Destination:
        found = self.destinations.get(name)
        return self._none(name) if found is None else found

    @staticmethod
    def _none(name: str) -> NoReturn:
        raise NoSuchDestination(
            f"there is no destination '{name}'; list those that exist (holdfast destination list), or create it", name=name
        )

    def pattern(self, key: str, subscription: str) -> PatternSubscription:
        """The subscription of all topics that match; `key` is the pattern as it stands in keys."""
        found = self.patterns.get((key, subscription))
        if found is None:
            raise NoSuchSubscription(
                f"there is no subscription '{subscription}' of the pattern '{key}'; list those that exist "
                "(holdfast subscription list), or subscribe",
                subscription=subscription,
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
        """Describe the subscriptions of a topic, with those of patterns that it fills; or those of one pattern."""
        if is_pattern(topic):
            return [each.describe() for key, each in self.patterns.items() if key[0] == topic]
        found = self.topic(topic)
        return [each.describe() for each in (*found.subscriptions.values(), *found.patterns)]

    def every_subscription(self, after: tuple[str, str], limit: int) -> list[Subscription]:
        """The subscriptions of all topics and patterns, by the keys of their backlogs, from the one after `after` on."""
        if self._keys is None:
            self._keys = sorted(key for key, queue in self.queues.items() if isinstance(queue, Subscription))
        first = bisect_right(self._keys, after)
        found = (self.queues[key] for key in self._keys[first : first + limit])
        return [each for each in found if isinstance(each, Subscription)]

    def used_queues(self) -> Iterator[Queue]:
        """The queues and subscriptions in which something waits or has waited."""
        return (queue for queue in self.queues.values() if queue.is_used)

    def filled_backlogs(self) -> Iterator[Backlog]:
        """The backlogs in which something waits."""
        return (queue.backlog for queue in self.used_queues() if queue.backlog.waiting)

    def listing(self, after: str = "", limit: int | None = None) -> list[dict[str, Any]]:
        """The destinations by their names, from the one after `after` on."""
        if self._names is None:
            self._names = sorted(self.destinations)
        first = bisect_right(self._names, after)
        return [self.destinations[name].describe() for name in self._names[first : None if limit is None else first + limit]]

    def temporaries_of(self, user: str) -> int:
        """How many temporary destinations the sessions of a user own."""
        return self._temporaries.get(user, 0)

    def resembled(self, queue: str) -> str | None:
        """A pattern that matches the name of a queue, or a topic with the same words before the last dot; None: neither."""
        matching = next((each.pattern.text for each in self.patterns.values() if each.pattern.matches(queue)), None)
        return matching or (self._families.get(_family(queue)) if "." in queue else None)

    # --- changing ----------------------------------------------------------------------------------------------------

    def add(self, destination: Destination) -> None:
        self.destinations[destination.name] = destination
        self.note_changed(destination.name)
        if self._names is not None:
            insort(self._names, destination.name)
        if destination.owner:
            user = user_of(destination.owner)
            self._temporaries[user] = self._temporaries.get(user, 0) + 1
        if isinstance(destination, Queue):
            self.queues[destination.key] = destination
        else:
            if not destination.name.startswith("_"):
                self._families[_family(destination.name)] = destination.name
            for pattern in self.patterns.values():
                destination.join(pattern)

    def remove(self, name: str) -> Destination:
        """Remove the destination itself; its queues are removed one by one."""
        removed = self.destinations.pop(name)
        self.note_changed(name)
        if self._families.get(_family(name)) == name:
            del self._families[_family(name)]
        if self._names is not None:
            del self._names[bisect_left(self._names, name)]
        if removed.owner:
            user = user_of(removed.owner)
            self._temporaries[user] -= 1
            if not self._temporaries[user]:
                del self._temporaries[user]
        return removed

    def note_changed(self, name: str) -> None:
        self.version += 1
        self._news.append(name)

    def changed_since(self, version: int) -> list[str] | None:
        """The names of destinations that changed since this version; None if that is too long ago."""
        changes = self.version - version
        return None if not 0 <= changes <= len(self._news) else list(dict.fromkeys(islice(reversed(self._news), changes)))

    def add_subscription(self, subscription: Subscription) -> None:
        self.has_selectors = self.has_selectors or subscription.selector is not None
        self.queues[subscription.key] = subscription
        self._note_limits(subscription)
        if self._keys is not None:
            insort(self._keys, subscription.key)
        if isinstance(subscription, PatternSubscription):
            self.patterns[subscription.key] = subscription
            for topic in self.topics():
                topic.join(subscription)

    def change_terms(self, subscription: Subscription, terms: Terms) -> None:
        """Give a subscription other terms, which do not say otherwise which events it takes."""
        subscription.terms = terms
        subscription.configure(subscription.settings)
        self._note_limits(subscription)

    def _note_limits(self, subscription: Subscription) -> None:
        if subscription.terms.limits.is_any:
            self.limited[subscription.key] = subscription
        else:
            self.limited.pop(subscription.key, None)

    def remove_queue(self, queue: Queue) -> None:
        del self.queues[queue.key]
        self.limited.pop(queue.key, None)
        if self._keys is not None and isinstance(queue, Subscription):
            del self._keys[bisect_left(self._keys, queue.key)]
        if isinstance(queue, PatternSubscription):
            del self.patterns[queue.key]
            for topic in self.topics():
                topic.leave(queue)
        elif isinstance(queue, Subscription):
            self.topic(queue.topic).unsubscribe(queue.name)

    # --- what is needed of the channel (rules 8 and 9) ---------------------------------------------------------------

    def is_needed(self, entry: int) -> bool:
        """Whether an event of this entry's batch still waits somewhere."""
        return self._bodies.is_held(entry) or any(backlog.needs(entry) for backlog in self.filled_backlogs())

    def needed_among(self, entries: Iterable[int]) -> frozenset[int]:
        """The entries among these that still wait somewhere. Each backlog is asked only about those it may have."""
        asked = sorted(entries)
        found = {entry for entry in asked if self._bodies.is_held(entry)}
        for backlog in self.filled_backlogs():
            first, end = bisect_left(asked, backlog.oldest_placed()), bisect_right(asked, backlog.newest_entry)
            found.update(entry for entry in asked[first:end] if backlog.needs(entry))
        return frozenset(found)

    def oldest_needed(self) -> int | None:
        """The least entry number of the channel that holds a body that is needed."""
        found = [backlog.oldest_entry() for backlog in self.filled_backlogs()]
        found += [self._bodies.oldest_held(), self._bodies.oldest_carried(), self._bodies.oldest_pinned()]
        return min((entry for entry in found if entry is not None), default=None)

    def oldest_beside(self) -> tuple[int, int] | None:
        """The least entry that is needed and lies in no backlog (it is carried, held back, or pinned), and the entry of the batch
        that it belongs to."""
        bodies = self._bodies
        found = [each for each in (bodies.oldest_held(), bodies.oldest_carried(), bodies.oldest_pinned()) if each is not None]
        if not found:
            return None
        entry = min(found)
        batch = next((at for at, large in bodies.larges.items() if entry in large.fragments), entry)
        return entry, next(iter(bodies.carried_to(entry, entry)), batch)

    def needed_between(self, first: int, last: int) -> list[int]:
        """The entries whose bodies lie in first .. last of the channel and are needed, ascending."""
        needed = dict.fromkeys(self._bodies.held_between(first, last))
        for backlog in self.filled_backlogs():
            needed.update(dict.fromkeys(backlog.entries_between(first, last)))
        here = {entry: None for entry in needed if entry not in self._bodies.carried}
        here.update(dict.fromkeys(self._bodies.carried_to(first, last)))
        here.update(dict.fromkeys(self._bodies.pinned_between(first, last)))
        return sorted(here)


def _family(name: str) -> str:
    """The words of a name before its last dot, which topics that belong together share; the name itself where it has none."""
    return name.rpartition(".")[0] or name
