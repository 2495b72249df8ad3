"""The lanes of a session: where a server has several message managers, one session on the link in each channel that is used.

    session of a program ─┬─ lane m1: itself               producer, receivers, transactions of channel m1
                          └─ lane m2: opened when needed   those of channel m2

The server is asked once where a destination is; a place never changes. Sends that wait for that answer go in their order. A lane
is resumed, held up and given up by itself: a message manager that is away holds up its own lane and no other (ADR 22).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.destination.name import is_everywhere
from holdfast.errors import Closed
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# Destinations whose lanes are remembered: more than most programs use. The oldest is forgotten, and asked for again.
KNOWN_MAX = 10_000


class Lanes:
    def __init__(self, home: Session) -> None:
        self._home = home
        self._by_channel: dict[str, Session] = {}
        self._places: dict[str, str] = {}
        self._asking: dict[str, _Turns] = {}

    @property
    def open(self) -> list[Session]:
        """The lanes that are open."""
        return [self._home, *(each for each in self._by_channel.values() if not each.is_closed)]

    def known(self, destination: str) -> Session:
        """The lane of a destination, if it is known; the session itself otherwise."""
        channel = self._places.get(destination)
        return self._home if channel is None else self.lane(channel)

    async def at(self, destination: str, is_used: bool = True) -> Session:
        """Return the lane of a destination, asked for if it is not known. `is_used`: it may be created where it is placed."""
        if is_everywhere(destination):  # whoever sends there, or asks, is refused in any of them
            return self._home
        if destination in self._places and destination not in self._asking:
            return self.lane(self._places[destination])
        turns = self._asking.setdefault(destination, _Turns())
        try:
            async with turns:  # one asks, and all go on in the order in which they came
                channel = self._places.get(destination) or await self._ask(destination, is_used)
        finally:
            if not turns.count:
                self._asking.pop(destination, None)
        return self.lane(channel)

    async def _ask(self, destination: str, is_used: bool) -> str:
        asked = {"name": destination, "is_used": is_used}
        asker = next((each for each in self.open if each.is_ready), self._home)  # the client manager answers, in any of them
        answer = await asker.ask_again(lambda token: Manage(token, "locate", asked), asker.connection.timeout)
        if answer["is_placed"]:
            self._places[destination] = answer["channel"]
            if len(self._places) > KNOWN_MAX:
                del self._places[next(iter(self._places))]
        return str(answer["channel"])

    def lane(self, channel: str) -> Session:
        """The lane in a channel; opened, if it is not."""
        home = self._home
        if channel == home.channel:
            return home
        found = self._by_channel.get(channel)
        if found is None or found.is_closed:
            home.check_open()
            found = self._by_channel[channel] = home.connection.new_lane(home, channel)
        return found

    def everywhere(self) -> Sequence[Session]:
        """The lanes in all channels, opened if they are not."""
        return [self.lane(channel) for channel in self._home.connection.channels]

    async def close(self, timeout: float, is_done: bool) -> None:
        """End the lanes beside the session itself."""
        others = self.open[1:]
        await asyncio.gather(*(each.close(timeout, is_done) for each in others))
        for each in others:
            self._home.connection.drop_session(each, Closed("the session was closed by this program; ask the client for another"))


class _Turns:
    """A lock that counts who wants it."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        self.count += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self.count -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self.count -= 1
        self._lock.release()
