"""Addresses for replies, as they pass a relay: the original one travels in the event, and nothing is remembered.

A request waits for its reply at a temporary queue of the server where it was asked, `_temporary.…`, which nobody knows on this
side. On the way here the relay writes its own durable queue into `reply_to`, and the original address into the correlation id:

    upstream   reply_to _temporary.7f3a        correlation_id  till-7-12
    here       reply_to relay.berlin.replies   correlation_id  relay:head:_temporary.7f3a:till-7-12

Whoever answers gives the correlation id back, as `event.reply` does, and the relay reads from it where the answer goes. In a
chain, each further relay wraps it once more. All other addresses are names that mean the same here: they stay.

A correlation id is written by whoever answers, who need not be honest. So an address is believed only if it is temporary, or that
of the replies of a relay: nobody can have the relay send to a queue of his choice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from holdfast.destination.name import is_temporary
from holdfast.event.event import Head

PREFIX = "relay"
# Bytes that a head with such an address contains: a batch whose heads do not have them need not be opened.
SIGN = b"_temporary."
_REPLIES = re.compile(r"relay\.[A-Za-z0-9_-]+\.replies\Z")


class ReturnAddress(NamedTuple):
    upstream: str  # its name in the definition of the relay
    reply_to: str
    correlation_id: str

    def to_text(self) -> str:
        return ":".join((PREFIX, self.upstream, self.reply_to, self.correlation_id))


def read(correlation_id: str | None) -> ReturnAddress | None:
    """The address in a correlation id; None if there is none."""
    parts = (correlation_id or "").split(":", 3)
    if len(parts) != 4 or parts[0] != PREFIX:
        return None
    is_believed = is_temporary(parts[2]) or (_REPLIES.match(parts[2]) and read(parts[3]) is not None)
    return ReturnAddress(*parts[1:]) if is_believed else None


def mapped(head: Head, event_id: str, upstream: str, replies: str) -> Head:
    """The head of a request as it passes; the same one, if its replies need no help."""
    if not head.reply_to:
        return head
    is_of_relay = _REPLIES.match(head.reply_to) and read(head.correlation_id) is not None
    if not (is_temporary(head.reply_to) or is_of_relay):
        return head
    address = ReturnAddress(upstream, head.reply_to, head.correlation_id or event_id)
    return msgspec.structs.replace(head, reply_to=replies, correlation_id=address.to_text())
