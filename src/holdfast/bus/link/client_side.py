"""The links of a client manager, one with the primary of each message manager it talks to.

               OPEN, again and again                    OPENED of this round
    unknown ──────────────────────▶ seeking ──────────────────────────────────▶ open
                                       ▲                                          │
                                       └──────────────────────────────────────────┘
                                         RESET · a newer epoch · another OPENED of this round · too much waits

The epoch only rises: frames of a lower one are refused and counted. So a report to the primary of an epoch is a promise that
nothing of an older primary is taken any more. A client manager asks on an idle link too: a primary that has given it up, or its
successor, answers RESET.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from holdfast.bus.link.effect import Effect, Lost, Made, Send
from holdfast.bus.link.frame import OPEN, OPENED, RESET, Frame
from holdfast.bus.link.link import GRANTS_BYTES, Link, share_of
from holdfast.bus.link.outgoing import ASK_AFTER_MS, ASK_AFTER_MS_MAX, Piece

# On a link where nothing comes, ask after this.
IDLE_ASK_MS = 1_000


class ClientSide:
    def __init__(self, start: str, grants_bytes: int = GRANTS_BYTES) -> None:
        self.start = start
        self.older_refused = 0  # frames of an older epoch
        self.unsent = 0  # messages for a manager with which there was no link
        self._grants_bytes = grants_bytes
        self._towards: dict[str, _Towards] = {}
        self._rounds = count(1)  # never used again, also for a manager that was left meanwhile
        self._epochs: dict[str, int] = {}  # of managers with which it seeks no link

    @property
    def unacknowledged_bytes(self) -> int:
        return sum(link.outgoing.unacknowledged_bytes for link in self._links())

    def epoch_of(self, manager: str) -> int:
        """The newest epoch that was heard of; 0 for none."""
        found = self._towards.get(manager)
        return found.epoch if found is not None else self._epochs.get(manager, 0)

    def is_open(self, manager: str) -> bool:
        found = self._towards.get(manager)
        return found is not None and found.link is not None

    def seek(self, manager: str, now_ms: int) -> list[Effect]:
        """Begin a link with this message manager, and keep one from now on."""
        if manager in self._towards:
            return []
        towards = self._towards[manager] = _Towards(manager, self.start, self._epochs.get(manager, 0), self._rounds)
        return towards.seek(now_ms)

    def leave(self, manager: str, now_ms: int) -> list[Effect]:
        """Have no link with this message manager any more."""
        self._epochs[manager] = self.epoch_of(manager)
        self._towards.pop(manager, None)
        return self._share(now_ms)

    def learn_epoch(self, manager: str, epoch: int, now_ms: int) -> list[Effect]:
        """The primary of an epoch was heard of, in a heartbeat or a claim."""
        towards = self._towards.get(manager)
        if epoch <= self.epoch_of(manager):
            return []
        if towards is None:
            self._epochs[manager] = epoch
            return []
        return [*towards.begin_again(f"epoch {epoch} has begun", now_ms, epoch), *self._share(now_ms)]

    def send(self, manager: str, pieces: Sequence[Piece], now_ms: int) -> list[Effect]:
        """Send a message; on no link, it is lost: whoever hears of the next link says what matters again."""
        towards = self._towards.get(manager)
        if towards is None or towards.link is None:
            self.unsent += 1
            return []
        sent = towards.link.send(pieces, now_ms)
        if sent is None:
            self.unsent += 1
            return [*towards.begin_again("too much waits to be sent", now_ms), *self._share(now_ms)]
        return sent

    def receive(self, frame: Frame, now_ms: int) -> list[Effect]:
        if frame.start != self.start or not frame.to_client:
            return []
        if frame.epoch < self.epoch_of(frame.manager):
            self.older_refused += 1
            return []
        towards = self._towards.get(frame.manager)
        if towards is None:
            return []
        was_open = towards.link is not None
        effects = towards.receive(frame, now_ms)
        return effects if was_open == (towards.link is not None) else [*effects, *self._share(now_ms)]

    def tick(self, now_ms: int) -> list[Effect]:
        return [each for towards in self._towards.values() for each in towards.tick(now_ms)]

    def _links(self) -> Iterable[Link]:
        return (towards.link for towards in self._towards.values() if towards.link is not None)

    def _share(self, now_ms: int) -> list[Effect]:
        """Divide what may be unacknowledged towards this client manager among its links."""
        links = list(self._links())
        granted = share_of(len(links), self._grants_bytes)
        return [each for link in links for each in link.grant(granted, now_ms)]


class _Towards:
    """Where a client manager stands with one message manager."""

    def __init__(self, manager: str, start: str, epoch: int, rounds: Iterator[int]) -> None:
        self.epoch = epoch
        self.link: Link | None = None
        self._manager = manager
        self._start = start
        self._rounds = rounds
        self._round = 0
        self._ask_ms = 0
        self._ask_after_ms = ASK_AFTER_MS

    def seek(self, now_ms: int) -> list[Effect]:
        self._round = next(self._rounds)
        self._ask_after_ms = ASK_AFTER_MS
        return self._open(now_ms)

    def begin_again(self, why: str, now_ms: int, epoch: int = 0) -> list[Effect]:
        """Give up the link, if there is one, and seek another: with the primary of a newer epoch, if one is named."""
        lost: list[Effect] = [Lost(self._manager, why)] if self.link is not None else []
        self.epoch = max(self.epoch, epoch)
        self.link = None
        return [*lost, *self.seek(now_ms)]

    def receive(self, frame: Frame, now_ms: int) -> list[Effect]:
        """Take a frame that is not of an older epoch."""
        if frame.kind == OPENED and frame.round == self._round:
            if self.link is None:
                return self._opened(frame, now_ms)
            if frame.epoch == self.epoch and frame.number <= self.link.number:
                return []  # said twice
            return self.begin_again("the primary began another one", now_ms, frame.epoch)
        if frame.epoch > self.epoch:
            return self.begin_again(f"epoch {frame.epoch} has begun", now_ms, frame.epoch)
        if self.link is None or frame.number != self.link.number:
            return []  # of a former link
        if frame.kind == RESET:
            return self.begin_again("the primary has given it up", now_ms)
        if frame.kind == OPENED:
            return []  # of a former round
        self._ask_ms = now_ms + IDLE_ASK_MS
        return self.link.receive(frame, now_ms)

    def _opened(self, frame: Frame, now_ms: int) -> list[Effect]:
        self.epoch = frame.epoch
        head = Frame(OPEN, False, self._manager, self.epoch, self._start, self._round, frame.number)
        self.link = Link(self._manager, head, now_ms)
        self._ask_ms = now_ms + IDLE_ASK_MS
        return [Made(self._manager, self.epoch)]

    def tick(self, now_ms: int) -> list[Effect]:
        if self.link is None:
            if now_ms < self._ask_ms:
                return []
            self._ask_after_ms = min(2 * self._ask_after_ms, ASK_AFTER_MS_MAX)
            return self._open(now_ms)
        if now_ms >= self._ask_ms:
            self._ask_ms = now_ms + IDLE_ASK_MS
            return [Send(self.link.status(asks=True))]
        return self.link.tick(now_ms)

    def _open(self, now_ms: int) -> list[Effect]:
        self._ask_ms = now_ms + self._ask_after_ms
        return [Send(Frame(OPEN, False, self._manager, self.epoch, self._start, self._round, 0))]
