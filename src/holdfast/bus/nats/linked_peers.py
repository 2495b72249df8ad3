"""The shell of one side of links: gathers messages into pieces, joins pieces to messages, and acts on what the machine says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from holdfast.bus.link.effect import Arrived, Congested, Deposed, Effect, Lost, Made, Send
from holdfast.bus.link.frame import BODY_BYTES_MAX
from holdfast.bus.link.outgoing import Piece
from holdfast.bus.message import LinkEnded, LinkMade, NewerEpoch, PeerCongested
from holdfast.bus.nats.endpoint import Endpoint
from holdfast.errors import TooLarge

# One message of the bus. A page of a browser has some MiB.
MESSAGE_BYTES_MAX = 32 << 20

SendPieces = Callable[[str, Sequence[Piece], int], list[Effect]]


class LinkedPeers:
    def __init__(
        self, endpoint: Endpoint, send: SendPieces, subject_of: Callable[[str], str], heard_on: Callable[[str], Sequence[str]]
    ) -> None:
        """`subject_of` is the subject of a peer; `heard_on` are those on which this side hears what becomes of its link."""
        self._send = send
        self._endpoint = endpoint
        self._subject_of = subject_of
        self._heard_on = heard_on
        self._gathered: dict[str, list[bytes]] = {}
        self._parts: dict[str, list[bytes]] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def is_quiet(self) -> bool:
        return not self._gathered

    def post(self, peer: str, message: bytes) -> None:
        """Send a message to a peer, together with all others of this turn of the loop."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise TooLarge(f"a message of {len(message)} bytes is too large for the bus, which takes {MESSAGE_BYTES_MAX}")
        if not self._gathered:
            self._loop.call_soon(self._send_gathered)
        self._gathered.setdefault(peer, []).append(message)

    def forget(self, peer: str) -> None:
        """What was published to a peer before its link ended is not for the next one."""
        if peer in self._gathered:
            self._gathered[peer].clear()
        self._parts.pop(peer, None)

    def _send_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for peer, messages in gathered.items():
            for pieces in self._pieces(messages):
                self.act(self._send(peer, pieces, self._endpoint.now_ms()))

    def _pieces(self, messages: Sequence[bytes]) -> Iterator[list[Piece]]:
        """Runs of small messages fill a piece; a large message takes several."""
        run: list[bytes] = []
        size = 0
        for message in messages:
            if run and size + len(message) > BODY_BYTES_MAX:
                yield self._split(self._endpoint.codec.run(run))
                run, size = [], 0
            run.append(message)
            size += len(message)
        if run:
            yield self._split(self._endpoint.codec.run(run))

    @staticmethod
    def _split(body: bytes) -> list[Piece]:
        cuts = range(0, len(body), BODY_BYTES_MAX)
        return [Piece(body[cut : cut + BODY_BYTES_MAX], cut != cuts[-1]) for cut in cuts]

    def act(self, effects: Sequence[Effect]) -> None:
        for each in effects:
            if isinstance(each, Send):
                self._endpoint.send(each.frame)
            elif isinstance(each, Arrived):
                self._take(each.peer, each.piece)
            elif isinstance(each, Made):
                self.forget(each.peer)
                self._tell(each.peer, LinkMade(self._subject_of(each.peer), each.epoch))
            elif isinstance(each, Lost):
                self.forget(each.peer)
                self._tell(each.peer, LinkEnded(self._subject_of(each.peer), each.why))
            elif isinstance(each, Congested):
                self._tell(each.peer, PeerCongested(self._subject_of(each.peer), each.is_congested))
            elif isinstance(each, Deposed):
                self._tell("", NewerEpoch(each.epoch))

    def _tell(self, peer: str, message: object) -> None:
        for subject in self._heard_on(peer):
            self._endpoint.local.hand_over(subject, message)

    def _take(self, peer: str, piece: Piece) -> None:
        if piece.is_part or peer in self._parts:
            self._parts.setdefault(peer, []).append(piece.body)
            if piece.is_part:
                return
        self._endpoint.hear(b"".join(self._parts.pop(peer)) if peer in self._parts else piece.body)
