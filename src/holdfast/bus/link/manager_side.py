"""The links of a primary, one with each client manager that has begun one in its epoch.

    OPEN of a new round          ──▶ a link with the next number; a former one of this client manager is lost
    OPEN of the same round       ──▶ the same OPENED again: the first one was lost
    OPEN of an earlier round     ──▶ nothing: it was overtaken
    a frame of another number    ──▶ RESET: the client manager begins a new round
    a frame of an older epoch    ──▶ refused and counted; RESET tells the epoch
    a frame of a newer epoch     ──▶ Deposed

A primary that starts again has another epoch, so the numbers of its links begin at 1 in each epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.bus.link.effect import Deposed, Effect, Lost, Made, Send
from holdfast.bus.link.frame import OPEN, OPENED, RESET, Frame
from holdfast.bus.link.link import GRANTS_BYTES, Link, share_of
from holdfast.bus.link.outgoing import Piece

# A client manager asks each second on an idle link. When one says nothing for so long, its link is forgotten, with what waits.
SILENCE_MS_MAX = 10_000


class ManagerSide:
    def __init__(self, manager: str, epoch: int, grants_bytes: int = GRANTS_BYTES) -> None:
        self.manager = manager
        self.epoch = epoch
        self.older_refused = 0
        self.unsent = 0  # messages for a client manager with which there was no link
        self._grants_bytes = grants_bytes
        self._links: dict[str, Link] = {}
        self._number = 0
        self._newer_epoch = 0

    @property
    def unacknowledged_bytes(self) -> int:
        return sum(link.outgoing.unacknowledged_bytes for link in self._links.values())

    def is_open(self, start: str) -> bool:
        return start in self._links

    def send(self, start: str, pieces: Sequence[Piece], now_ms: int) -> list[Effect]:
        """Send a message; on no link, it is lost: the client manager reports again when it has made one."""
        link = self._links.get(start)
        if link is None:
            self.unsent += 1
            return []
        sent = link.send(pieces, now_ms)
        if sent is None:
            self.unsent += 1
            return self.forget(start, "too much waits to be sent", now_ms)
        return sent

    def forget(self, start: str, why: str, now_ms: int) -> list[Effect]:
        """Give up the link with a client manager. If it lives, it hears so, now or when it asks, and begins another."""
        link = self._links.pop(start, None)
        if link is None:
            return []
        reset = self._frame(RESET, start, link.round, link.number)
        return [Lost(start, why), Send(reset), *self._share(now_ms)]

    def receive(self, frame: Frame, now_ms: int) -> list[Effect]:
        if frame.to_client or frame.manager != self.manager:
            return []
        if frame.epoch > self.epoch:
            if frame.epoch <= self._newer_epoch:
                return []
            self._newer_epoch = frame.epoch
            return [Deposed(frame.epoch)]
        if frame.kind == OPEN:
            return self._open(frame, now_ms)
        if frame.epoch < self.epoch:
            self.older_refused += 1
            return [Send(self._frame(RESET, frame.start, frame.round, frame.number))]
        link = self._links.get(frame.start)
        if link is None or link.number != frame.number:
            return [Send(self._frame(RESET, frame.start, frame.round, frame.number))]
        return link.receive(frame, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        silent = [start for start, link in self._links.items() if now_ms - link.heard_ms >= SILENCE_MS_MAX]
        effects = [each for start in silent for each in self.forget(start, "it was silent", now_ms)]
        return effects + [each for link in self._links.values() for each in link.tick(now_ms)]

    def _open(self, frame: Frame, now_ms: int) -> list[Effect]:
        known = self._links.get(frame.start)
        if known is not None and frame.round < known.round:
            return []
        if known is not None and frame.round == known.round:
            known.heard_ms = now_ms
            return [Send(self._frame(OPENED, frame.start, known.round, known.number))]
        self._number += 1
        opened = self._frame(OPENED, frame.start, frame.round, self._number)
        self._links[frame.start] = Link(frame.start, opened, now_ms)
        lost: list[Effect] = [Lost(frame.start, "it began another one")] if known is not None else []
        return [*lost, Send(opened), Made(frame.start, self.epoch), *self._share(now_ms)]

    def _frame(self, kind: int, start: str, round: int, number: int) -> Frame:
        return Frame(kind, True, self.manager, self.epoch, start, round, number)

    def _share(self, now_ms: int) -> list[Effect]:
        """Divide what may be unacknowledged towards this primary among its links."""
        granted = share_of(len(self._links), self._grants_bytes)
        return [each for link in self._links.values() for each in link.grant(granted, now_ms)]
