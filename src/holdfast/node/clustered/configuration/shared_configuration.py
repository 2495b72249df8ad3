"""The configuration that a node shares with its cluster, in a bucket (ADR 28).

    start ─▶ essential: create it, or be equal to it ─▶ settings, users: fetch, offer, or refuse ─▶ watch
      └─ the bucket cannot be asked ─▶ from the copies on disk ─▶ joins later

Before a node has compared, it appends nothing. One that never has been in its cluster does not start without the bucket. One that
joins later, and finds that it differs, stops then (`failure`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from holdfast.access.users import Users
from holdfast.bus.bucket import Bucket, Entry
from holdfast.bus.bus import NODES, Bus
from holdfast.bus.message import Heartbeat
from holdfast.cluster.configuration import Document, Judgement, Value, Values, differences, digest, judge
from holdfast.errors import BadSetting, HoldfastError, OutcomeUnknown, Unavailable
from holdfast.node import supervision
from holdfast.node.clustered.configuration.acquired_file import AcquiredFile, acquired
from holdfast.node.clustered.configuration.setting_kinds import from_text, read_value, to_text
from holdfast.node.clustered.configuration.shared_documents import GivenUsers, SharedDocument, SharedSettings, SharedUsers
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.configuration")

ESSENTIAL = "essential"
# A bucket that could not be asked at the start is asked again so often.
JOIN_AGAIN_S = 2.0
# Nodes tell that they are there ten times a second.
LISTEN_S = 1.0

OpenBucket = Callable[[], Awaitable[Bucket]]
# The nodes that run with other essential settings than those of this digest; asked before those of the cluster are replaced.
Others = Callable[[bytes], Awaitable[Sequence[str]]]
_AWAY = (Unavailable, OutcomeUnknown)


class _Stored(msgspec.Struct, frozen=True):
    version: int
    text: str


def _document(entry: Entry | None) -> Document | None:
    if entry is None or not entry.value:
        return None
    try:
        stored = msgspec.json.decode(entry.value, type=_Stored)
    except msgspec.DecodeError as problem:
        raise BadSetting(
            f"{entry.key} of the cluster cannot be read ({problem}): it was written by something else; restore it from the copy "
            "in the data folder of a node",
            setting=entry.key,
        ) from problem
    return Document(stored.text, stored.version)


async def _put(bucket: Bucket, key: str, entry: Entry | None, document: Document) -> bool:
    """Whether it is now in the bucket; False if another was first."""
    value = msgspec.json.encode(_Stored(document.version, document.text))
    return await bucket.put(key, value, 0 if entry is None else entry.revision) is not None


async def nodes_that_differ(bus: Bus, digest: bytes) -> list[str]:
    """The nodes that are heard now, and that have other essential settings than those of this digest."""
    heard: dict[str, bytes] = {}

    def hear(heartbeat: Heartbeat) -> None:
        heard[heartbeat.node] = heartbeat.configuration

    stop = bus.listen(NODES, hear)
    await asyncio.sleep(LISTEN_S)
    stop()
    return sorted(name for name, each in heard.items() if each != digest)


class SharedConfiguration:
    def __init__(self, folder: Path, essential: Values, settings: NodeSettings, users: GivenUsers | None) -> None:
        """As the copies on disk have it; use `open`."""
        self.failure: HoldfastError | None = None
        self.failed = asyncio.Event()
        self.on_settings: Callable[[NodeSettings], None] = lambda settings: None
        self.on_users: Callable[[Users], None] = lambda users: None
        self._essential = to_text(essential)
        self.digest = bytes.fromhex(digest(self._essential))  # of the essential settings, for heartbeats
        self._file = AcquiredFile(folder / "acquired-essential.toml")
        self._kept = self._file.read()
        self._settings = SharedSettings(folder, settings)
        self._users = SharedUsers(folder, users)
        self._bucket: Bucket | None = None
        self._joining: asyncio.Task[None] | None = None
        self._stop_watching: Callable[[], None] = lambda: None

    @classmethod
    async def open(
        cls,
        folder: Path,
        essential: Values,
        settings: NodeSettings,
        users: GivenUsers | None,
        open_bucket: OpenBucket,
        others: Others | None = None,
    ) -> SharedConfiguration:
        """Compare with the cluster. BadSetting when this node differs; Unavailable when it cannot be asked, and this node has no
        copy. `others`: replace the essential settings of the cluster by those of this node, unless nodes run with others."""
        configuration = cls(folder, essential, settings, users)
        try:
            await configuration._join(open_bucket, others)
        except _AWAY as problem:
            configuration._start_alone(problem)
            configuration._joining = supervision.start(configuration._join_later(open_bucket), "joining the cluster's bucket")
        return configuration

    @property
    def settings(self) -> NodeSettings:
        return self._settings.in_force

    @property
    def users(self) -> Users | None:
        return self._users.in_force

    @property
    def settings_version(self) -> int:
        return self._settings.version

    @property
    def users_version(self) -> int:
        return self._users.version

    @property
    def changed(self) -> dict[str, Value]:
        """The settings that are not as in every release."""
        return from_text(self._settings.text, "the settings in force")

    @property
    def essential(self) -> dict[str, Value]:
        return from_text(self._essential, "the essential settings")

    @property
    def is_joined(self) -> bool:
        return self._bucket is not None

    def described(self, heartbeat: Heartbeat) -> Heartbeat:
        """A heartbeat that tells which configuration this node has."""
        return heartbeat._replace(
            configuration=self.digest, settings_version=self.settings_version, users_version=self.users_version
        )

    # --- at the start --------------------------------------------------------------------------------------------------

    async def _join(self, open_bucket: OpenBucket, others: Others | None = None) -> None:
        bucket = await open_bucket()
        await self._compare(bucket, others)
        if await self._settle(bucket, self._settings):
            self.on_settings(self.settings)
        if await self._settle(bucket, self._users) and self.users is not None:
            self.on_users(self.users)
        self._stop_watching = await bucket.watch(self._hear)
        self._bucket = bucket

    async def _compare(self, bucket: Bucket, others: Others | None) -> None:
        """Be the first to say what is essential, or say the same."""
        while True:
            entry = await bucket.get(ESSENTIAL)
            shared = _document(entry)
            if shared is None or shared.text != self._essential:
                if shared is not None:
                    await self._check_replaceable(shared, others)
                made = Document(self._essential, 1 if shared is None else shared.version + 1)
                if not await _put(bucket, ESSENTIAL, entry, made):
                    continue
                shared = made
            self._file.write(acquired(shared, {}, self._kept))
            return

    async def _check_replaceable(self, shared: Document, others: Others | None) -> None:
        """Raise the difference, unless it is to be, and no node runs with what the cluster has."""
        problem = self._different(shared.text)
        if others is None:
            raise problem
        if running := await others(self.digest):
            raise BadSetting(
                f"{problem}. They are not replaced: {', '.join(running)} run with other ones; stop them first",
                setting="essential",
            )
        log.warning("the essential settings of the cluster are replaced by those of this node: %s", problem)

    def _different(self, shared: str) -> BadSetting:
        here, there = from_text(self._essential, "here"), from_text(shared, "the essential settings of the cluster")
        told = differences(here, there)
        return BadSetting(
            f"this node differs from its cluster: {'; '.join(map(str, told))}. These settings are equal at all nodes; correct "
            "the file of the cluster at this node",
            setting=", ".join(each.key for each in told),
        )

    async def _settle(self, bucket: Bucket, mine: SharedDocument) -> bool:
        """Be in step with the cluster about a document; whether something else is in force now."""
        while True:
            entry = await bucket.get(mine.key)
            shared = _document(entry)
            copy = mine.copy(shared)
            match judge(copy, shared):
                case Judgement.NOTHING:
                    return False
                case Judgement.IN_STEP | Judgement.FETCH:
                    assert shared is not None
                    return mine.accept(shared)
                case Judgement.CONFLICT:
                    assert copy is not None and shared is not None
                    raise mine.conflict(copy, shared)
                case Judgement.OFFER:
                    assert copy is not None
                    mine.check(copy.text)
                    made = Document(copy.text, 1 if shared is None else shared.version + 1)
                    if await _put(bucket, mine.key, entry, made):
                        return mine.accept(made)

    def _start_alone(self, problem: HoldfastError) -> None:
        """Start from the copies on disk."""
        if self._kept is None:
            raise Unavailable(
                f"the configuration of the cluster cannot be asked for ({problem}), and this node has no copy of it; repeat later"
            ) from problem
        if self._kept.text != self._essential:
            raise self._different(self._kept.text)
        self._settings.use_copy()
        self._users.use_copy()
        log.warning("starts from its own copy of the configuration: %s", problem)

    async def _join_later(self, open_bucket: OpenBucket) -> None:
        while not self.is_joined:
            await asyncio.sleep(JOIN_AGAIN_S)
            try:
                await self._join(open_bucket)
            except _AWAY as problem:
                log.debug("the configuration of the cluster cannot be asked for yet: %s", problem)
            except HoldfastError as problem:
                self._fail(problem)
                return
        log.info("compared its configuration with that of the cluster: it is the same")

    # --- while it runs -------------------------------------------------------------------------------------------------

    def _hear(self, entry: Entry) -> None:
        shared = _document(entry)
        if shared is None:
            return
        if entry.key == ESSENTIAL and shared.text != self._essential:
            self._fail(self._different(shared.text))
        elif entry.key == self._settings.key and shared.version != self._settings.version:
            if self._settings.accept(shared):
                log.info("the settings of the cluster are those of version %d", shared.version)
                self.on_settings(self.settings)
        elif entry.key == self._users.key and shared.version != self._users.version:
            self._accept_users(shared)

    def _accept_users(self, shared: Document) -> None:
        if self._users.accept(shared) and self.users is not None:
            log.info("the users of the cluster are those of version %d", shared.version)
            self.on_users(self.users)

    async def change(self, key: str, text: str) -> int:
        """Change a setting at all nodes, or all users (`users`, with the text of a file); the version that has it. BadSetting for
        a value that cannot be. Unavailable: nothing was changed."""
        bucket, mine = self._joined(), self._users if key == self._users.key else self._settings
        while True:
            entry = await bucket.get(mine.key)
            shared = _document(entry) or Document("", 0)
            made = Document(text if mine is self._users else _with(shared, key, text), shared.version + 1)
            if made.text == shared.text:
                return shared.version
            mine.check(made.text)
            if await _put(bucket, mine.key, entry, made):
                self._hear(Entry(mine.key, msgspec.json.encode(_Stored(made.version, made.text)), 0))
                return made.version

    async def reload_users(self, given: GivenUsers) -> None:
        """The users file of this node was read again: what was edited there is for all nodes. BadSetting if they were changed
        elsewhere, too."""
        bucket = self._joined()
        self._users.give(given)
        if await self._settle(bucket, self._users) and self.users is not None:
            self.on_users(self.users)

    def _joined(self) -> Bucket:
        if self._bucket is None:
            raise Unavailable("the configuration of the cluster cannot be changed now: its bucket cannot be asked; repeat later")
        return self._bucket

    def _fail(self, problem: HoldfastError) -> None:
        self.failure = problem
        self.failed.set()

    def close(self) -> None:
        self._stop_watching()
        if self._joining is not None:
            self._joining.cancel()


def _with(shared: Document, key: str, text: str) -> str:
    """The settings, with one of them changed."""
    values = from_text(shared.text, f"version {shared.version} of the cluster's settings")
    name, value = key.replace("-", "_"), read_value(key, text)
    values.pop(name, None)
    return to_text(values if value is None else {**values, name: value})
