"""The names that a relay gives to what it makes, here and upstream.

    relay.NAME.ROUTE.DIGEST  the durable subscription upstream; the digest is of what it asks for: another question, another one
    relay.NAME.ROUTE.marks   the topic of marks, in the local journal
    relay.NAME.replies       the queue of replies, in the local journal
    relay.NAME.ask           the topic over which the relay is asked how it fares, here and upstream

In mode `each` there is one ROUTE for each recipient: `orders.till-1`.
"""

from __future__ import annotations

import hashlib
import re

PREFIX = "relay."
_ASK = ".ask"
_MARKS = ".marks"
_DIGEST = re.compile(r"[0-9a-f]{8}\Z")


def stem(relay: str) -> str:
    return f"{PREFIX}{relay}."


def replies_queue(relay: str) -> str:
    return f"{stem(relay)}replies"


def ask_topic(relay: str) -> str:
    return f"{PREFIX}{relay}{_ASK}"


def relay_of_ask(topic: str) -> str | None:
    """The relay that is asked over a topic; None if it is no such topic."""
    name = topic.removeprefix(PREFIX).removesuffix(_ASK)
    return name if topic == ask_topic(name) and "." not in name else None


def marks_topic(relay: str, route: str) -> str:
    return f"{stem(relay)}{route}{_MARKS}"


def route_of_marks(relay: str, topic: str) -> str | None:
    """The route whose marks a topic has; None if it is no such topic."""
    route = topic.removeprefix(stem(relay)).removesuffix(_MARKS)
    return route if route and topic == marks_topic(relay, route) else None


def subscription_stem(relay: str, route: str) -> str:
    return f"{stem(relay)}{route}."


def subscription(relay: str, route: str, *asked: str) -> str:
    digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:8]
    return subscription_stem(relay, route) + digest


def route_of(relay: str, subscription: str) -> str | None:
    """The route that an upstream subscription is of, by its name; None if it is not of this relay."""
    route, dot, digest = subscription.removeprefix(stem(relay)).rpartition(".")
    return route if subscription.startswith(stem(relay)) and dot and _DIGEST.match(digest) else None
