"""The membership of a domain: its servers with site, role and state, and its engines.

    join ──▶ joining ──current──▶ current ◀──current── behind
                ▲                  │   ▲ └───behind──────▲
                │                  │   └────────────current── rebuilding ◀──rebuild── any of them
                └──join── drained ◀┤ drain
                └──join── removed ◀┘ remove, disagreement                     leave: gone

Changes are events of the topic, so that all see each at the same point in the order. Only this machine removes a server, and
never the last: while a server is current or behind, it is removed, leaves or becomes a shadow only if `servers_min` others are
current (continuity rule 8). Nor is a current one drained or rebuilt. Facts are facts: a listener that says it is behind, is.

A shadow gets everything and is compared, but it is not counted: not for `servers_min`, not for a majority, not for a level
(`domain_status`). It is named when it differs from the servers, and never removed for it.

Answers that differ are judged among current servers. Of three or more the minority is wrong, if there is a majority; after
DISAGREEMENTS_MAX a server is removed. Of two, both are named, and nobody is counted.

A listener applies changes when it *receives* them, not when their turn comes in its order of calls. A `skip` stands behind the
request it is about: a listener that waited with it until that request is finished would wait for ever.

The number grows with every change that changes something. Pure: the same changes give the same bytes everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import msgspec

from holdfast.continuity.domain import checked_name
from holdfast.continuity.machines.change import Change, Effect, Moved, Named, Refused, Registered, Role, Skipped, State
from holdfast.errors import BadName

__all__ = ["Change", "Effect", "Engine", "Member", "Membership", "Moved", "Named", "Refused", "Registered", "Skipped"]

# One may be a value that no rule names yet, a second the same value in a retry. From the third on, answers of a wrong server are
# worse than a rebuild of a right one: each may be the first, and win.
DISAGREEMENTS_MAX = 3
# Bounds of what others could fill. Past them, members are refused; engines and skipped requests are forgotten, oldest first.
MEMBERS_MAX = 64
ENGINES_MAX = 64
SKIPS_MAX = 128


class Member(msgspec.Struct, array_like=True, frozen=True):
    site: str
    role: Role
    state: State
    since_place: int  # of the change that gave it this state
    disagreements: int = 0  # since it became a member, or was rebuilt
    wrong_in: str = ""  # the transaction of the last of them: told twice, it counts once
    snapshot: int = 0  # the place of the oldest snapshot that it keeps; 0 for none


class Engine(msgspec.Struct, array_like=True, frozen=True):
    start: str
    address: str
    reply_to: str
    site: str = ""
    tls: bool = False
    local: str = ""


class Membership:
    def __init__(self, servers_min: int = 1) -> None:
        self.servers_min = servers_min
        self.number = 0
        self.members: dict[str, Member] = {}
        self.engines: dict[str, Engine] = {}  # registered last, last
        self._votes: dict[str, tuple[str, ...]] = {}  # by transaction: the servers that died of it
        self._skipped: dict[str, int] = {}  # by transaction: the place at which it was decided

    @property
    def current(self) -> list[str]:
        """The servers that are current, by name; no shadows."""
        return [name for name, each in sorted(self.members.items()) if each.state == "current" and each.role == "server"]

    def is_skipped(self, transaction: str) -> bool:
        """Whether a request is passed over: in a replay, before it is called."""
        return transaction in self._skipped

    def can_remove(self, server: str) -> bool:
        """Whether it would be removed: it is a member, and not one of the last."""
        member = self.members.get(server)
        return member is not None and (member.state not in ("current", "behind") or self._can_spare(server))

    # --- changes -----------------------------------------------------------------------------------------------------

    def apply(self, place: int, change: Change) -> list[Effect]:
        """Apply the change at a place of the topic. One that cannot be is refused, and changes nothing."""
        before = self.number
        effects = self._changes[change.kind](self, place, change)
        return effects + self._decide_skips(place) if self.number != before else effects

    def _join(self, place: int, change: Change) -> list[Effect]:
        member = self.members.get(change.server)
        if member is None:
            try:
                checked_name(change.server, "server")
            except BadName as problem:
                return _refused(change, str(problem))
            if len(self.members) >= MEMBERS_MAX:
                return _refused(change, f"a domain has at most {MEMBERS_MAX} servers; let one leave")
            return self._put(change.server, Member(change.site, change.role, "joining", place, snapshot=change.oldest))
        if (
            (member.role, change.role) == ("server", "shadow")
            and member.state in ("current", "behind")
            and not self._can_spare(change.server)
        ):
            return self._refused_as_last(change)
        if member.state in ("drained", "removed"):
            return self._put(change.server, Member(change.site, change.role, "joining", place, snapshot=change.oldest))
        moved = msgspec.structs.replace(member, site=change.site, role=change.role, snapshot=change.oldest)
        return self._put(change.server, moved) if moved != member else []

    def _become_current(self, place: int, change: Change) -> list[Effect]:
        member = self.members.get(change.server)
        if member is None or member.state in ("drained", "removed"):
            return _refused(change, "no member" if member is None else f"it is {member.state}: join again")
        if change.since is not None and change.since != member.since_place:
            return _refused(change, f"out of date: it is {member.state} since place {member.since_place}")
        if member.state == "current":
            return []
        new = (
            member
            if member.state == "behind"
            else Member(member.site, member.role, member.state, place, snapshot=member.snapshot)
        )
        return self._put(change.server, msgspec.structs.replace(new, state="current", since_place=place))

    def _fall_behind(self, place: int, change: Change) -> list[Effect]:
        member = self.members.get(change.server)
        if member is None:
            return _refused(change, "no member")
        if change.since is not None and change.since != member.since_place:
            return _refused(change, f"out of date: it is {member.state} since place {member.since_place}")
        return self._move(change, place, "behind") if member.state == "current" else []

    def _leave(self, place: int, change: Change) -> list[Effect]:
        member = self.members.get(change.server)
        if member is None:
            return _refused(change, "no member")
        if member.state in ("current", "behind") and not self._can_spare(change.server):
            return self._refused_as_last(change)
        del self.members[change.server]
        self.number += 1
        return [Moved(change.server, "gone", change.reason)]

    def _remove(self, place: int, change: Change) -> list[Effect]:
        return self._take_out(place, change, "removed", guarded=("current", "behind"))

    def _drain(self, place: int, change: Change) -> list[Effect]:
        return self._take_out(place, change, "drained", guarded=("current",))

    def _rebuild(self, place: int, change: Change) -> list[Effect]:
        return self._take_out(place, change, "rebuilding", guarded=("current",))

    def _take_out(self, place: int, change: Change, state: State, guarded: tuple[State, ...]) -> list[Effect]:
        member = self.members.get(change.server)
        if member is None:
            return _refused(change, "no member")
        if change.since is not None and change.since != member.since_place:
            return _refused(change, f"out of date: it is {member.state} since place {member.since_place}")
        if state == "drained" and member.state == "removed":
            return _refused(change, "it is removed")
        if member.state in guarded and not self._can_spare(change.server):
            return self._refused_as_last(change)
        return self._move(change, place, state) if member.state != state else []

    def _can_spare(self, server: str) -> bool:
        """Whether enough are current without this one; a shadow can always be spared."""
        return self.members[server].role == "shadow" or sum(name != server for name in self.current) >= self.servers_min

    def _refused_as_last(self, change: Change) -> list[Effect]:
        return _refused(change, f"without it fewer than {self.servers_min} would be current (servers_min)")

    def _move(self, change: Change, place: int, state: State) -> list[Effect]:
        member = self.members[change.server]
        return self._put(change.server, msgspec.structs.replace(member, state=state, since_place=place), change.reason)

    def _put(self, server: str, member: Member, reason: str = "") -> list[Effect]:
        self.members[server] = member
        self.number += 1
        return [Moved(server, member.state, reason)]

    def _keep_snapshot(self, place: int, change: Change) -> list[Effect]:
        member = self.members.get(change.server)
        if member is None:
            return _refused(change, "no member")
        kept = msgspec.structs.replace(member, snapshot=change.oldest)
        self.number += kept != member
        self.members[change.server] = kept
        return []

    # --- answers that differ -----------------------------------------------------------------------------------------

    def _disagree(self, place: int, change: Change) -> list[Effect]:
        of_servers, of_shadows = self._answers(change, "server"), self._answers(change, "shadow")
        counts = Counter(of_servers.values()).most_common()
        if len(counts) > 1 and not (len(of_servers) >= 3 and 2 * counts[0][1] > len(of_servers)):
            return [Named("differ", tuple(of_servers), change.transaction)]
        right = counts[0][0] if counts else None
        wrong = [name for name, digest in of_servers.items() if digest != right]
        wrong += [name for name, digest in of_shadows.items() if right is not None and digest != right]
        if not wrong:
            return []
        return [
            Named("wrong", tuple(wrong), change.transaction),
            *(each for name in wrong for each in self._count(place, change, name)),
        ]

    def _answers(self, change: Change, role: Role) -> dict[str, str]:
        """The answers of current members with a role, by name."""
        return {
            name: digest
            for name, digest in sorted(change.answers.items())
            if (member := self.members.get(name)) is not None and member.role == role and member.state == "current"
        }

    def _count(self, place: int, change: Change, name: str) -> list[Effect]:
        member = self.members[name]
        if member.wrong_in == change.transaction:
            return []
        self.number += 1
        count = member.disagreements + 1
        self.members[name] = msgspec.structs.replace(member, disagreements=count, wrong_in=change.transaction)
        if member.role == "shadow" or count < DISAGREEMENTS_MAX:
            return []
        return self._remove(place, Change("remove", name, reason=f"wrong {count} times, at last in {change.transaction}"))

    # --- engines, and requests that servers die of -------------------------------------------------------------------

    def _register(self, place: int, change: Change) -> list[Effect]:
        engine = Engine(change.start, change.address, change.reply_to, change.site, change.tls, change.local)
        before = self.engines.get(change.engine)
        if not change.engine or (before is None and not change.start):
            return _refused(change, "no engine of this name")
        if engine == before:
            return []
        self.engines.pop(change.engine, None)
        if change.start:
            self.engines[change.engine] = engine
            _bound(self.engines, ENGINES_MAX)
        self.number += 1
        return [Registered(change.engine)]

    def _vote(self, place: int, change: Change) -> list[Effect]:
        if change.transaction in self._skipped:
            return [Skipped(change.transaction)]
        member = self.members.get(change.server)
        if member is None or member.role != "server" or not change.transaction:
            return _refused(change, "no server of this domain")
        votes = self._votes.get(change.transaction, ())
        if change.server not in votes:
            self._votes[change.transaction] = (*votes, change.server)
            _bound(self._votes, SKIPS_MAX)
            self.number += 1
        return []

    def _decide_skips(self, place: int) -> list[Effect]:
        """Skip the requests of which every current server has died: nobody has done them."""
        if not self._votes:
            return []
        current = set(self.current)
        decided = [transaction for transaction, votes in self._votes.items() if current and current <= set(votes)]
        for transaction in decided:
            del self._votes[transaction]
            self._skipped[transaction] = place
            _bound(self._skipped, SKIPS_MAX)
        return [Skipped(transaction) for transaction in decided]

    _changes: ClassVar[dict[str, Callable[[Membership, int, Change], list[Effect]]]] = {
        "join": _join, "current": _become_current, "behind": _fall_behind, "leave": _leave, "remove": _remove, "drain": _drain,
        "rebuild": _rebuild, "disagreement": _disagree, "engine": _register, "skip": _vote, "snapshot": _keep_snapshot,
    }  # fmt: skip

    # --- the whole, as bytes -----------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Everything, the same bytes wherever the same changes were applied."""
        members = sorted(self.members.items())
        kept = _Kept(1, self.servers_min, self.number, members, [*self.engines.items()], [*self._votes.items()],
                     [*self._skipped.items()])  # fmt: skip
        return msgspec.msgpack.encode(kept)

    @classmethod
    def decode(cls, data: bytes) -> Membership:
        """The membership in these bytes; ValueError if there is none."""
        try:
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise ValueError(f"this is no membership: {problem}") from problem
        if kept.version != 1:
            raise ValueError(f"a membership of version {kept.version} cannot be read here; the newest is 1")
        membership = cls(kept.servers_min)
        membership.number = kept.number
        membership.members, membership.engines = dict(kept.members), dict(kept.engines)
        membership._votes, membership._skipped = dict(kept.votes), dict(kept.skipped)
        return membership


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    version: int
    servers_min: int
    number: int
    members: list[tuple[str, Member]]
    engines: list[tuple[str, Engine]]
    votes: list[tuple[str, tuple[str, ...]]]
    skipped: list[tuple[str, int]]


def _refused(change: Change, reason: str) -> list[Effect]:
    return [Refused(change.kind, change.server or change.engine or change.transaction, reason)]


def _bound(kept: dict[str, object] | dict[str, Engine] | dict[str, tuple[str, ...]] | dict[str, int], most: int) -> None:
    """Forget the oldest past a bound."""
    while len(kept) > most:
        del kept[next(iter(kept))]
