"""The target of a read: the queue or subscription whose events are read."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.client.receiving.receive_options import Match


class ReadTarget(NamedTuple):
    """A queue (no subscription), a subscription of a topic, or a subscription of a pattern of topics."""

    destination: str
    subscription: str = ""
    match: Match = "name"
