"""Requests about assemblies (rule 10): parts of transactions and large events, and stages, which are published once (D3).

    Part ──▶ checks ──▶ channel ──▶ receipt: when it is durable; of the first part of a stage, when it is applied

Everything is checked before it takes space: who may send there, how large an assembly may be, how many a session may have. The
state as applied is counted; parts on their way are few, because a session may have only so many unreceipted.

Stages are assemblies of a user, which outlive sessions: the stages of others cannot even be named. They cost a bounded part of
memory and disk, however many there are:

    parts of all stages      262,144    some 400 bytes each, and a bit an event for each selector of a topic they are bound for
    bytes of all stages      half of the journal, or `large_bytes_max`
    stages                   10,000

While space is short nothing is staged: it would lie there, and could not be freed, until somebody publishes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from holdfast.channel.channel import COMMAND_BYTES_MAX, OnOutcome, Purpose, Receipt
from holdfast.destination import command
from holdfast.destination.applying.publishing import encode_payload
from holdfast.destination.name import check_stage
from holdfast.errors import BadName, BadSetting, Blocked, Detached, HoldfastError, ProtocolError, StageExists, TooLarge
from holdfast.event import batch
from holdfast.node.administration.actions import Maker
from holdfast.node.administration.arguments import DropStages
from holdfast.node.clients.destination_checks import check_send
from holdfast.node.login.permission import check_access
from holdfast.node.message_manager_view import MessageManagerView
from holdfast.node.settings import shown_size
from holdfast.session.session import Session, owner_of, stages_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.clients.client_manager import ClientManager
    from holdfast.node.clients.manager_link import ManagerLink

NAME_LENGTH_MAX = 64
SCOPE_LENGTH_MAX = 255
NUMBER_MAX = 1 << 62
STAGES_MAX = 10_000
# The parts of all stages together.
STAGED_PARTS_MAX = 1 << 18
# Left free in a command for its head.
_NAMED_BYTES_MAX = COMMAND_BYTES_MAX - (8 << 10)


def take_part(
    manager: ClientManager,
    session: Session,
    message: frame.Part,
    body: frame.Buffer,
    told: OnOutcome,
    must_learn: Callable[[str], bool],
    must_wait: Callable[[str], bool],
) -> None:
    """Append a part, unless it is refused before it takes space; `told` hears what became of it. `must_learn` says whether its
    destination is not known here, `must_wait` whether it is being created: then it comes again."""
    target = manager.managers[session.channel]
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
            _check_stage_part(target, made, message.is_again, len(payload))
        else:
            _check_limits(target, made, len(payload))
        if made.destination:
            batch.verify(payload)
        else:
            _check_room(target)
        destination = made.destination or message.bound_for
        if destination and must_learn(destination):
            return
        if destination:
            _check_destination(manager, target, session, destination, message.kind)
            if must_wait(destination):
                return
        elif session.rights is not None and not _is_begun(target, session, made):
            raise ProtocolError("the first fragment of a large event says where it is bound for; its client is broken")
    except HoldfastError as problem:
        told(problem)
        return
    is_begun = is_staged and made.number == 1
    told = target.begun_stages.begin(made, told) if is_begun else partial(_apply_now, target, told)
    if not is_staged:
        session.begin_assembly(made.assembly)
        _introduce(manager, target, session)
    if made.destination:
        target.channel.submit(command.accepted(made, payload, manager.clock.now_us()), Purpose.EVENTS, told)
    else:  # a fragment is no event
        target.channel.submit(_as_known(made, payload, body), Purpose.FRAGMENTS, told)


def _as_known(made: command.Part, payload: frame.Buffer, body: frame.Buffer) -> frame.Buffer:
    """The command without fields that are not known here: nested deep enough, this link can read them, and the message manager
    cannot."""
    front = command.encode(made)
    return body if body[: len(front)] == front else command.encode(made, payload)


def _apply_now(target: ManagerLink, told: OnOutcome, outcome: Receipt | HoldfastError) -> None:
    """The next parts are checked against the state as applied: it must not lag."""
    target.messages.apply_now()
    told(outcome)


def _introduce(manager: ClientManager, target: ManagerLink, session: Session) -> None:
    """Parts count for a session that is known: one that comes after its end, overtaken by it, must not revive it."""
    if not session.is_introduced and not target.messages.knows_session(session.id):
        producer = manager.new_producer(owner_of(session.id))
        appended = target.append(command.OpenProducer(producer, session.id, client=session.client))
        appended.add_done_callback(lambda done: _introduced(session, done))
    session.is_introduced = True


def _introduced(session: Session, done: asyncio.Future[Receipt]) -> None:
    """Where there was no room for it, the next part tries again: otherwise every transaction of the session would be aborted."""
    if done.cancelled() or done.exception() is not None:
        session.is_introduced = False


# --- checks of a part ----------------------------------------------------------------------------------------------------


def _check_destination(
    manager: ClientManager, target: ManagerLink, session: Session, destination: str, kind: Literal["queue", "topic"]
) -> None:
    if session.rights is not None:
        check_access(session, "send", destination)
    check_send(target, destination, kind)
    if manager.flow.is_watching:
        manager.flow.check(session, command.BatchCommand(destination, "", 0))


def _check_limits(target: ManagerLink, made: command.Part, size: int) -> None:
    settings, messages = target.settings, target.messages
    known_bytes = messages.assembly_bytes(made.session, made.assembly)
    if known_bytes is None and messages.open_assemblies(made.session) >= settings.assemblies_max:
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
    total = max((known_bytes or 0) + size, announced)
    if total > settings.assembly_bytes_max:
        needed, also = shown_size(settings.journal_size_for(total)), " and raise --large-max" if settings.large_bytes_max else ""
        raise TooLarge(
            f"a transaction or large event of {total} bytes is over the limit of {settings.assembly_bytes_max} of this server; "
            f"send less at once, or give it a journal of {needed} or more (--journal-size; in a file: URL, ?journal_size=){also}",
            size=total,
            limit=settings.assembly_bytes_max,
        )


def _is_begun(target: ManagerLink, session: Session, made: command.Part) -> bool:
    """Whether an earlier part said where this assembly is bound for."""
    return made.assembly in session.assemblies or target.messages.assembly_bytes(made.session, made.assembly) is not None


def _check_room(target: ManagerLink) -> None:
    """The space set aside for events is not for large bodies, which could use it up at once."""
    pressure = target.channel.pressure
    if pressure.is_short:
        raise Blocked(f"no room for a large event: {pressure.reason or 'space is short'}; wait until some is free")


# --- stages --------------------------------------------------------------------------------------------------------------


class BegunStages:
    """Stages whose first part is on its way. Their names are taken: a part that another stages under one of them would be dropped
    as a repetition."""

    def __init__(self, messages: MessageManagerView) -> None:
        self._messages = messages
        self._begun: set[tuple[str, str]] = set()  # whose, and its name

    def is_taken(self, made: command.Part) -> bool:
        return (made.session, made.assembly) in self._begun or self._messages.has_part(made.session, made.assembly, 1)

    def begin(self, made: command.Part, told: OnOutcome) -> OnOutcome:
        """Take the name until the first part is applied; then it is receipted."""
        begun = (made.session, made.assembly)
        self._begun.add(begun)

        def tell(outcome: Receipt | HoldfastError) -> None:
            self._begun.discard(begun)
            told(outcome)

        def durable(outcome: Receipt | HoldfastError) -> None:
            if isinstance(outcome, HoldfastError):
                tell(outcome)
            else:
                self._messages.when_caught_up(partial(tell, outcome))

        return durable


def _check_stage_part(target: ManagerLink, made: command.Part, is_again: bool, size: int) -> None:
    check_stage(made.assembly)
    if not made.destination:
        raise TooLarge("a stage takes batches and no large events; send those in a transaction, or by themselves")
    messages = target.messages
    _check_room_to_stage(target, size)
    if made.number == 1 and not is_again and target.begun_stages.is_taken(made):
        raise StageExists(
            f"there is a stage {made.assembly!r} already; choose another name for each attempt, or drop it first",
            stage=made.assembly,
        )
    if messages.assembly_bytes(made.session, made.assembly) is None and messages.staged().stages >= STAGES_MAX:
        raise Blocked(f"there are {STAGES_MAX:,} stages already; publish or drop some, then try again", limit=STAGES_MAX)
    if made.number > target.settings.parts_max:
        limit = target.settings.parts_max
        raise TooLarge(f"a stage has at most {limit:,} parts here; publish what there is, and go on with another", limit=limit)


def _check_room_to_stage(target: ManagerLink, size: int) -> None:
    staged, limit = target.messages.staged(), target.settings.assembly_bytes_max
    if staged.bytes + size > limit:
        raise Blocked(
            f"{staged.bytes:,} bytes are staged and {limit:,} may be; publish or drop some, then try again, or raise the limit "
            "of the server (--large-max)",
            limit=limit,
        )
    if staged.parts >= STAGED_PARTS_MAX:
        raise Blocked(
            f"{STAGED_PARTS_MAX:,} parts are staged; publish or drop some, then try again, and stage larger batches",
            limit=STAGED_PARTS_MAX,
        )
    pressure = target.channel.pressure
    if pressure.is_short:
        raise Blocked(f"no room to stage anything: {pressure.reason or 'space is short'}; wait until some is free")


def check_publish(message: frame.Publish) -> None:
    if not 1 <= len(message.scope) <= SCOPE_LENGTH_MAX or not message.scope.isprintable():
        raise BadName(f"a scope {message.scope!r:.40} is not 1 to {SCOPE_LENGTH_MAX} printable characters; choose another")
    if not 0 <= message.number <= NUMBER_MAX:
        raise BadSetting(f"number {message.number} cannot be published; count up from 0", setting="number")
    for name, parts in message.stages:
        check_stage(name)
        if parts < 0:
            raise BadSetting(f"stage {name!r} cannot have {parts} parts; publish what sealing it gave", setting="stages")


def publish(session: Session, message: frame.Publish, now_ms: int) -> tuple[Maker, bytes]:
    """Return the maker of the command, and its payload."""
    check_publish(message)
    what = (stages_of(session.id), message.scope, message.number, session.client)
    return lambda origin, token: command.Publish(*what, origin, token, now_ms), named(message.stages)


def drop(session: Session, asked: DropStages) -> tuple[Maker, bytes]:
    """Return the maker of the command, and its payload."""
    for name in asked.names:
        check_stage(name)
    stages = stages_of(session.id)
    return lambda origin, token: command.Abandon(stages, "", 0, origin, token), named(asked.names)


def named(stages: list[Any]) -> bytes:
    """The payload of a command that names stages. TooLarge past what one command holds."""
    payload = encode_payload(stages)
    if len(stages) > STAGES_MAX or len(payload) > _NAMED_BYTES_MAX:
        raise TooLarge(
            f"{len(stages):,} stages cannot be named at once; name at most {STAGES_MAX:,}, with shorter names",
            limit=STAGES_MAX,
        )
    return payload
