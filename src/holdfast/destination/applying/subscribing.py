"""Subscribing and unsubscribing, to a topic or to all topics that match a pattern.

    asked for                     existing                             what happens
    a subscription                none                                 made
    the same                      the same                             nothing; a new client takes over what `no_local` means
    other limits                  with or without receivers            they hold from now on; if none are given, those it has
    another selector, no_local    with receivers                       refused
                                  empty, or `replace` is said          replaced: deleted with its events, and made again
                                  events wait in it                    refused, with the count
    shared or not shared          the other, durable both              refused, unless `replace` is said and nobody receives
    durable, shared, own          one of another kind                  refused

A subscription made like another (`subscribe_like`) has its terms and everything that waits in it, in flight and delayed included,
at the same positions and places. It is made at one point of the channel: every event is in it once, from the oldest one that the
other had not finished.

A command written before `replace` existed replaces a subscription whose selector or `no_local` differs.

Because subscribing and creating are commands of one channel, applied in one order, a topic is matched with all patterns before
its first event is placed (rule 12).
"""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.applying.managing import counted, remove
from holdfast.destination.effect import BacklogCreated, Configured, Placed
from holdfast.destination.name import check_subscription
from holdfast.destination.removal import NO_LIMITS, Limits
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import PatternSubscription, Subscription, Terms, key_of, pattern_of
from holdfast.destination.state.topic import Topic
from holdfast.errors import NotEmpty, Refused, SubscriptionInUse
from holdfast.event.pattern import Pattern
from holdfast.event.selector.selector import stored_selector

Subscribing = commands.Subscribe | commands.EnsureSubscription


def subscribe(state: State, entry: int, command: Subscribing, payload: memoryview, effects: Effects) -> bool:
    """Subscribe: whether the subscription is new."""
    terms = _terms(command)
    where = state.catalog.topic(command.topic) if command.match == "name" else pattern_of(command.topic, command.match)
    if isinstance(where, Topic):
        _check_temporary(where, command)
    found = state.catalog.queues.get((where.name if isinstance(where, Topic) else key_of(where), command.name))
    if isinstance(found, Subscription):
        if _is_kept(found, terms, command.replace):
            _keep(state, found, terms, command.limits, effects)
            return False
        remove(state, found, "replaced", effects)
        state.forget_unneeded()
    added = make(state, where, command.name, terms, entry)
    effects.append(BacklogCreated(added.key))
    if terms.owner:
        state.introduce(terms.owner, entry).subscriptions.append(added.key)
    return True


def subscribe_like(state: State, entry: int, command: commands.SubscribeLike, payload: memoryview, effects: Effects) -> int:
    """Make a subscription like another one of the same topic or pattern: how many events wait in it."""
    other = state.catalog.subscription(command.topic, command.like)
    check_subscription(command.name, is_own=False)
    _check_like(state, command, other)
    found = state.catalog.queues.get((command.topic, command.name))
    if found is not None:
        remove(state, found, "replaced", effects)
        state.forget_unneeded()
    where = other.pattern if isinstance(other, PatternSubscription) else state.catalog.topic(command.topic)
    added = make(state, where, command.name, other.terms, entry)
    added.copy_from(other)
    effects.append(BacklogCreated(added.key))
    if (run := added.backlog.next_run(0)) is not None:
        effects.append(Placed(added.key, *run[1:]))
    return added.backlog.waiting


def _check_like(state: State, command: commands.SubscribeLike, other: Subscription) -> None:
    if not other.is_durable:
        raise Refused(f"{other.title} {other.terms.kind}; only a durable one is copied", subscription=other.name)
    found = state.catalog.queues.get((command.topic, command.name))
    if found is None:
        return
    if found is other or len(found.receivers):
        raise SubscriptionInUse(
            f"{found.title} is the one to copy, or has receivers; use another name, or close them first", subscription=found.name
        )
    if not command.replace:
        raise SubscriptionInUse(
            f"{found.title} exists already; use another name, or say replace=True (--replace): {counted(found.backlog.waiting)}, "
            "which is then lost",
            subscription=found.name,
            waiting=found.backlog.waiting,
        )


