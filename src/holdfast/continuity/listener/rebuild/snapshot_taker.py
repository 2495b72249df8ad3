"""The snapshot taker: has a snapshot taken every so many requests or seconds, between two requests.

    due ─▶ wanted, in the topic ─▶ its turn: everything before is finished, nothing after has begun
        ─▶ store copied, state written by the user's command ─▶ taken, in the topic, with place and folder

While a snapshot is taken its server waits, and the others go on. A failed one is told in the log, and tried when the next is due.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.continuity.domain import Domain
from holdfast.continuity.errors import CommandFailed
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.lazy_confirm import LazyConfirm
from holdfast.continuity.listener.rebuild.snapshots import About, Snapshots
from holdfast.continuity.listener.rebuild.user_command import UserCommand
from holdfast.errors import BadSetting

log = logging.getLogger("holdfast.continuity")

# A snapshot that was wanted and did not come to its turn is wanted again after this.
WANTED_SECONDS = 60.0


class Every(NamedTuple):
    """How often snapshots are taken. 0 is never."""

    seconds: float = 0.0
    events: int = 0

    @classmethod
    def parse(cls, text: str) -> Every:
        """`600s` is every 600 seconds, `10000` every 10,000 events; "" is never. BadSetting for anything else."""
        try:
            every = cls(seconds=float(text[:-1])) if text.endswith("s") else cls(events=int(text or 0))
        except ValueError:
            every = cls(-1)
        if min(every) < 0:
            raise BadSetting(f"{text!r} says not how often; write 600s for seconds or 10000 for events", setting="snapshot_every")
        return every


class SnapshotTaker:
    """`publish` sends an event of a snapshot without waiting."""

    def __init__(
        self,
        domain: Domain,
        server: str,
        store: Store,
        confirms: LazyConfirm,
        snapshots: Snapshots,
        command: UserCommand | None,
        every: Every,
        publish: Callable[[dict[str, Any]], None],
    ) -> None:
        self._domain, self._server = domain, server
        self._store = store
        self._confirms = confirms
        self._snapshots = snapshots
        self._command = command
        self._every = every
        self._publish = publish
        newest = snapshots.newest()
        self._last_place = newest.place if newest is not None else 0
        self._last_at: float | None = None
        self._wanted, self._wanted_at = "", 0.0

    def want_if_due(self, now: float) -> None:
        """Say in the topic that a snapshot is to be taken, if it is time."""
        if self._last_at is None:
            self._last_at = now
        new = self._store.finished - self._last_place
        by_events = self._every.events and new >= self._every.events
        by_time = self._every.seconds and now - self._last_at >= self._every.seconds and new > 1  # its own event is no news
        if by_events or by_time:
            self.want(now)

    @property
    def can_take(self) -> bool:
        return self._command is not None

    @property
    def last_place(self) -> int:
        """The place of the newest snapshot; 0 for none."""
        return self._last_place

    def want(self, now: float) -> None:
        """Say in the topic that a snapshot is to be taken, unless one is wanted already."""
        if self._command is not None and not (self._wanted and now - self._wanted_at < WANTED_SECONDS):
            self._wanted, self._wanted_at = secrets.token_hex(8), now
            self._publish({"snapshot": self._wanted, "server": self._server})

    def heard(self, told: Any) -> Callable[[], Awaitable[None]] | None:
        """A snapshot is wanted; what is to be done at its turn."""
        if not self._wanted or told.get("snapshot") != self._wanted:
            return None
        return self._take

    async def _take(self) -> None:
        place, loop = self._store.finished, asyncio.get_running_loop()
        folder = self._snapshots.begin(place)
        assert self._command is not None
        try:
            await self._confirms.copy_store(folder / "store")
            await self._snapshots.write_state(folder, self._command)
            taken = self._snapshots.finish(folder, About(self._domain.name, self._server, place))
        except (CommandFailed, OSError) as problem:
            log.warning("server %s: no snapshot was taken at place %d: %s", self._server, place, problem)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            oldest = self._snapshots.oldest_place
            told = {"server": self._server, "place": taken.place, "oldest": oldest, "where": str(taken.folder.absolute())}
            self._publish({"snapshot": self._wanted, **told})
            self._last_place = place
        self._last_at, self._wanted = loop.time(), ""
