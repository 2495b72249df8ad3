"""The parts of a state's image: small and typed, in an order in which the state can be rebuilt from them.

A backlog is its head, then its pages (as they lie in memory), then the few things that are kept beside the pages. Parts are
at most some 50 KiB, so that they fill chunks evenly. New fields go last, with a default; a new part is a new version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from holdfast.destination.settings import Settings
from holdfast.destination.state.dead import Death, Deaths
from holdfast.destination.state.deduplication import Repeated

# Small things per part: some 20 KiB of them.
ITEMS_MAX = 1000
# Reasons in one part: some 50 KiB, if they are long.
REASONS_MAX = 50
# Heads in one part: those of a batch can be as long as a whole command.
HEADS_BYTES_MAX = 256 << 10

Item = TypeVar("Item")
OutcomeFields = tuple[int, int, int, str, int]  # events placed, confirmed, entry of the first batch, why not, where it was before


class Part(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """A part is an array whose first item says which part it is."""


class StateImage(Part, frozen=True, tag=1):
    applied: int
    epoch: int
    node: str
    placing_ms: int = 0  # the latest time at which something was placed in a destination that deduplicates
    start: str = ""  # of the process of the node


class DestinationImage(Part, frozen=True, tag=2):
    name: str
    kind: str
    settings: Settings
    owner: str = ""  # of a temporary one
    accepted: int = 0  # events ever sent to it, of a topic
    is_unconfigured: bool = False  # since its first use


class SubscriptionImage(Part, frozen=True, tag=3):
    topic: str  # or a pattern, as it stands in keys
    name: str
    owner: str
    is_durable: bool | None = None  # None: it is, if it has no owner
    is_shared: bool = False
    selector: str = ""
    no_local: bool = False
    client: str = ""
    made_at: int = 0  # the entry that made it
    confirmed_up_to: int = 0  # a place: everything before it was confirmed at once
    limits: tuple[int, int, int] = (0, 0, 0)  # see `removal`


class BacklogImage(Part, frozen=True, tag=4):
    """The head of a backlog. Everything up to the next head belongs to this backlog."""

    destination: str
    subscription: str
    newest_entry: int
    next_slot: int
    delivered_up_to: int  # of former releases; 0
    marks: list[int]
    finished: int = 0  # events ever
    dead: int = 0
    expired: int = 0
    in_hand: list[tuple[int, int, tuple[str, int]]] = []  # first, last, session and receiver


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
    owners: list[tuple[str, int]] = []  # those of them that own it


class OpeningsImage(Part, frozen=True, tag=11):
    openings: list[tuple[int, Death]]


class DeathsImage(Part, frozen=True, tag=12):
    runs: list[tuple[int, int, Deaths]]


class SessionImage(Part, frozen=True, tag=13):
    name: str
    since: int
    client_manager: str = ""
    link: int = 0


class SessionPartImage(Part, frozen=True, tag=14):
    """Things that belong to the session named last."""

    receivers: list[tuple[int, str, str]]  # receiver, destination, subscription
    subscriptions: list[tuple[str, str]]
    producers: list[str]
    destinations: list[str] = []  # temporary ones
    attached_by: list[tuple[int, str, int]] = []  # receiver, origin and token of the command


class ProducerImage(Part, frozen=True, tag=15):
    identifier: str
    session: str
    is_durable: bool
    next_sequence: int
    held: list[tuple[int, int, int, str]]  # sequence, entry, events, destination
    recent: list[tuple[int, int]]
    skipped: list[tuple[int, int]]
    client: str = ""
    user: str = ""
    repeated: list[tuple[int, Repeated]] = []  # entry, which of its events were repeated
    ended_at: int = 0  # the entry that ended its session


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
    """Parts of an assembly, after the first `begin`."""

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
    unwanted: dict[str, bytes] | None = None  # of a staged one: the bits of the events that each selector does not take
    keys: bytes = b""
    is_replay: bool = False


class OutcomesImage(Part, frozen=True, tag=29):
    session: str
    outcomes: list[tuple[str, int, int, int, str]]  # assembly, events placed, confirmed, entry of the first batch, why not
    repeated: dict[str, int] = {}  # assembly, where its first event was placed before


class LargeImage(Part, frozen=True, tag=30):
    """Fragments of a large event, after the first `begin`."""

    entry: int
    fragment_bytes: int
    large_bytes: int
    begin: int
    fragments: bytes


class ScopesImage(Part, frozen=True, tag=32):
    """How far scopes have published, after the first `begin`; the one used least recently first."""

    begin: int
    scopes: list[tuple[str, str, int, bool]]  # whose stages, scope, number, whether it has published several


class DeduplicationImage(Part, frozen=True, tag=34):
    """The events that a destination remembers, oldest first, in portions; the first one is empty."""

    destination: str
    dropped_ms: int
    keys: bytes
    positions: bytes
    times: bytes


class PageTraitsImage(Part, frozen=True, tag=18):
    """The traits in the page named last that are not plain, as they lie in memory (see `slots`)."""

    first_slot: int
    lanes: bytes
    delays: bytes
    expiries: bytes


class SelectorsImage(Part, frozen=True, tag=19):
    """The receivers of the backlog named last that have a selector."""

    selectors: list[tuple[str, int, str]]  # session, receiver, selector


class VerdictsImage(Part, frozen=True, tag=33):
    """The receivers of the backlog named last that have given numbered verdicts."""

    verdicts: list[tuple[str, int, int, int]]  # session, receiver, newest number, bits of those that were applied in part


class ReasonsImage(Part, frozen=True, tag=35):
    """Why positions of the backlog named last came back."""

    runs: list[tuple[int, int, str]]


class TransactionImage(Part, frozen=True, tag=36):
    """A transaction in doubt. Its locked positions and what happens to them afterwards: see `Prepared`."""

    session: str
    name: str
    participants: list[str]
    here: str
    since: int
    since_ms: int
    is_commit: bool | None
    reason: str
    outcome: OutcomeFields | None
    is_prepared: bool
    client: str = ""
    settled: list[tuple[str, str, bytes]] = []  # destination, subscription, ranges
    destinations: list[str] = []  # of its parts
    afterwards: list[tuple[str, str, bytes, Death | None]] = []
    publication: tuple[str, int, list[tuple[str, int]]] | None = None  # scope, number, stages
    keys: list[tuple[str, str]] = []  # session, assembly at each participant; none: the same at all


class TransactionOutcomesImage(Part, frozen=True, tag=37):
    """Outcomes of transactions over several managers that are not in doubt, oldest first, after the first `begin`."""

    begin: int
    outcomes: list[tuple[str, str, OutcomeFields]]  # session, assembly


class WaitingImage(Part, frozen=True, tag=38):
    """A command that waits for a Final, and the entry at which it came."""

    entry: int
    command: bytes


class OriginImage(Part, frozen=True, tag=39):
    """A sender of stamped commands, the one that was used least recently first; more of its outcomes in further parts."""

    number: int
    start: str
    low: int
    applied: list[tuple[int, int]]
    outcomes: list[tuple[int, bytes]]


class RevisionsImage(Part, frozen=True, tag=40):
    """Revisions of destinations, in portions; of those that are gone in the order of their deletion, after the first `begin`."""

    forgotten: int
    begin: int
    present: list[tuple[str, int]]
    gone: list[tuple[str, int]]


class EndImage(Part, frozen=True, tag=17):
    """How many parts came before. A snapshot without it was cut."""

    parts: int


AnyPart = (
    StateImage | DestinationImage | SubscriptionImage | BacklogImage | PageImage | FinishedImage | DisplacedImage |
    ReturnsImage | NotBeforeImage | ReceiversImage | OpeningsImage | DeathsImage | SessionImage | SessionPartImage |
    ProducerImage | HeldImage | CarriedImage | PageTraitsImage | SelectorsImage | VerdictsImage | SizesImage |
    AssemblyImage | PartBatchImage | OutcomesImage | LargeImage | ScopesImage | DeduplicationImage | ReasonsImage |
    TransactionImage | TransactionOutcomesImage | WaitingImage | OriginImage | RevisionsImage | EndImage
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
