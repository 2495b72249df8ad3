"""The roster: which receivers are attached, to which backlog each, and through which client manager it is reached.

    expected ──▶ attached ──▶ detached
        └─────── refused

A receiver says what it holds before it attaches, so that none of it is sent to it twice (rule 15). For the same reason receivers
that were attached when this node became primary are awaited: until each has attached again, or is detached, their backlog
delivers nothing, because nobody knows what they hold. A receiver that was detached holds nothing, whatever it says: its events
went to others (rule 4). One that keeps what it is handed on a disk of its own, as a relay does, comes back holding it: then it is
its own, as far as nobody else has got it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.destination.effect import BacklogKey, Holder
from holdfast.event.position import Ranges
from holdfast.node.delivering.congestion import is_part_of

Spans = list[tuple[int, int]]


class Roster:
    def __init__(self) -> None:
        # To be read by others, and changed here only.
        self.attached: dict[Holder, BacklogKey] = {}
        self.awaited: dict[BacklogKey, set[Holder]] = {}
        self._attachments: dict[Holder, int] = {}  # the number of each attachment, which no other has
        self._attachments_made = 0
        self._early: set[Holder] = set()
        self._routes: dict[Holder, str] = {}
        self._held: dict[Holder, Ranges] = {}
        self._ahead: dict[Holder, Spans | None] = {}
        self._keeping: set[Holder] = set()

    def expect(
        self, holder: Holder, client_manager: str, held: Ranges, ahead: Spans | None = None, keeps: bool = False
    ) -> None:  # fmt: skip
        """A receiver is about to attach, holding these (`ahead`: its program not yet), reached through that client manager."""
        self._routes[holder] = client_manager
        self._held[holder] = held
        self._ahead[holder] = ahead
        if keeps:
            self._keeping.add(holder)

    def expect_no_more(self, holder: Holder) -> None:
        """The receiver was refused. One that is attached under the same number stays attached."""
        if holder not in self.attached:
            self._routes.pop(holder, None)
            self._keeping.discard(holder)
        self._held.pop(holder, None)
        self._ahead.pop(holder, None)

    def came_early(self, holder: Holder) -> None:
        """A receiver attached while the channel was still being replayed: it is not awaited."""
        if holder in self._routes:
            self._early.add(holder)

    @property
    def has_early(self) -> bool:
        return bool(self._early)

    def is_early(self, holder: Holder) -> bool:
        return holder in self._early

    def forget_early(self) -> None:
        """This node is primary: nobody attaches early any more."""
        self._early.clear()

    def wait_for(self, holder: Holder, key: BacklogKey) -> None:
        self.awaited.setdefault(key, set()).add(holder)

    @property
    def is_waiting(self) -> bool:
        """Somebody is awaited."""
        return any(self.awaited.values())

    def missing(self) -> list[Holder]:
        """The receivers that are awaited and have not said that they are about to attach."""
        return [holder for awaited in self.awaited.values() for holder in sorted(awaited) if holder not in self._routes]

    def is_known(self, holder: Holder, key: BacklogKey) -> bool:
        """The receiver is attached, or was when this node became primary, and has not been detached since."""
        return holder in self.attached or holder in self.awaited.get(key, ())

    def is_keeping(self, holder: Holder) -> bool:
        """The receiver keeps what it is handed."""
        return holder in self._keeping

    def disown(self, holder: Holder) -> Ranges:
        """Forget what a receiver said it holds; return it."""
        return self._held.pop(holder, Ranges())

    def attach(self, holder: Holder, key: BacklogKey) -> Ranges:
        """Attach a receiver; return what it said it holds."""
        self.attached[holder] = key
        self._attachments_made += 1
        self._attachments[holder] = self._attachments_made
        self._wait_no_more(holder, key)
        return self._held.pop(holder, Ranges())

    def take_ahead(self, holder: Holder) -> Spans | None:
        """The events among those that its program was not handed, in order; None where its client does not say."""
        return self._ahead.pop(holder, None)

    def detach(self, holder: Holder, key: BacklogKey) -> bool:
        """Detach a receiver. Whether it was attached when this node became primary, and has not attached since."""
        is_awaited = holder in self.awaited.get(key, ())
        self.attached.pop(holder, None)
        self._attachments.pop(holder, None)
        self._routes.pop(holder, None)
        self._held.pop(holder, None)
        self._ahead.pop(holder, None)
        self._keeping.discard(holder)
        self._wait_no_more(holder, key)
        return is_awaited

    def _wait_no_more(self, holder: Holder, key: BacklogKey) -> None:
        awaited = self.awaited.get(key)
        if awaited is not None:
            awaited.discard(holder)

    def attachment(self, holder: Holder) -> int:
        """The number of a receiver's attachment, which is another one when it has attached anew; 0 when it is not attached."""
        return self._attachments.get(holder, 0)

    def route(self, holder: Holder) -> str:
        """The client manager through which a receiver is reached; "" when none has spoken for it."""
        return self._routes.get(holder, "")

    def through(self, client_manager: str) -> list[tuple[Holder, BacklogKey]]:
        """The attached receivers that are reached through a client manager, and the backlog of each."""
        return [(holder, key) for holder, key in self.attached.items() if is_part_of(self.route(holder), client_manager)]

    def of_session(self, session: str) -> Iterator[tuple[Holder, BacklogKey]]:
        """The attached receivers of a session, and the backlog of each."""
        return ((holder, key) for holder, key in self.attached.items() if holder[0] == session)
