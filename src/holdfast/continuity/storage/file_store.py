"""A file store, as a program uses it: put, find, read, list, delete and move files at all of its places. A front is this behind
HTTP.

    async with FileStore("holdfast://host", "files") as store:
        await store.put("reports/may.csv", b"…")
        entry = await store.find("reports/may.csv")
        async for chunk in store.read(entry): …

A write goes to all places, through the topic; its answer is the first. A read asks all current places, and takes the first that
is not behind `store.number`, the newest write that this program has seen. Raises NotTaken when nothing was done; NotAnswered
when a write was sent and nobody told its outcome; NoSuchFile; FileDiffers when a condition does not hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from holdfast.client.client import Client, connect
from holdfast.continuity.errors import FileDiffers, NoSuchFile, NotAnswered, NotTaken
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage import write as writes
from holdfast.continuity.storage.machines.decision import Entry, Outcome
from holdfast.continuity.storage.machines.race import Race
from holdfast.continuity.storage.place_link import Answer, LinkBroken, PlaceLinks
from holdfast.continuity.storage.places import Places
from holdfast.continuity.storage.staging import staged
from holdfast.continuity.storage.write import Condition, Delete, Move, Put, Write, checked_file, checked_new_file
from holdfast.errors import HoldfastError, OutcomeUnknown

log = logging.getLogger("holdfast.continuity")

# Whoever opens a store waits so long until enough places are current.
READY_SECONDS = 3.0
OUTCOME_SECONDS = 30.0
LOOK_SECONDS = 5.0
# A write waits so long for places that are behind: they go stale with three seconds of work, and more on a busy machine.
CATCH_UP_SECONDS = 15.0
# Up to so much is checked as a whole before the first byte of it is given.
CHECKED_WHOLE = 1 << 20
PAGE = 1_000
# Places that may still answer a question that another has answered.
LATE_MAX = 256


class FileCut(Exception):
    """The bytes that were given are not the whole file, and no place can go on."""


class FileStore:
    """Use it as `async with`, in one loop."""

    def __init__(self, url: str, name: str, *, tls: ssl.SSLContext | None = None, password: str | None = None) -> None:
        """`tls`: for links to places."""
        self._url, self._name, self._password = url, name, password
        self._links = PlaceLinks(tls)
        self._turn = 0
        self._late: set[asyncio.Task[Any]] = set()

    async def open(self) -> Self:
        """Read the definition, and hear of the places."""
        self.client: Client = await connect(self._url, password=self._password, name=f"front-{self._name}").open()
        try:
            self.definition = await register.read(self.client, self._name)
            self.places = Places(self.client, self.definition)
            self._hearing = asyncio.create_task(self.places.run())
            await self.places.until_current(self.definition.places_min, READY_SECONDS)
        except BaseException:
            await self.client.close()
            raise
        return self

    async def close(self) -> None:
        for task in (self._hearing, *self._late):
            task.cancel()
        await asyncio.gather(self._hearing, *self._late, return_exceptions=True)
        self._links.close()
        await self.client.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def failed(self) -> None:
        """Return, with the problem raised, when the store hears of its places no more."""
        await asyncio.wait([self._hearing])
        self._hearing.result()

    @property
    def number(self) -> int:
        """The newest write that this program has seen: no read is older."""
        return self.places.known.number

    def reach(self, number: int) -> None:
        """Another program has seen this write: no read may be older."""
        self.places.known.reach(number)

    # --- writing --------------------------------------------------------------------------------------------------------

    async def put(
        self,
        name: str,
        content: bytes | AsyncIterator[bytes],
        *,
        content_type: str = "",
        if_match: Condition = (),
        if_none_match: Condition = (),
    ) -> Outcome:
        """Give a name these bytes, whole or not at all. A large content is staged at places, and never in memory as a whole."""
        checked_new_file(name)
        await self._until_places()
        small, rest = await _first_bytes(content, self.definition.small_bytes)
        if rest is None:
            put = Put(name, hashlib.sha256(small).hexdigest(), len(small), small, content_type, if_match, if_none_match)
        else:
            digest, size = await self._stage(small, rest)
            put = Put(name, digest, size, None, content_type, if_match, if_none_match)
        return await self._write(put)

    async def delete(self, name: str, *, if_match: Condition = ()) -> Outcome:
        """Delete a file. NoSuchFile if there is none."""
        return await self._write(Delete(checked_file(name), if_match))

    async def move(self, name: str, to: str, *, if_match: Condition = (), if_none_match: Condition = ()) -> Outcome:
        """Give a file another name; a file of that name is replaced."""
        return await self._write(Move(checked_file(name), checked_new_file(to), if_match, if_none_match))

    async def _until_places(self) -> None:
        """Refuse a write while too few places are current, before anything is sent. Wait for those that are only behind: a place
        that is slower than the writers has them wait, not fail."""
        current, needed = len(self.places.current()), self.definition.places_min
        if current < needed and self.places.is_catching_up(needed):
            await self.places.until_current(needed, CATCH_UP_SECONDS)
            current = len(self.places.current())
        if current < needed:
            raise NotTaken(f"{current} of {needed} places of file store {self._name!r} are current; nothing was written")

    async def _stage(self, begun: bytes, rest: AsyncIterator[bytes]) -> tuple[str, int]:
        self._turn += 1
        now = asyncio.get_running_loop().time()
        places = self.places.known.staged_at(self.definition.places_min, now, self._turn)
        return await staged(self._links, places, self.definition.places_min, begun, rest, self.places.fail)

    async def _write(self, write: Write) -> Outcome:
        await self._until_places()
        try:
            receipt = await self.client.topic(self.definition.writes).send(
                writes.encode(write), type=writes.WRITE, datacontenttype="application/msgpack"
            )
        except OutcomeUnknown as problem:
            raise NotAnswered(504, "the write may have been accepted", problem.id or "", "") from problem
        except HoldfastError as problem:
            raise NotTaken(f"Holdfast did not take the write: {problem}") from problem
        try:
            async with asyncio.timeout(OUTCOME_SECONDS):
                told = await self._outcome(receipt.position)
        except (TimeoutError, NotTaken) as problem:
            raise NotAnswered(504, "the write is accepted and will be done; no place has told yet", receipt.id, "") from problem
        outcome = msgspec.convert(told, Outcome)
        self.reach(outcome.number)
        if outcome.kind == "missing":
            raise NoSuchFile(f"there is no file {write.name!r} in file store {self._name!r}", name=write.name)
        if outcome.kind == "differs":
            raise FileDiffers(f"file {write.name!r} is another than the condition says; nothing was changed", name=write.name)
        return outcome

    async def _outcome(self, position: int) -> Any:
        """What became of a write: asked of all current places, until one tells."""
        while True:
            try:
                _, told = await self._ask(f"/outcome/{position}?wait={OUTCOME_SECONDS:.0f}", 0, OUTCOME_SECONDS)
                return told
            except NotTaken:  # those who were asked are gone; others may come
                await self.places.until_current(1, OUTCOME_SECONDS)

    # --- reading --------------------------------------------------------------------------------------------------------

    async def find(self, name: str) -> Entry:
        """What a name stands for, as of the newest write that is known here. NoSuchFile."""
        status, told = await self._ask(f"/entry/{quote(checked_file(name))}?number={self.number}", self.number, LOOK_SECONDS)
        if status == 404:
            raise NoSuchFile(f"there is no file {name!r} in file store {self._name!r}", name=name)
        return msgspec.convert(told["entry"], Entry)

    async def page(self, prefix: str = "", after: str = "", limit: int = PAGE) -> list[tuple[str, Entry]]:
        """Files by name: those that begin with `prefix` and come after `after`, at most PAGE of them."""
        target = f"/list?prefix={quote(prefix, safe='')}&after={quote(after, safe='')}&limit={limit}&number={self.number}"
        _, told = await self._ask(target, self.number, LOOK_SECONDS)
        return msgspec.convert(told["entries"], list[tuple[str, Entry]])

    async def read(self, entry: Entry, begin: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of a file, or a stretch of them, from whoever gives them first. A whole file is checked by its digest; its
        last bytes are given only if it is right. FileCut if nobody can go on; NotTaken if nobody can begin."""
        end = entry.size if end is None else min(end, entry.size)
        race = Race([each.name for each in self.places.current()])
        if begin == 0 and end == entry.size <= CHECKED_WHOLE:
            yield await self._whole(entry, race)
            return
        digest = hashlib.sha256() if begin == 0 and end == entry.size else None
        async for chunk in self._stretch(entry, begin, end, race):
            begin += len(chunk)
            if digest is not None:
                digest.update(chunk)
                if begin == end and digest.hexdigest() != entry.digest:
                    raise FileCut(f"the bytes of {entry.digest[:12]} are not those that were written")
            yield chunk

    async def _whole(self, entry: Entry, race: Race) -> bytes:
        """A file that is small enough to be checked as a whole."""
        while True:
            found = b"".join([chunk async for chunk in self._stretch(entry, 0, entry.size, race)])
            if hashlib.sha256(found).hexdigest() == entry.digest:
                return found
            log.warning("place %s gave other bytes than those of %s", race.winner, entry.digest[:12])
            race.fail(race.winner)

    async def _stretch(self, entry: Entry, begin: int, end: int, race: Race) -> AsyncIterator[bytes]:
        """Bytes from the winner of a race, and on from the winner of the next if it breaks off."""
        first = begin
        while begin < end:
            try:
                answer = await self._open_bytes(f"/objects/{entry.digest}?begin={begin}&end={end}", race)
            except NotTaken as problem:
                if begin == first:
                    raise
                raise FileCut(f"no place can go on from byte {begin:,}") from problem
            try:
                async for chunk in answer.chunks():
                    begin += len(chunk)
                    yield chunk
            except LinkBroken as problem:
                log.info("place %s broke off at byte %d, others go on: %s", race.winner, begin, problem)
                self.places.fail(race.winner)
                race.fail(race.winner)
            finally:
                self._links.give_back(answer)

    # --- asking ---------------------------------------------------------------------------------------------------------

    async def _ask(self, target: str, number: int, seconds: float) -> tuple[int, Any]:
        """Ask all current places at once; the first valid answer, 200 or 404. NotTaken if nobody has one."""
        places = {each.name: each.address for each in self.places.current()}
        race = Race(places, number)
        asked = {asyncio.create_task(self._links.json(places[each], target, timeout=seconds)): each for each in places}
        while asked:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                name = asked.pop(task)
                status, told = self._answered(task, name, race)
                if status in (200, 404) and race.answer(name, told["number"]) == "win":
                    self._let_finish(asked)
                    return status, told
        raise NotTaken(f"no place of file store {self._name!r} can answer; repeat it")

    def _answered(self, task: asyncio.Task[tuple[int, Any]], name: str, race: Race) -> tuple[int, Any]:
        try:
            status, told = task.result()
        except LinkBroken as problem:
            log.info("place %s did not answer: %s", name, problem)
            self.places.fail(name)
            status, told = 0, None
        if status not in (200, 404):
            race.decline(name)
        return status, told

    def _let_finish(self, asked: dict[asyncio.Task[tuple[int, Any]], str]) -> None:
        """Those who come late finish: their connections are used again. One that does not answer ends with its time-out."""
        for task, name in asked.items():
            if len(self._late) >= LATE_MAX:
                task.cancel()
            self._late.add(task)
            task.add_done_callback(lambda done, name=name: self._came_late(done, name))  # type: ignore[misc]

    def _came_late(self, task: asyncio.Task[tuple[int, Any]], name: str) -> None:
        self._late.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.places.fail(name)

    async def _open_bytes(self, target: str, race: Race) -> Answer:
        """Ask all places of a race for bytes; the first whose answer begins."""
        addresses = {each.name: each.address for each in self.places.current()}
        for name in race.runners:
            if name not in addresses:
                race.decline(name)
        asked = {asyncio.create_task(self._links.begin(addresses[name], target, LOOK_SECONDS)): name for name in race.runners}
        try:
            while asked:
                done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    name = asked.pop(task)
                    try:
                        answer = task.result()
                    except LinkBroken:
                        self.places.fail(name)
                        race.decline(name)
                        continue
                    if answer.status == 200 and race.answer(name, 0) == "win":
                        return answer
                    race.decline(name)
                    self._links.give_back(answer)
            raise NotTaken(f"no place of file store {self._name!r} can give these bytes; repeat it")
        finally:
            for task in asked:
                task.cancel()
                task.add_done_callback(self._drop)

    def _drop(self, task: asyncio.Task[Answer]) -> None:
        """An answer that nobody waits for any more."""
        if not task.cancelled() and task.exception() is None:
            self._links.give_back(task.result())


async def _first_bytes(
    content: bytes | AsyncIterator[bytes], size_max: int
) -> tuple[bytes, AsyncIterator[bytes] | None]:  # fmt: skip
    """The whole content, if it is small; else its first bytes, and the rest."""
    if isinstance(content, bytes):
        return (content, None) if len(content) <= size_max else (content, _nothing())
    begun = bytearray()
    async for chunk in content:
        begun += chunk
        if len(begun) > size_max:
            return bytes(begun), content
    return bytes(begun), None


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield
