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
# The heads of a batch can be as long as a whole command; a part is not.
HEADS_BYTES_MAX = 256 << 10

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
    owner: str = ""  # of a temporary one
    accepted: int = 0  # events ever sent to it, of a topic


class SubscriptionImage(Part, frozen=True, tag=3):
    topic: str  # or a pattern, as it stands in keys
    name: str
    owner: str
    is_durable: bool | None = None  # None: when it has no owner
    is_shared: bool = False
    selector: str = ""
    no_local: bool = False
    client: str = ""
    made_at: int = 0  # the entry that made it
    confirmed_up_to: int = 0  # a place: everything before it was confirmed at once


class BacklogImage(Part, frozen=True, tag=4):
    """Everything up to the next of these belongs to this backlog."""

    destination: str
    subscription: str
    newest_entry: int
    next_slot: int
    delivered_up_to: int
    marks: list[int]
    finished: int = 0  # events ever
    dead: int = 0
    expired: int = 0


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
    destinations: list[str] = []  # temporary ones


class ProducerImage(Part, frozen=True, tag=15):
    identifier: str
    session: str
    is_durable: bool
    next_sequence: int
    held: list[tuple[int, int, int, str]]  # sequence, entry, events, destination
    recent: list[tuple[int, int]]
    skipped: list[tuple[int, int]]
    client: str = ""


class HeldImage(Part, frozen=True, tag=22):
    """A batch that the producer named last has held back, without its bodies; a long one in several portions."""

    sequence: int
    size: int
    heads: bytes


class CarriedImage(Part, frozen=True, tag=16):
    places: list[tuple[int, int]]  # entry, where it is


class SizesImage(Part, frozen=True, tag=31):
    number: int  # of the stretch of slots
    sizes: bytes


class AssemblyImage(Part, frozen=True, tag=27):
    """Parts of an assembly, those after the first `begin`."""

    session: str
    name: str
    begin: int
    entries: bytes
    sizes: bytes


class PartBatchImage(Part, frozen=True, tag=28):
    session: str
    name: str
    number: int
    entry: int
    events: int
    destination: str
    traits: tuple[Any, ...]
    size: int
    heads: bytes
    fragments: tuple[int, int]
    fragment_bytes: int
    large_bytes: int
    unwanted: dict[str, bytes] | None = None  # of a staged one: the bits of what each selector does not take


class OutcomesImage(Part, frozen=True, tag=29):
    session: str
    outcomes: list[tuple[str, int, int, int, str]]  # assembly, events placed, confirmed, entry of the first batch, why not


class LargeImage(Part, frozen=True, tag=30):
    """Fragments of a large event, those after the first `begin`."""

    entry: int
    fragment_bytes: int
    large_bytes: int
    begin: int
    fragments: bytes


class ScopesImage(Part, frozen=True, tag=32):
    """How far scopes have published, those after the first `begin`; the one used least recently first."""

    begin: int
    scopes: list[tuple[str, str, int, bool]]  # whose stages, scope, number, whether it has published several


class PageTraitsImage(Part, frozen=True, tag=18):
    """What is not plain in the page named last, as it lies in memory (see `page`)."""

    first_slot: int
    lanes: bytes
    delays: bytes
    expiries: bytes


class SelectorsImage(Part, frozen=True, tag=19):
    """Of the receivers of the backlog named last, those that have a selector."""

    selectors: list[tuple[str, int, str]]  # session, receiver, selector


class EndImage(Part, frozen=True, tag=17):
    """How many parts came before. A snapshot without it was cut."""

    parts: int


AnyPart = (
    StateImage | DestinationImage | SubscriptionImage | BacklogImage | PageImage | FinishedImage | DisplacedImage |
    ReturnsImage | NotBeforeImage | ReceiversImage | OpeningsImage | DeathsImage | SessionImage | SessionPartImage |
    ProducerImage | HeldImage | CarriedImage | PageTraitsImage | SelectorsImage | SizesImage |
    AssemblyImage | PartBatchImage | OutcomesImage | LargeImage | ScopesImage | EndImage
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
