"""The image of a directory's state: small typed parts, in an order in which the state can be built up from them again.

A backlog is its head, then its pages (as they lie in memory), then the few things that are kept beside the pages. Parts are
at most some 50 KiB, so that any number of them makes chunks of a convenient size. New fields go last, with a default; a new
part is a new version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from holdfast.destination.command import Settings
from holdfast.destination.dead import Death, Deaths

# Small things per part: some 20 KiB of them.
ITEMS_MAX = 1000

Item = TypeVar("Item")


class Part(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """What all parts have in common: an array whose first item says which part it is."""


class StateImage(Part, frozen=True, tag=1):
    applied: int
    epoch: int
    node: str


class DestinationImage(Part, frozen=True, tag=2):
    name: str
    kind: str
    settings: Settings


class SubscriptionImage(Part, frozen=True, tag=3):
    topic: str
    name: str
    owner: str


class BacklogImage(Part, frozen=True, tag=4):
    """Everything up to the next of these belongs to this backlog."""

    destination: str
    subscription: str
    newest_entry: int
    next_slot: int
    delivered_up_to: int
    marks: list[int]


class PageImage(Part, frozen=True, tag=5):
    first_slot: int
    entries: bytes
    events: bytes
    remaining: bytes


class FinishedImage(Part, frozen=True, tag=6):
    slot: int
    finished: bytes


class DisplacedImage(Part, frozen=True, tag=7):
    slots: list[tuple[int, int]]  # slot, real entry


class ReturnsImage(Part, frozen=True, tag=8):
    runs: list[tuple[int, int, int]]


class NotBeforeImage(Part, frozen=True, tag=9):
    runs: list[tuple[int, int, int]]


class ReceiversImage(Part, frozen=True, tag=10):
    receivers: list[tuple[str, int, int]]  # session, receiver, since


class OpeningsImage(Part, frozen=True, tag=11):
    openings: list[tuple[int, Death]]


class DeathsImage(Part, frozen=True, tag=12):
    runs: list[tuple[int, int, Deaths]]


class SessionImage(Part, frozen=True, tag=13):
    name: str
    since: int


class SessionPartImage(Part, frozen=True, tag=14):
    """What belongs to the session named last."""

    receivers: list[tuple[int, str, str]]  # receiver, destination, subscription
    subscriptions: list[tuple[str, str]]
    producers: list[str]


class ProducerImage(Part, frozen=True, tag=15):
    identifier: str
    session: str
    is_durable: bool
    next_sequence: int
    held: list[tuple[int, int, int, str]]  # sequence, entry, events, destination
    recent: list[tuple[int, int]]
    skipped: list[tuple[int, int]]


class CarriedImage(Part, frozen=True, tag=16):
    places: list[tuple[int, int]]  # entry, where it is


class EndImage(Part, frozen=True, tag=17):
    """How many parts came before. A snapshot without it was cut."""

    parts: int


AnyPart = (
    StateImage | DestinationImage | SubscriptionImage | BacklogImage | PageImage | FinishedImage | DisplacedImage |
    ReturnsImage | NotBeforeImage | ReceiversImage | OpeningsImage | DeathsImage | SessionImage | SessionPartImage |
    ProducerImage | CarriedImage | EndImage
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(AnyPart)


def decode(data: bytes | memoryview) -> Part:
    part: Part = _decoder.decode(data)
    return part


def portions(items: Iterable[Item], size: int = ITEMS_MAX) -> Iterator[list[Item]]:
    """The items in lists of at most `size`; none when there are none."""
    rest = iter(items)
    while portion := list(islice(rest, size)):
        yield portion
