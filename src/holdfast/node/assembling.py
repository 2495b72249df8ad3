"""What a client manager does for assemblies (rule 10): parts and commits in, fragments of large events out.

Everything is checked before it takes space: who may send there, how large an assembly may be, how many a session may have. What
is counted is the state as applied; parts on their way are few, because a session may have only so many unreceipted.

Fragments are read for one link one after the other, the next only when the link has taken the one before: however much a client
asks for, no more than a few wait here, and small events go between them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from holdfast.channel.channel import Purpose, Receipt, Told
from holdfast.destination import command
from holdfast.errors import Blocked, Closed, Detached, HoldfastError, ProtocolError, TooLarge
from holdfast.event import batch
from holdfast.node import staging
from holdfast.node.permission import check_access
from holdfast.node.sending import check_send
from holdfast.session.session import Session, owner_of, stages_of
from holdfast.wire import frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

NAME_LENGTH_MAX = 64

Reply = Callable[[frame.Message, frame.Buffer], None]


def take_part(manager: ClientManager, session: Session, message: frame.Part, body: frame.Buffer, told: Told) -> None:
    """Append a part, unless it is refused before it takes space; `told` hears what became of it."""
    made, payload = command.decode(body)
    if not isinstance(made, command.Part):
        raise ProtocolError(f"a Part frame carries a {type(made).__name__} command instead of a part")
    is_staged = made.session == stages_of(session.id)
    is_own = is_staged or (made.session == session.id and 1 <= len(made.assembly) <= NAME_LENGTH_MAX)
    if not is_own or made.number < 1:
        raise ProtocolError("a part belongs to an assembly of its own session and is numbered from 1; its client is broken")
    try:
        if session.is_closing:
            raise Detached("the session is being closed; nothing more is sent in it")
        if is_staged:
            staging.check_part(manager, made, message.is_again, len(payload))
        else:
            _check_limits(manager, made, len(payload))
        if made.destination:
            batch.verify(payload)
        else:
            _check_room(manager)
        if destination := made.destination or message.bound_for:
            _check_destination(manager, session, destination, message.kind)
    except HoldfastError as problem:
        told(problem)
        return
    is_begun = is_staged and made.number == 1
    told = staging.told_when_begun(manager, made, told) if is_begun else partial(_hurry, manager, told)
    if not is_staged:
        _introduce(manager, session)
    if made.destination:
        manager.channel.submit(command.accepted(made, payload, manager.clock.now_us()), Purpose.EVENTS, told)
    else:  # a fragment is no event
        manager.channel.submit(body, Purpose.FRAGMENTS, told)


def _hurry(manager: ClientManager, told: Told, outcome: Receipt | HoldfastError) -> None:
    """The next parts are checked against the state as applied: it must not lag."""
    manager.messages.hurry()
    told(outcome)


def _introduce(manager: ClientManager, session: Session) -> None:
    """Parts count for a session that is known: one that comes after its end, overtaken by it, must not revive it."""
    if not session.is_introduced and session.id not in manager.messages.directory.sessions():
        producer = manager.new_producer(owner_of(session.id))
        appended = manager.append(command.OpenProducer(producer, session.id, client=session.client))
        appended.add_done_callback(lambda done: _introduced(session, done))
    session.is_introduced = True


def _introduced(session: Session, done: asyncio.Future[Receipt]) -> None:
    """Where there was no room for it, the next part tries again: otherwise every transaction of the session would be aborted."""
    if done.cancelled() or done.exception() is not None:
        session.is_introduced = False


def _check_destination(manager: ClientManager, session: Session, destination: str, kind: Literal["queue", "topic"]) -> None:
    if session.rights is not None:
        check_access(session, "send", destination)
    check_send(manager, destination, kind)
    if manager.sending.is_watching:
        manager.sending.check(session, command.BatchCommand(destination, "", 0))


def _check_limits(manager: ClientManager, made: command.Part, size: int) -> None:
    settings, assemblies = manager.settings, manager.messages.directory.assemblies
    known = assemblies.find(made.session, made.assembly)
    if known is None and assemblies.open_of(made.session) >= settings.assemblies_max:
        raise TooLarge(
            f"this session has {settings.assemblies_max} transactions and large events under way; finish some first",
            limit=settings.assemblies_max,
        )
    if made.number > settings.parts_max:
        raise TooLarge(
            f"a transaction or large event has at most {settings.parts_max} parts here; send less at once",
            limit=settings.parts_max,
        )
    announced = made.large_bytes if not made.destination else 0
    total = max((known.bytes if known is not None else 0) + size, announced)
    if total > settings.assembly_bytes_max:
        raise TooLarge(
            f"a transaction or large event of {total} bytes is over the limit of {settings.assembly_bytes_max} of this server; "
            "send less at once, or raise its limit (--large-max)",
            size=total,
            limit=settings.assembly_bytes_max,
        )


def _check_room(manager: ClientManager) -> None:
    """What is set aside for events when space is short is not for bodies that could use it up at once."""
    pressure = manager.channel.pressure
    if pressure.is_short:
        raise Blocked(f"no room for a large event: {pressure.reason or 'space is short'}; wait until some is free")


class FragmentReader:
    """Reads fragments for one link."""

    def __init__(self, manager: ClientManager, link: Link) -> None:
        self._manager = manager
        self._link = link
        self._waiting: deque[tuple[Session, frame.ReadFragment, Reply]] = deque()
        self._reading: asyncio.Task[None] | None = None

    def ask(self, session: Session, message: frame.ReadFragment, reply: Reply) -> None:
        self._waiting.append((session, message, reply))
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all(), name="fragments")

    async def _read_all(self) -> None:
        while self._waiting:
            await self._link.drained()
            session, message, reply = self._waiting.popleft()
            try:
                found = await self._read(session, message)
            except Closed:
                return
            except HoldfastError as problem:
                reply(frame.Failed.of(message.token, problem), b"")
            else:
                reply(frame.Fragment(message.token), found)

    async def _read(self, session: Session, message: frame.ReadFragment) -> frame.Buffer:
        directory, channel = self._manager.messages.directory, self._manager.channel
        entry = directory.fragment(session.id, message.receiver, message.position, message.index)
        (found,) = channel.recent([entry], 1) or await channel.fetch([entry])
        return directory.batch_in(found, entry)

    def stop(self) -> None:
        """The link is lost: nobody waits."""
        self._waiting.clear()
        if self._reading is not None:
            self._reading.cancel()
