"""The rebuild of a server: its subscription is made anew, its store goes back to a snapshot, and so does the server itself.

    marked ─▶ subscription like `history` ─▶ store of the snapshot, or none ─▶ reset command ─▶ mark gone ─▶ join, call the rest

The subscription comes first: what is sent meanwhile is in it (continuity rule 9). Events that the snapshot contains are passed
over. The mark is the file `rebuild` in the store: a listener that ends in the middle begins the rebuild again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, Domain, subscription_of
from holdfast.continuity.errors import CommandFailed, HistoryGone, StoreDamaged
from holdfast.continuity.limits import history
from holdfast.continuity.listener.durable import store_folder
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.rebuild.snapshots import Snapshot, Snapshots
from holdfast.continuity.listener.rebuild.user_command import UserCommand
from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.change import Change
from holdfast.continuity.request import MEMBER
from holdfast.errors import HoldfastError, NoSuchSubscription, Refused

log = logging.getLogger("holdfast.continuity")

RESET_TRIES = 5
RESET_PAUSE_SECONDS = 1.0


class Rebuild:
    def __init__(self, client: Client, domain: Domain, server: str, folder: Path, reset: UserCommand | None) -> None:
        self._client = client
        self._domain = domain
        self._server = server
        self._folder = folder
        self._mark = folder / "rebuild"
        self._reset = reset
        self.snapshots = Snapshots(folder / "snapshots")
        self._from: Snapshot | None = None
        self.wanted = asyncio.Event()
        self._reason = ""

    @property
    def is_possible(self) -> bool:
        return self._reset is not None

    def want(self, reason: str) -> None:
        """The server is to be rebuilt. If it cannot be, that is said once: it is called no more."""
        if not self._reason and not self.is_possible:
            log.error(
                "server %s must be rebuilt, and is called no more: %s; start its listener with --reset", self._server, reason
            )
        self._reason = self._reason or reason
        if self.is_possible:
            self.wanted.set()

    def take_wish(self) -> str:
        """Why it is to be rebuilt; from now on another reason counts."""
        reason, self._reason = self._reason, ""
        self.wanted.clear()
        return reason

    def unfinished(self) -> str:
        """Why a rebuild was begun that is not finished; "" if none was."""
        return self._mark.read_text() if self._mark.exists() else ""

    async def open_store(self, boot: bytes, forgets: bool) -> Store | str:
        """Open the store, and see that the subscription is there; or why the server must be rebuilt. That is an error if there is
        no command to reset it."""
        try:
            store = self._opened(boot)
        except StoreDamaged as problem:
            if not self.is_possible:
                raise
            return str(problem)
        try:
            reason = await self._ensure_subscription(is_new=not store.opened.last)
            reason = reason or await self._past_the_topic(store.finished)
        except BaseException:
            store.close()
            raise
        if self.is_possible and forgets and store.opened.last:
            reason = reason or "it forgets, and may have been started again"
        if self.is_possible:
            reason = self.unfinished() or reason
        if reason:
            store.close()
        return reason or store

    async def _past_the_topic(self, finished: int) -> str:
        """Why the server must be rebuilt, if its store has more than the topic: Holdfast was restored, or the domain is new."""
        newest = await history.newest_place(self._client, self._domain)
        if newest is None or finished <= newest:
            return ""
        reason = f"its store has finished place {finished}, and the topic has come to {newest}"
        if not self.is_possible:
            raise StoreDamaged(f"{reason}; rebuild this server: start its listener with --reset, or with an empty store")
        return reason

    def _opened(self, boot: bytes) -> Store:
        return Store.open(self._folder, self._domain.name, self._server, boot, self._domain.answers_bytes)

    async def _ensure_subscription(self, is_new: bool) -> str:
        """Make the subscription of a new server. Why it must be rebuilt, if its subscription is gone, or its store is."""
        topic, name = self._domain.requests, subscription_of(self._server)
        found = next((each for each in await self._client.subscriptions(topic) if each["name"] == name), None)
        if found is not None:
            return self._store_lost() if is_new and found["confirmed"] else ""
        if self.is_possible and not (is_new and self.snapshots.newest() is None):
            return "its subscription is gone, and events with it"
        if not is_new:
            raise Refused(f"the subscription of server {self._server!r} is gone, and events with it; rebuild this server")
        try:
            await self._check_history(0)
            await self._client.create_subscription(topic, name, like=HISTORY)
        except NoSuchSubscription:
            await self._client.create_subscription(topic, name)
        return ""

    def _store_lost(self) -> str:
        """What the server was called with is not known, nor which keys are: it could be called with a request twice."""
        reason = f"the store of server {self._server!r} is empty, and events of its subscription were finished before"
        if not self.is_possible:
            raise StoreDamaged(
                f"{reason}; start its listener with the --store that it had, with --reset, which rebuilds the server, or give a"
                " new server another --name"
            )
        return reason

    async def tell(self, reason: str) -> None:
        """Say in the topic that the server is behind, which is a fact, and that it is rebuilt."""
        topic = self._client.topic(self._domain.requests)
        try:
            for change in (Change("behind", self._server, reason=reason), Change("rebuild", self._server, reason=reason)):
                await topic.send(changes.encode(change), type=MEMBER, datacontenttype="application/json")
        except HoldfastError as problem:
            log.info("the rebuild of server %s is not told: %s", self._server, problem)

    async def begin(self, reason: str, boot: bytes) -> Store:
        """Make the subscription anew, and the store. HistoryGone if there is no snapshot, and the history does not reach back."""
        log.warning("server %s is rebuilt: %s", self._server, reason)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        store_folder.write_whole(self._mark, reason.encode())
        topic = self._domain.requests
        await self._client.create_subscription(topic, subscription_of(self._server), like=HISTORY, replace=True)
        self._from = self.snapshots.newest()
        await self._check_history(self._from.place if self._from is not None else 0)
        store_folder.clear(self._folder)
        if self._from is not None:
            store_folder.adopt(self._from.store, self._folder, self._domain.name, self._server)
            store_folder.mark_anew(self._folder, boot)
        return self._opened(boot)

    async def _check_history(self, place: int) -> None:
        gone = await history.begins_after(self._client, self._domain)
        if gone > place:
            raise HistoryGone(
                f"the history of domain {self._domain.name!r} begins after place {gone}, and server {self._server!r} has no"
                f" snapshot of a later one; copy a snapshot of another server into {self.snapshots.folder}",
                place=gone,
            )

    async def reset(self) -> None:
        """Bring the server itself back, and take the mark away. CommandFailed if it cannot be, after several tries."""
        assert self._reset is not None
        for left in range(RESET_TRIES - 1, -1, -1):
            try:
                await self._reset.run(self._from.state if self._from is not None else None)
                break
            except CommandFailed as problem:
                if not left:
                    raise
                log.warning("server %s is not reset, and it is tried again: %s", self._server, problem)
                await asyncio.sleep(RESET_PAUSE_SECONDS)
        self._mark.unlink()
        where = f"place {self._from.place}" if self._from is not None else "the beginning"
        log.info("server %s was taken back to %s", self._server, where)
