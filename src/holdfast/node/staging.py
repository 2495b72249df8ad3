"""What a client manager does for stages: assemblies of a user, which outlive sessions, and are published once (D3).

Everything is checked before it takes space. Stages belong to a user: what others have staged cannot even be named. However many
there are, they cost a bounded part of memory and disk:

    parts of all stages      262,144    some 400 bytes each, and a bit an event for each selector of a topic they are bound for
    bytes of all stages      half of the journal, or `large_bytes_max`
    stages                   10,000

While space is short nothing is staged: it would lie there, and could not be freed, until somebody publishes it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.channel.channel import COMMAND_BYTES_MAX, Receipt, Told
from holdfast.destination import command
from holdfast.destination.name import check_stage
from holdfast.destination.publishing import encode_payload
from holdfast.errors import BadName, BadSetting, Blocked, HoldfastError, StageExists, TooLarge
from holdfast.node.actions import Maker
from holdfast.session.session import Session, stages_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

SCOPE_LENGTH_MAX = 255
NUMBER_MAX = 1 << 62
STAGES_MAX = 10_000
# Of all stages together.
PARTS_MAX = 1 << 18
# Left free in a command for its head.
_NAMED_BYTES_MAX = COMMAND_BYTES_MAX - (8 << 10)


def check_part(manager: ClientManager, made: command.Part, is_again: bool, size: int) -> None:
    """HoldfastError when this part of a stage is not to be taken."""
    check_stage(made.assembly)
    if not made.destination:
        raise TooLarge("a stage takes batches and no large events; send those in a transaction, or by themselves")
    _check_room(manager, size)
    assemblies = manager.messages.directory.assemblies
    known = assemblies.find(made.session, made.assembly)
    is_taken = (known is not None and known.has(1)) or (made.session, made.assembly) in manager.stages_begun
    if made.number == 1 and not is_again and is_taken:
        raise StageExists(
            f"there is a stage {made.assembly!r} already; choose another name for each attempt, or drop it first",
            stage=made.assembly,
        )
    if known is None and assemblies.staged.stages >= STAGES_MAX:
        raise Blocked(f"there are {STAGES_MAX:,} stages already; publish or drop some, then try again", limit=STAGES_MAX)
    if made.number > manager.settings.parts_max:
        limit = manager.settings.parts_max
        raise TooLarge(f"a stage has at most {limit:,} parts here; publish what there is, and go on with another", limit=limit)


def told_when_begun(manager: ClientManager, made: command.Part, told: Told) -> Told:
    """The first part is receipted when it is applied. Until then its name is taken: what another stages under it would be dropped
    as a repetition."""
    begun = (made.session, made.assembly)
    manager.stages_begun.add(begun)

    def tell(outcome: Receipt | HoldfastError) -> None:
        manager.stages_begun.discard(begun)
        told(outcome)

    def durable(outcome: Receipt | HoldfastError) -> None:
        if isinstance(outcome, HoldfastError):
            tell(outcome)
        else:
            manager.messages.when_caught_up(partial(tell, outcome))

    return durable


def _check_room(manager: ClientManager, size: int) -> None:
    staged, limit = manager.messages.directory.assemblies.staged, manager.settings.assembly_bytes_max
    if staged.bytes + size > limit:
        raise Blocked(
            f"{staged.bytes:,} bytes are staged and {limit:,} may be; publish or drop some, then try again, or raise the limit "
            "of the server (--large-max)",
            limit=limit,
        )
    if staged.parts >= PARTS_MAX:
        raise Blocked(
            f"{PARTS_MAX:,} parts are staged; publish or drop some, then try again, and stage larger batches", limit=PARTS_MAX
        )
    pressure = manager.channel.pressure
    if pressure.is_short:
        raise Blocked(f"no room to stage anything: {pressure.reason or 'space is short'}; wait until some is free")


def publish(session: Session, message: frame.Publish) -> tuple[Maker, bytes]:
    """What makes the command, and its payload."""
    if not 1 <= len(message.scope) <= SCOPE_LENGTH_MAX or not message.scope.isprintable():
        raise BadName(f"a scope {message.scope!r:.40} is not 1 to {SCOPE_LENGTH_MAX} printable characters; choose another")
    if not 0 <= message.number <= NUMBER_MAX:
        raise BadSetting(f"number {message.number} cannot be published; count up from 0", setting="number")
    for name, parts in message.stages:
        check_stage(name)
        if parts < 0:
            raise BadSetting(f"stage {name!r} cannot have {parts} parts; publish what sealing it gave", setting="stages")
    what = (stages_of(session.id), message.scope, message.number, session.client)
    return lambda origin, token: command.Publish(*what, origin, token), _named(message.stages)


def drop(session: Session, given: dict[str, Any]) -> tuple[Maker, bytes]:
    """What makes the command, and its payload."""
    names = given.get("names")
    if not isinstance(names, list):
        raise BadSetting("names must be given, as a list of the names of stages", setting="names")
    for name in names:
        check_stage(name)
    stages = stages_of(session.id)
    return lambda origin, token: command.Abandon(stages, "", 0, origin, token), _named(names)


def _named(stages: list[Any]) -> bytes:
    payload = encode_payload(stages)
    if len(stages) > STAGES_MAX or len(payload) > _NAMED_BYTES_MAX:
        raise TooLarge(
            f"{len(stages):,} stages cannot be named at once; name at most {STAGES_MAX:,}, with shorter names",
            limit=STAGES_MAX,
        )
    return payload
