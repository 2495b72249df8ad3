"""Sessions, as a message manager knows them: which receivers they have open here, and what goes when they go."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.destination.effect import BacklogKey


@dataclass
class Session:
    """Introduced by its first receiver, non-durable subscription, producer or temporary destination; ended by `Detach` of all of
    it."""

    name: str
    since: int  # the entry that introduced it
    receivers: dict[int, BacklogKey] = field(default_factory=dict)
    subscriptions: list[BacklogKey] = field(default_factory=list)  # non-durable ones
    producers: dict[str, None] = field(default_factory=dict)  # opened by it, in order; those that are durable stay when it goes
    destinations: list[str] = field(default_factory=list)  # temporary ones