def make(state: State, where: Topic | Pattern, name: str, terms: Terms, made_at: int) -> Subscription:
    """Make a new subscription in the catalog, by the entry of this number."""
    added = where.subscribe(name, terms) if isinstance(where, Topic) else PatternSubscription(where, name, state.bodies, terms)
    added.made_at = made_at
    state.catalog.add_subscription(added)
    return added


def _terms(command: Subscribing) -> Terms:
    is_own = not command.is_durable and not command.is_shared
    check_subscription(command.name, is_own)
    if is_own and not command.session:
        raise Refused("a subscription that is neither durable nor shared belongs to a session; say which", topic=command.topic)
    if command.is_shared and command.no_local:
        raise Refused(
            "a shared subscription has receivers of several clients and no own events to leave out; leave no_local out",
            subscription=command.name,
        )
    if command.limits is not None:
        command.limits.check()
    selector = stored_selector(command.selector)
    if selector is not None:
        selector.ready()
    return Terms(
        command.session if is_own else "",
        command.is_durable,
        command.is_shared,
        selector.text if selector else "",
        command.no_local,
        command.client if command.no_local else "",
        command.limits or NO_LIMITS,
    )


def _check_temporary(topic: Topic, command: Subscribing) -> None:
    if topic.owner and (command.is_durable or command.is_shared):
        raise Refused(
            f"temporary topic '{topic.name}' goes with its client, and so do its subscriptions: leave the name out, "
            "or use a topic that stays",
            topic=topic.name,
        )


def _is_kept(found: Subscription, terms: Terms, replace: bool | None) -> bool:
    """Whether the existing one is kept, or else replaced; SubscriptionInUse or NotEmpty if it can be neither."""
    waiting = found.backlog.waiting
    is_same_kind = terms[:3] == found.terms[:3]
    if not is_same_kind and not (replace and terms.is_durable and found.terms.is_durable):
        raise SubscriptionInUse(
            f"{found.title} exists already and {found.terms.kind}; use it as it is, delete it first, or use another name"
            + (f" (replace=True, --replace, replaces it: {counted(waiting)})" if terms.is_durable and found.is_durable else ""),
            subscription=found.name,
            waiting=waiting,
            shared=found.terms.is_shared,
            shared_asked=terms.is_shared,
        )
    if is_same_kind and terms.choice == found.terms.choice:
        return True
    if len(found.receivers):
        raise SubscriptionInUse(
            f"{found.title} has {len(found.receivers)} receivers and another selector or no_local; close them first, "
            "or use another name",
            subscription=found.name,
        )
    if waiting and replace is False:
        raise NotEmpty(
            f"{found.title} has another selector or no_local, and {counted(waiting)}; receive what waits first, use another "
            "name, or say replace=True (--replace): then what waits is lost",
            subscription=found.name,
            waiting=waiting,
        )
    return False


def _keep(state: State, found: Subscription, terms: Terms, limits: Limits | None, effects: Effects) -> None:
    """Keep the existing one. A new client takes over what `no_local` means; limits that are given hold from now on."""
    before = found.terms
    limits = before.limits if limits is None else limits
    state.catalog.change_terms(found, (before if len(found.receivers) else terms)._replace(limits=limits))
    if limits != before.limits:
        effects.append(Configured(found.topic))


def unsubscribe(state: State, entry: int, command: commands.Unsubscribe, payload: memoryview, effects: Effects) -> None:
    """Delete a subscription. Its events are finished: its recipient wants no more, and says so (`is_forced`). `topic` may be a
    pattern, as in keys."""
    subscription = state.catalog.subscription(command.topic, command.name)
    if len(subscription.receivers):
        raise SubscriptionInUse(
            f"{subscription.title} has {len(subscription.receivers)} receivers; close them first", subscription=command.name
        )
    waiting = subscription.backlog.waiting
    if waiting and not command.is_forced:
        raise NotEmpty(
            f"{subscription.title} is not deleted: {counted(waiting)}; receive what waits first, or say force=True (--force): "
            "then what waits is lost",
            subscription=command.name,
            waiting=waiting,
        )
    remove(state, subscription, "unsubscribed", effects)
    state.forget_unneeded()
