"""Publishing stages once: a number that its scope has published before places nothing (rule 10, D3).

    Part       held, seen by nobody, also after the session and the client that sent it are gone
    Publish    a number that is not above the scope's last is a repetition: it places nothing and lets the stages go.
               Otherwise everything is checked first: every part of every stage is here, every destination exists. Then all is
               placed, in the order of the stages and of their parts, and the scope remembers its number
    Abandon    the parts are let go: the program drops the stage, or the primary finds that nothing came for too long

A publish that fails its checks changes nothing: the stages stay, to be published later, or dropped.

Stages can be many and large, so the heads of a staged batch are not kept. The selectors of a topic are asked when it is staged,
and their answers, a bit for each event, are used when it is placed. A selector that came later cannot be asked: the batch has to
be staged again. For a destination that deduplicates, 16 bytes are kept for each event; a batch that was staged before the
destination did so is placed as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.destination import command as commands
from holdfast.destination.applying.placing import place_all
from holdfast.destination.backlog import bodies as _bodies
from holdfast.destination.batch_traits import traits_of
from holdfast.destination.state.assembly import Assembly, PartBatch
from holdfast.destination.state.cluster.transactions import Publication
from holdfast.destination.state.deduplication import bits_of, keys_of
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.receivers import user_of
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription
from holdfast.destination.state.subscription_matching import SubscriptionMatching
from holdfast.destination.state.topic import Topic
from holdfast.errors import NotPublished, ProtocolError
from holdfast.event.event import NOT_READABLE

Named = list[tuple[str, int]]  # stages: name, parts
Publishing = commands.Publish | commands.Prepare
_stages = msgspec.msgpack.Decoder(Named)
_names = msgspec.msgpack.Decoder(list[str])
encode_payload = msgspec.msgpack.Encoder().encode

# The answers for a batch for which no selector was asked; shared, never changed.
_NOT_ASKED: dict[str, int] = {}


# --- staging ---------------------------------------------------------------------------------------------------------


def part_of(state: State, entry: int, command: commands.Part, payload: memoryview) -> PartBatch | None:
    """The part of a stage that is held: without its heads."""
    if not command.destination:
        return None
    came = Batch(entry, _bodies.events_in(payload), command.destination, traits_of(payload), len(payload), heads=payload)
    keys = (
        keys_of(payload, user_of(command.session))
        if command.destination in state.deduplications and not command.is_replay
        else b""
    )
    return PartBatch(came._replace(heads=b"", unwanted=_asked(state, came), keys=keys, is_replay=not keys))


def _asked(state: State, came: Batch) -> dict[str, int]:
    selectors = list(_selecting(state, came.destination))
    if not selectors:
        return _NOT_ASKED
    matching = SubscriptionMatching(came._replace(unwanted=state.answers.get(came.entry)))
    return {each.terms.selector: matching.unwanted_by(each.selector) for each in selectors if each.selector is not None}


def _selecting(state: State, destination: str) -> Iterator[Subscription]:
    """The subscriptions with a selector that a destination fills."""
    found = state.catalog.destinations.get(destination)
    return found.selecting() if isinstance(found, Topic) else iter(())


# --- publishing ------------------------------------------------------------------------------------------------------


def publish(state: State, entry: int, command: commands.Publish, payload: memoryview, effects: Effects) -> dict[str, Any]:
    named = read_stages(payload)
    last = state.scopes.last((command.session, command.scope))
    batches = checked(state, command, named)
    publication = Publication(command.session, command.scope, command.number, tuple(named))
    events = carry_out(state, entry, publication, batches, command.at_ms, effects)
    return {"is_new": command.number > last, "events": events, "last": max(command.number, last)}


def carry_out(state: State, entry: int, publication: Publication, batches: list[Batch], at_ms: int, effects: Effects) -> int:
    """Publish stages, after all checks: how many events are placed."""
    state.scopes.use((publication.session, publication.scope), publication.number)
    state.assemblies.let_go(publication.session, *(name for name, _ in publication.stages))
    repeated = place_all(state, batches, entry, effects, at_ms)
    return sum(batch.events - bits_of(repeated.get(batch.entry, ())).bit_count() for batch in batches)


def drop(state: State, command: commands.Abandon, payload: memoryview) -> bool:
    """As `committing.abandon`, for stages: published ones are not here any more, and stay published."""
    if not state.is_outdated(command.epoch):
        state.assemblies.let_go(command.session, *dropped(command, payload))
    return True


def dropped(command: commands.Abandon, payload: memoryview) -> list[str]:
    """The names of the stages that a command drops."""
    names: list[str] = [command.assembly] if command.assembly else _read(_names, payload)
    return names


def read_stages(payload: memoryview) -> Named:
    """The stages in the payload of a command."""
    named: Named = _read(_stages, payload)
    return named


def _read(decoder: msgspec.msgpack.Decoder[Any], payload: memoryview) -> Any:
    try:
        return decoder.decode(payload)
    except NOT_READABLE as problem:
        raise ProtocolError(f"the stages that a command names cannot be read: {problem}") from problem


# --- checks ----------------------------------------------------------------------------------------------------------


def checked(state: State, command: Publishing, named: Named) -> list[Batch]:
    """All batches to be placed, in order; none for a number that was published before. NotPublished when a check fails."""
    if command.number <= state.scopes.last((command.session, command.scope)):
        return []
    if len(dict(named)) != len(named):
        raise _refused(command, "", "a stage is named twice; name each once")
    batches: list[Batch] = []
    for name, parts in named:
        stage = state.assemblies.find(command.session, name) or Assembly(command.session, name)
        _check_whole(command, stage, parts)
        batches.extend(made.batch._replace(client=command.client) for made in stage.in_order())
    _check_destinations(state, command, batches)
    return batches


def _check_whole(command: Publishing, stage: Assembly, parts: int) -> None:
    if len(stage.entries) > parts:
        why = f"{len(stage.entries)} parts of stage {stage.name!r} came, and {parts} are named; publish what sealing it gave"
        raise _refused(command, stage.name, why)
    if missing := stage.missing(parts):
        why = (
            f"part {missing} of {parts} of stage {stage.name!r} is not here: it was published, dropped, or given up because "
            "nothing came for too long; stage it again under another name"
        )
        raise _refused(command, stage.name, why)


def _check_destinations(state: State, command: Publishing, batches: list[Batch]) -> None:
    selectors: dict[str, list[str]] = {}
    for batch in batches:
        destination = batch.destination
        if destination not in selectors:
            if destination not in state.catalog.destinations or destination == state.dead.name:
                raise _refused(command, "", f"there is no destination {destination!r} to send to; create it, or drop the stages")
            selectors[destination] = [each.terms.selector for each in _selecting(state, destination)]
        if selectors[destination] and not all(asked in (batch.unwanted or _NOT_ASKED) for asked in selectors[destination]):
            why = f"a subscription of {destination!r} has a selector that came after something was staged for it; stage it again"
            raise _refused(command, "", why)


def _refused(command: Publishing, stage: str, why: str) -> NotPublished:
    return NotPublished(f"nothing was published: {why}", scope=command.scope, number=command.number, stage=stage)
