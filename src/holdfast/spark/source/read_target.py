"""The target of a read: the queue or subscription whose events are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.client.client import Client
from holdfast.client.reading.place_reader import Reading
from holdfast.client.receiving.receive_options import Match


class ReadTarget(NamedTuple):
    """A queue (no subscription), a subscription of a topic, or a subscription of a pattern of topics."""

    destination: str
    subscription: str = ""
    match: Match = "name"
    channel: str = ""  # of one message manager, where there are several (ADR 22)

    @property
    def key(self) -> str:
        """Its name in offsets: `alerts.*@m2` where there are several message managers."""
        return f"{self.destination}@{self.channel}" if self.channel else self.destination


def channels_of(client: Client, target: ReadTarget) -> Sequence[str]:
    """The channels in which a target is read: a pattern in each, where there are several; what has a name, in its own."""
    return client.channels or ("",) if target.match != "name" else ("",)


def reading_of(client: Client, target: ReadTarget, selector: str | None = None) -> Reading:
    """A reading of the target, in its channel."""
    where = (target.destination, target.subscription)
    return client.reading(*where, match=target.match, selector=selector, channel=target.channel)
