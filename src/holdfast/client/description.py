"""The answers of `status`, `describe`, `destinations` and `subscriptions`, as types: plain dicts on the wire and in programs.

A server of a later release may add keys; one of an earlier release may lack some.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from holdfast.client.link.questions import Questions
from holdfast.client.receiving.receive_options import Match
from holdfast.wire.frame import Manage


class Place(TypedDict):
    """Where an event waits: a queue, or a subscription of a topic or pattern. Without a destination: in a transaction, a stage
    or a large event that is not complete."""

    destination: str | None
    subscription: str | None
    match: Match | None  # how the destination is meant; None without one


class OldestWaiting(Place):
    position: int
    accepted_at_ms: int  # since 1970; 0 where it is not known


class RedeliveredOften(Place):
    events: int  # that came back more than 20 times


class Pin(Place):
    """What pins the oldest part of the journal: nothing from there on can be used again."""

    entry: int
    entries: int  # from there to the newest


class DeadCount(TypedDict):
    """How many dead events a destination has given up for a reason with this code. One that two subscriptions of a topic gave up
    counts twice."""

    destination: str
    match: Match  # how the destination is meant
    code: str
    events: int


class PerhapsTopic(TypedDict):
    """A queue of a first use with a name like that of topics, which somebody fills or reads, but not both."""

    destination: str
    like: str  # a pattern that matches its name, or a topic with the same words before the last dot


class Status(TypedDict, total=False):
    """The state of a server. Names and counts that a user may not know are left out."""

    node: str
    is_primary: bool
    epoch: int
    applied: int
    durable: int
    first: int
    destinations: int
    sessions: int
    links: int
    stages: int
    staged_bytes: int
    events_delivered: int
    waiting: int | None  # events in all queues and subscriptions; None for a user who may not know all
    oldest_waiting: OldestWaiting | None
    blocked: list[str]
    dead: list[DeadCount]  # dead events that wait in `_DMQ`, the most first
    redelivered_often: list[RedeliveredOften]
    perhaps_topics: list[PerhapsTopic]  # queues of a first use, with names like topics
    deduplicate_shortened: list[str]  # destinations that remember events for less time than is set
    journal_used_bytes: int
    journal_size_bytes: int
    pins_space: Pin | None
    is_short: bool
    free_bytes: int
    events_reserve_bytes: int
    upkeep_reserve_bytes: int
    reason: str
    relays: list[dict[str, Any]]  # in `holdfast status`: those that this server knows, as they tell themselves
    programs: list[dict[str, Any]]  # that run beside the server: program, state, pid, restarts, reason
    managers: list[dict[str, Any]]  # where there are several message managers: the rows of each, of which the rest is the sum
    transactions_in_doubt: int  # over several message managers, each counted where it is not ended
    events_locked: int  # by them: delivered to nobody until they are ended


class TransactionAt(TypedDict):
    """What one message manager knows of a transaction over several."""

    manager: str
    state: str  # "prepared", "committed" or "aborted"
    session: str
    assembly: str
    entry: int  # of its Prepare, or of its decision
    locked: int  # events that nobody is handed until it is ended
    destinations: list[str]


class TransactionInDoubt(TypedDict):
    """A transaction over several message managers."""

    id: str
    participants: list[str]  # message managers; the first decides. Empty for one that has ended
    decision: str  # "commit", "abort", or "": none yet
    since_ms: int  # ms since 1970; 0: not known
    reason: str  # of an abort
    managers: list[TransactionAt]


class TransactionsInDoubt(TypedDict):
    transactions: list[TransactionInDoubt]  # oldest first
    did_not_answer: list[str]  # message managers


class ClusterNodeRow(TypedDict):
    """A node of a cluster."""

    name: str
    is_heard: bool
    silent_ms: int | None  # since it was heard; None for one that is named in the settings and was never heard
    copies: list[str]  # the message managers of which it has a copy
    is_drained: bool  # it takes no clients, and leads nothing
    links: int  # of clients with it
    is_different: bool  # its essential settings are not those of the node that answers
    settings_version: int  # of the cluster's settings that are in force there; 0 for none
    users_version: int


class CopyRow(TypedDict):
    """A copy of a message manager, as its node told last."""

    node: str
    is_primary: bool
    is_heard: bool
    epoch: int
    applied: int
    durable: int
    lag: int  # entries of the channel that are durable, and that it has not applied


class ManagerRow(TypedDict):
    """A message manager of a cluster."""

    name: str
    primary: str | None  # None: no node that is heard is primary
    epoch: int
    applied: int
    durable: int
    copies: list[CopyRow]
    missing: list[str]  # nodes that should have a copy, and of which none is known


class ClusterStatus(TypedDict):
    """The state of a cluster, as one of its nodes hears it."""

    cluster: str
    node: str  # that answers
    is_cut_off: bool  # it does not hear itself: what it tells of others is old
    nodes: list[ClusterNodeRow]
    managers: list[ManagerRow]
    different: list[str]  # nodes whose essential settings are not those of the node that answers
    silent: list[str]  # the nodes that did not answer


class ClusterConfiguration(TypedDict):
    """What the nodes of a cluster share."""

    settings: dict[str, Any]  # those that can be changed while the cluster runs, as they are in force
    changed: list[str]  # those of them that are not as in every release
    settings_version: int
    users: list[str] | None  # their names; None where everybody is welcome
    users_version: int
    essential: dict[str, Any]  # what must be equal at all nodes
    is_joined: bool  # the node that answers could ask the cluster; otherwise it tells its own copy
    reached: list[str]  # nodes that have this version of what was changed
    not_reached: list[str]  # nodes that did not tell so: they are silent, or have not heard of it yet


class Takeover(TypedDict):
    """A planned takeover of a message manager."""

    manager: str
    primary: str | None  # the node that leads now; None if it fell silent meanwhile
    former: str
    epoch: int
    took_ms: int


class CheckedCopy(TypedDict):
    """A copy of a message manager, as it was checked."""

    node: str
    digest: str | None  # None: it did not answer in time
    is_primary: bool
    is_equal: bool | None
    is_opened_anew: bool  # it differed, was stopped, and begins again with a snapshot


class CheckedManager(TypedDict):
    """A message manager whose copies were compared."""

    name: str
    entry: int | None  # of the channel, where they were compared; None if it took none
    primary: str | None  # None: it did not answer
    problem: str  # why there was no check; "" if there was
    copies: list[CheckedCopy]
    differing: list[str]  # nodes whose copies differ
    silent: list[str]  # nodes that did not answer in time


class ClusterCheck(TypedDict):
    """A check of all copies of all message managers of a cluster."""

    managers: list[CheckedManager]
    is_equal: bool  # no copy differs, of those that answered
    is_complete: bool  # all answered


class Drained(TypedDict):
    """A node that is drained, or taken back."""

    node: str
    is_drained: bool
    links: int  # of clients that are left
    leads: list[str]  # message managers that it leads still
    is_done: bool  # it is empty; or, with `undo`, it takes part again


class SubscriptionDescription(TypedDict, total=False):
    """A subscription of a topic, or of all topics that match a pattern."""

    topic: str | None  # in a list of all; None for a pattern
    name: str
    waiting: int
    receivers: int
    accepted: int
    confirmed: int
    dead: int
    expired: int
    is_durable: bool
    is_shared: bool
    no_local: bool
    selector: str | None
    remove_after_events: int  # past one of these limits it is removed; 0: none
    remove_after_bytes: int
    remove_after: float  # seconds
    pattern: str | None
    match: Match  # of a pattern


class DestinationDescription(TypedDict, total=False):
    """A queue or topic: its counts, receivers and settings. `accepted` … `expired` are in `describe` only."""

    name: str
    kind: Literal["queue", "topic"]
    waiting: int
    in_flight: int
    receivers: int
    is_blocked: bool
    accepted: int
    confirmed: int
    dead: int
    expired: int
    subscriptions: list[SubscriptionDescription]  # of a topic
    pattern_subscriptions: list[SubscriptionDescription]  # of patterns that match the topic
    redelivery_limit: int
    redelivery_delay: float
    redelivery_factor: int
    redelivery_delay_max: float
    events_max: int
    bytes_max: int
    low_percent: int
    deduplicate: float  # seconds
    remembered: int  # events, where it deduplicates
    deduplicate_shortened_to: float | None  # seconds, where that is less than is set


async def subscriptions_of(session: Questions, where: dict[str, Any], timeout: float) -> list[SubscriptionDescription]:
    """All subscriptions of a topic or pattern, asked for page by page; an older server gives all at once."""
    found: list[SubscriptionDescription] = []
    given = {**where, "after": ""}
    while given["after"] is not None:
        page: Any = await session.ask_again(lambda token: Manage(token, "subscriptions", given), timeout)
        if isinstance(page, list):
            return page
        found += page["subscriptions"]
        given["after"] = page["next"]
    return found
