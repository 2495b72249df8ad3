"""Admission: how many links may wait for their login, how long, and with how many bytes. Pure: the caller brings the time.

    connected ──▶ silent ──Hello──▶ greeted ──Welcome──▶ admitted: forgotten here
                    │ 10 s             │ 15 s
                    └──────────────────┴──▶ dropped, with the reason

    limit on all of them      when it is passed
    links                     the oldest silent one is dropped
    bytes that they hold      the one that has held bytes longest is dropped

The reader of a link keeps the limit of a single one (`frame_bytes_max`). Together these bound the cost of strangers: neither ten
thousand connections nor long passwords take more memory than the limits say.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from holdfast.errors import HoldfastError, ProtocolError, Unavailable

Link = TypeVar("Link", bound=Hashable)


@dataclass(frozen=True)
class AdmissionLimits:
    # A Hello has a name, a password and the id of a client: a few hundred bytes. The rest is room for later versions.
    frame_bytes_max: int = 64 << 10
    links_max: int = 2_000
    held_bytes_max: int = 16 << 20
    hello_timeout_s: float = 10.0
    # As long as three heartbeats, after which a client gives up by itself.
    login_timeout_s: float = 15.0


class Dropped(NamedTuple, Generic[Link]):
    link: Link
    problem: HoldfastError


class Admission(Generic[Link]):
    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._silent: dict[Link, float] = {}  # until when; in order of arrival, and so of deadlines
        self._greeted: dict[Link, float] = {}  # until when; in order of greeting
        self._held: dict[Link, int] = {}  # bytes; in order of since when
        self._held_bytes = 0

    @property
    def links(self) -> int:
        return len(self._silent) + len(self._greeted)

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def due_s(self) -> float | None:
        """The time at which the next link is overdue."""
        return min((next(iter(each.values())) for each in (self._silent, self._greeted) if each), default=None)

    def connected(self, link: Link, now_s: float) -> list[Dropped[Link]]:
        """Take a new link; return the links that are dropped for it."""
        self._silent[link] = now_s + self._limits.hello_timeout_s
        if self.links <= self._limits.links_max:
            return []
        limit = f"more than {self._limits.links_max:,} connections have not logged in"
        return [self._drop(next(iter(self._silent)), Unavailable(f"{limit}; connect again later"))]

    def greeted(self, link: Link, now_s: float) -> None:
        """Note that its Hello came, and is being judged."""
        if self._silent.pop(link, None) is not None:
            self._greeted[link] = now_s + self._limits.login_timeout_s

    def holds(self, link: Link, held_bytes: int) -> list[Dropped[Link]]:
        """Note how many bytes of this link are kept; return the links that are dropped for it."""
        if link not in self._silent and link not in self._greeted:
            return []
        self._held_bytes += held_bytes - self._held.get(link, 0)
        if held_bytes:
            self._held[link] = held_bytes
        else:
            self._held.pop(link, None)
        dropped = []
        while self._held_bytes > self._limits.held_bytes_max:
            limit = f"connections that have not logged in hold more than {self._limits.held_bytes_max:,} bytes"
            dropped.append(self._drop(next(iter(self._held)), Unavailable(f"{limit}; connect again later")))
        return dropped

    def overdue(self, now_s: float) -> list[Dropped[Link]]:
        """Drop the links that took too long."""
        dropped = []
        while self._silent and (oldest := next(iter(self._silent.items())))[1] <= now_s:
            problem = ProtocolError(f"no Hello within {self._limits.hello_timeout_s:g} s; greet first")
            dropped.append(self._drop(oldest[0], problem))
        while self._greeted and (oldest := next(iter(self._greeted.items())))[1] <= now_s:
            late = Unavailable(f"the login was not decided within {self._limits.login_timeout_s:g} s; try again later")
            dropped.append(self._drop(oldest[0], late))
        return dropped

    def forget(self, link: Link) -> None:
        """Forget a link that is admitted, or gone."""
        self._silent.pop(link, None)
        self._greeted.pop(link, None)
        self._held_bytes -= self._held.pop(link, 0)

    def _drop(self, link: Link, problem: HoldfastError) -> Dropped[Link]:
        self.forget(link)
        return Dropped(link, problem)
