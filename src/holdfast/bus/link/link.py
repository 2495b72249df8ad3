"""A link on the bus: both of its directions, as one of its two sides sees them.

A frame always says how far its sender has received, so that a link that is used in both directions has no frames but those that
carry something.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.bus.link.effect import Arrived, Congested, Effect, Send
from holdfast.bus.link.frame import BODY, STATUS, Frame
from holdfast.bus.link.incoming import Incoming
from holdfast.bus.link.outgoing import GRANT_BYTES_MIN, Outgoing, Piece

# What may be unacknowledged towards one process, on all of its links together. NATS drops a connection at 64 MB.
GRANTS_BYTES = 8 << 20


def share_of(links: int, total: int = GRANTS_BYTES) -> int:
    """What one link of so many is granted."""
    return max(total // max(links, 1), GRANT_BYTES_MIN)


class Link:
    def __init__(self, peer: str, head: Frame, now_ms: int) -> None:
        """`head` has the fields that all frames of this link have in common."""
        self.peer = peer
        self.round = head.round
        self.number = head.number
        self.outgoing = Outgoing()
        self.incoming = Incoming()
        self.heard_ms = now_ms
        self._head = head
        self._was_congested = False

    def send(self, pieces: Sequence[Piece], now_ms: int) -> list[Effect] | None:
        """Send the pieces of a message, in turn; None when too much waits already."""
        if not self.outgoing.offer(pieces):
            return None
        return [*self._due(now_ms), *self._congestion()]

    def receive(self, frame: Frame, now_ms: int) -> list[Effect]:
        self.heard_ms = now_ms
        effects: list[Effect] = []
        if frame.kind == BODY:
            taken = self.incoming.take(frame.sequence, Piece(frame.body, frame.is_part), now_ms)
            effects += [Arrived(self.peer, piece) for piece in taken]
        self.incoming.note_newest(frame.newest, now_ms)
        if frame.asks:
            self.incoming.tell_by(now_ms)
        self.outgoing.acknowledge(frame.received, frame.granted, now_ms)
        effects += [Send(self._body(*again)) for again in self.outgoing.send_again(frame.missing, now_ms)]
        return [*effects, *self._due(now_ms), *self._status(now_ms), *self._congestion()]

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed: ask where nothing was acknowledged, tell what came."""
        if self.outgoing.must_ask(now_ms):
            return [Send(self.status(asks=True))]
        return self._status(now_ms)

    def grant(self, granted: int, now_ms: int) -> list[Effect]:
        self.incoming.grant(granted, now_ms)
        return self._status(now_ms)

    def status(self, *, asks: bool) -> Frame:
        return self._frame(STATUS, asks=asks)

    def _due(self, now_ms: int) -> list[Effect]:
        return [Send(self._body(*due)) for due in self.outgoing.due(now_ms)]

    def _status(self, now_ms: int) -> list[Effect]:
        return [Send(self.status(asks=False))] if self.incoming.must_tell(now_ms) else []

    def _congestion(self) -> list[Effect]:
        if self.outgoing.is_congested == self._was_congested:
            return []
        self._was_congested = self.outgoing.is_congested
        return [Congested(self.peer, self._was_congested)]

    def _body(self, sequence: int, piece: Piece) -> Frame:
        return self._frame(BODY, sequence, body=piece.body, is_part=piece.is_part)

    def _frame(self, kind: int, sequence: int = 0, *, asks: bool = False, body: bytes = b"", is_part: bool = False) -> Frame:
        head, incoming = self._head, self.incoming
        incoming.told()
        return Frame(
            kind, head.to_client, head.manager, head.epoch, head.start, head.round, head.number,
            sequence, self.outgoing.newest, incoming.received, incoming.granted, incoming.missing(), asks, is_part, body,
        )  # fmt: skip
