"""Both sides of links on the bus, over a network that loses, repeats, delays and reorders by seed, and what must hold there.

    clients, each with a start ⇄ Network ⇄ primaries of one message manager, each with an epoch; the former ones may live on

The checker: of each link a side hears a beginning of what the other side sent on it, in order, each once. It hears of a new link
before anything of it comes, and nothing of the former one afterwards. Epochs rise. Memory is bounded. Once the network heals,
each client has a link with the newest primary, and everything that was sent on these links has come.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.bus.link.client_side import ClientSide
from holdfast.bus.link.effect import Arrived, Effect, Lost, Made, Send
from holdfast.bus.link.frame import BODY_BYTES_MAX, FRAME_BYTES, Frame, decode, encode
from holdfast.bus.link.link import GRANTS_BYTES, Link
from holdfast.bus.link.manager_side import ManagerSide
from holdfast.bus.link.outgoing import GRANT_BYTES_MIN, WAITING_BYTES_MAX, Piece

MANAGER = "orders"
TICK_MS = 25
# After this long without faults, every link must stand and be empty.
HEALED_MS = 30_000

Side = ClientSide | ManagerSide
SideId = tuple[str, str]


class Faults(NamedTuple):
    """Chances of each frame, and the longest delay."""

    lost: float = 0.0
    repeated: float = 0.0
    delay_ms: int = 0
    late: float = 0.0  # the chance to come after many others
    late_ms: int = 3_000


NO_FAULTS = Faults()


class Party:
    """A side, with what it sent and heard on each link, in order of its links."""

    def __init__(self, id: SideId, side: Side) -> None:
        self.id = id
        self.side = side
        self.is_stopped = False
        self.inbox: list[Frame] = []
        self.links: defaultdict[str, int] = defaultdict(int)  # how many links were made, by peer
        self.epochs: defaultdict[str, list[int]] = defaultdict(list)
        self.sent: defaultdict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.heard: defaultdict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.is_linked: defaultdict[str, bool] = defaultdict(bool)

    def act(self, effects: Sequence[Effect]) -> list[Frame]:
        frames = []
        for each in effects:
            if isinstance(each, Send):
                frames.append(each.frame)
            elif isinstance(each, Made):
                assert not self.is_linked[each.peer], "a link began before the former one was lost"
                self.is_linked[each.peer] = True
                self.links[each.peer] += 1
                self.epochs[each.peer].append(each.epoch)
            elif isinstance(each, Lost):
                assert self.is_linked[each.peer], "a link was lost that had not begun"
                self.is_linked[each.peer] = False
            elif isinstance(each, Arrived):
                assert self.is_linked[each.peer], "something came on no link"
                self.heard[each.peer, self.links[each.peer]].append(each.piece.body)
        return frames

    def links_now(self) -> list[Link]:
        if isinstance(self.side, ManagerSide):
            return list(self.side._links.values())
        return list(self.side._links())


class LinkedSides:
    def __init__(self, seed: int, faults: Faults = NO_FAULTS) -> None:
        self.dice = random.Random(seed)
        self.faults = faults
        self.now_ms = 1_000
        self.frames_sent = 0
        self.is_lost: Callable[[int, Frame], bool] = lambda number, frame: False  # of a test that chooses itself
        self._travelling: list[tuple[int, int, Frame]] = []  # a heap: when it comes, in which order it was sent
        self._copies = 0
        self.parties: dict[SideId, Party] = {}
        self.gone: list[Party] = []
        self._epoch = 0
        self._starts = 0
        self._said = 0

    # --- who is there ------------------------------------------------------------------------------------------------

    @property
    def clients(self) -> list[Party]:
        return [party for (kind, _), party in self.parties.items() if kind == "client"]

    @property
    def primary(self) -> Party:
        return self.parties["manager", str(self._epoch)]

    def start_client(self) -> Party:
        self._starts += 1
        side = ClientSide(f"start{self._starts}")
        party = self.parties["client", side.start] = Party(("client", side.start), side)
        self._publish(party, side.seek(MANAGER, self.now_ms))
        return party

    def take_over(self, *, former_lives: bool) -> Party:
        """Another primary begins; the former one is gone, or does not know it yet."""
        if self._epoch and not former_lives:
            self.stop_for_ever(self.primary)
        self._epoch += 1
        party = self.parties["manager", str(self._epoch)] = Party(
            ("manager", str(self._epoch)), ManagerSide(MANAGER, self._epoch)
        )
        return party

    def stop_for_ever(self, party: Party) -> None:
        self.gone.append(self.parties.pop(party.id))

    # --- what happens ------------------------------------------------------------------------------------------------

    def say(self, party: Party, peer: str, size: int = 0) -> None:
        """Publish one message; its body says by whom, on which link of the sender, and the how many-th it is."""
        if not party.is_linked[peer]:
            return
        self._said += 1
        body = f"{party.id} {self._said} ".encode().ljust(size, b".")
        key = peer, party.links[peer]
        effects = party.side.send(peer, [Piece(body, False)], self.now_ms)
        if not any(isinstance(each, Lost) for each in effects):
            party.sent[key].append(body)
        self._publish(party, effects)

    def say_to_all(self, size: int = 0) -> None:
        for party in list(self.parties.values()):
            for peer in list(party.links):
                self.say(party, peer, size)

    def pass_time(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.now_ms = min(self.now_ms + TICK_MS, until_ms)
            self._arrive()
            for party in list(self.parties.values()):
                if not party.is_stopped:
                    self._publish(party, party.side.tick(self.now_ms))
            self._check_memory()

    def resume(self, party: Party) -> None:
        """It was stopped, and now gets everything at once that came meanwhile."""
        party.is_stopped = False
        inbox, party.inbox = party.inbox, []
        for frame in inbox:
            self._publish(party, party.side.receive(frame, self.now_ms))

    def heal(self) -> None:
        self.faults = NO_FAULTS
        self.is_lost = lambda number, frame: False
        for party in list(self.parties.values()):
            self.resume(party)
        self.pass_time(HEALED_MS)

    # --- the network -------------------------------------------------------------------------------------------------

    def _publish(self, party: Party, effects: Sequence[Effect]) -> None:
        for frame in party.act(effects):
            self.frames_sent += 1
            travels = decode(encode(frame))
            if self.is_lost(self.frames_sent, frame) or self.dice.random() < self.faults.lost:
                continue
            for _ in range(2 if self.dice.random() < self.faults.repeated else 1):
                delay_ms = self.dice.randint(0, self.faults.delay_ms) if self.faults.delay_ms else 0
                if self.dice.random() < self.faults.late:
                    delay_ms += self.dice.randint(0, self.faults.late_ms)
                self._copies += 1
                heapq.heappush(self._travelling, (self.now_ms + delay_ms, self._copies, travels))

    def _arrive(self) -> None:
        """Hand over what is due, and what that causes where it takes no time."""
        while self._travelling and self._travelling[0][0] <= self.now_ms:
            _, _, frame = heapq.heappop(self._travelling)
            for party in self._listeners(frame):
                if party.is_stopped:
                    party.inbox.append(frame)
                else:
                    self._publish(party, party.side.receive(frame, self.now_ms))

    def _listeners(self, frame: Frame) -> list[Party]:
        if frame.to_client:
            return [party for party in (self.parties.get(("client", frame.start)),) if party is not None]
        return [party for (kind, _), party in self.parties.items() if kind == "manager"]

    @property
    def is_anything_travelling(self) -> bool:
        return any(frame.sequence for _, _, frame in self._travelling)

    # --- what must hold ----------------------------------------------------------------------------------------------

    def _check_memory(self) -> None:
        frame_bytes = BODY_BYTES_MAX + FRAME_BYTES
        for party in self.parties.values():
            links = party.links_now()
            for link in links:
                assert link.outgoing.waiting_bytes <= WAITING_BYTES_MAX + frame_bytes
                assert link.outgoing.unacknowledged_bytes <= GRANTS_BYTES + frame_bytes
                assert link.incoming.early_bytes <= GRANTS_BYTES + frame_bytes
            assert sum(link.incoming.granted for link in links) <= max(GRANTS_BYTES, len(links) * GRANT_BYTES_MIN)

    def check(self) -> None:
        """What must hold at any time."""
        everyone = [*self.parties.values(), *self.gone]
        sent = {(party.id, *key): bodies for party in everyone for key, bodies in party.sent.items()}
        places = {body: where for where, bodies in sent.items() for body in bodies}
        for party in everyone:
            for epochs in party.epochs.values():
                assert epochs == sorted(epochs), "an older primary was taken again"
            taken: dict[str, int] = {}
            for (peer, number), bodies in sorted(party.heard.items()):
                assert len(bodies) == len(set(bodies)), "something came twice"
                (where,) = {places[body] for body in bodies}
                assert sent[where][: len(bodies)] == bodies, "something is missing or out of order"
                if party.id[0] == "client":
                    assert int(where[0][1]) == party.epochs[peer][number - 1], "a primary of another epoch was heard"
                    continue
                assert where[2] > taken.get(peer, 0), "a former link was heard after a newer one"
                taken[peer] = where[2]

    def check_healed(self) -> None:
        """What must hold when the network has healed: links stand, and all that was sent on them has come."""
        self.check()
        primary = self.primary
        for client in self.clients:
            start = client.id[1]
            assert client.is_linked[MANAGER] and primary.is_linked[start], "no link although the network has healed"
            assert client.epochs[MANAGER][-1] == self._epoch
            ends = (client.sent[MANAGER, client.links[MANAGER]], primary.heard[start, primary.links[start]])
            assert ends[0] == ends[1], "not everything came"
            ends = (primary.sent[start, primary.links[start]], client.heard[MANAGER, client.links[MANAGER]])
            assert ends[0] == ends[1], "not everything came"
        for party in (*self.clients, primary):
            for link in party.links_now():
                assert link.outgoing.unacknowledged_bytes == link.outgoing.waiting_bytes == link.incoming.early_bytes == 0
