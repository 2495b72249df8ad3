"""The message manager as client managers see it: values in, values out.

    client manager ──▶ MessageManagerView ──▶ LocalView      the message manager of the same process
                                          ──▶ over the bus   one of another process

Commands go into the channel; deliveries, credit and the questions of clients go over the bus. A client manager asks these
questions beside that. It sees no directory, no queue and no other object of the state.

A question whose answer may take a while takes a function `then`, and calls it once with the answer; in the same process it may do
so before it returns. Other questions are answered at once, from the state as applied. They are checks before an append, some of
them for each batch. Their docstrings say what a client manager of another process does instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from holdfast.channel.channel import Buffer
from holdfast.destination.command import BatchCommand


class Holding(NamedTuple):
    """A session that has a receiver, as the message manager knows it."""

    session: str
    is_away: bool  # it has lost its link, has not come back to a new primary, or its client manager is silent


class RememberedSession(NamedTuple):
    """A session, as the channel remembers it."""

    receivers: Mapping[int, tuple[str, str]]  # destination and subscription, by the receiver's number
    producers: Sequence[str]
    client_manager: str = ""  # the start of the one that it came through last; "" on a single server


class TemporaryDestination(NamedTuple):
    kind: str  # "queue" or "topic"
    owner: str  # the session that made it
    subscriptions: int


class Staged(NamedTuple):
    """How much is staged, of all users together."""

    stages: int
    parts: int
    bytes: int


class DestinationNews(NamedTuple):
    """What changed among destinations."""

    version: int  # changes so far
    is_whole: bool  # all destinations, not only those that changed
    changed: Sequence[tuple[str, str, bool]]  # name, kind ("": it is gone), whether it deduplicates


class MessageManagerView(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_primary(self) -> bool:
        """The state is known. In another process: the primary has been heard of, in its heartbeats."""

    # --- asked and answered later ------------------------------------------------------------------------------------

    def when_primary(self, then: Callable[[], None]) -> None:
        """Call it when the state is known."""

    def when_caught_up(self, then: Callable[[], None], known: int = 0) -> None:
        """Call it when everything is applied that is durable now, here or, up to `known`, at a process that is ahead."""

    def when_told(self, then: Callable[[], None]) -> None:
        """Call it when everything that was published to the message manager so far is heard there. In one process: now, because
        nothing that is appended after it is applied before it."""

    def learn_destinations(self, then: Callable[[], None]) -> bool:
        """Whether destinations may have changed that are not known here; `then` is called when those so far are. In one process:
        never."""

    def apply_now(self) -> None:
        """Somebody waits for what is applied next: apply it without a pause."""

    def recall_session(self, session: str, then: Callable[[RememberedSession | None], None]) -> None:
        """Tell, when the state is known, what the channel remembers of a session; None for nothing."""

    def list_sessions(self, then: Callable[[Set[str]], None]) -> None:
        """Tell the ids of all sessions that the channel remembers."""

    def list_holders(self, destination: str, subscription: str, then: Callable[[Sequence[Holding]], None]) -> None:
        """Tell the sessions whose receivers are attached to a subscription, or to a queue with ""; and which are away."""

    def prepare_take_over(self, destination: str, subscription: str, session: str, then: Callable[[], None]) -> None:
        """Prepare, when the state is known, that a receiver of this session takes over a subscription: events that the program of
        the present receiver was handed count as delivered. Then the command that attaches it may be appended."""

    async def read_fragment(self, session: str, receiver: int, position: int, index: int) -> Buffer:
        """Read a fragment of the large event at a position, for a receiver that is attached where it waits."""

    async def read_fragment_in(self, destination: str, subscription: str, position: int, index: int) -> Buffer:
        """Read a fragment of the large event at a position that waits in a queue or subscription."""

    def list_destinations(self, since: int, then: Callable[[DestinationNews], None]) -> None:
        """Tell the kinds of destinations that changed since a version, or of all: for client managers of other processes."""

    # --- destinations: answered at once ------------------------------------------------------------------------------

    def kind_of(self, destination: str) -> str | None:
        """Return "queue", "topic" or None.

        Asked for each batch. In another process: as far as the primary has told (`known_destinations`).
        """

    def is_deduplicating(self, destination: str) -> bool:
        """Asked for each batch. In another process: as the kind."""

    def is_gone(self, destination: str) -> bool:
        """Whether a temporary destination that is not known here is gone. In another process: after `learn_destinations`."""

    def wait_for_selectors(self, batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        """Whether a batch must wait for selectors that take long; `then` is called when they have answered.

        Asked for each batch. In another process: never. The primary then asks the selectors when it applies the batch.
        """

    def find_temporary(self, destination: str) -> TemporaryDestination | None:
        """In another process: left to the command, which is refused when it is applied."""

    def waiting_in(self, destination: str) -> int:
        """The events that wait in a queue, or in the fullest subscription of a topic.

        Asked for temporary destinations while the journal is nearly full. In another process: from the primary's heartbeats.
        """

    def is_waiting(self, destination: str, subscription: str, position: int) -> bool:
        """Whether an event waits in a queue or subscription. Asked by the node's own receiver, which is where the primary is."""

    # --- sessions and producers: answered at once --------------------------------------------------------------------

    def knows_session(self, session: str) -> bool:
        """In another process: assume that it does not, and introduce the session once more."""

    def temporaries_of_session(self, session: str) -> int:
        """How many temporary destinations a session has. In another process: what it created and has not deleted."""

    def temporaries_of_user(self, user: str) -> int:
        """How many temporary destinations a user has. In another process: left to the command."""

    def durable_producers_of(self, user: str) -> int:
        """How many durable producers a user has. In another process: left to the command."""

    def has_durable_producer(self, producer: str) -> bool:
        """In another process: left to the command."""

    # --- assemblies: answered at once --------------------------------------------------------------------------------

    def assembly_bytes(self, session: str, assembly: str) -> int | None:
        """The bytes of an open assembly, as applied; None when there is none.

        Asked for each part, as all that follows. In another process: what went through the client manager, which has seen every
        part of its sessions; the rest is left to the command.
        """

    def has_part(self, session: str, assembly: str, number: int) -> bool: ...

    def open_assemblies(self, session: str) -> int: ...

    def staged(self) -> Staged:
        """In another process: from the primary's heartbeats."""
