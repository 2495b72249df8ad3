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
    named = _read(_stages, payload)
    scope = (command.session, command.scope)
    if command.number <= (last := state.scopes.last(scope)):
        state.scopes.use(scope, command.number)
        state.assemblies.let_go(command.session, *(name for name, _ in named))
        return {"is_new": False, "events": 0, "last": last}
    batches = _checked(state, command, named)
    state.scopes.use(scope, command.number)
    state.assemblies.let_go(command.session, *(name for name, _ in named))
    repeated = place_all(state, batches, entry, effects, command.at_ms)
    events = sum(batch.events - bits_of(repeated.get(batch.entry, ())).bit_count() for batch in batches)
    return {"is_new": True, "events": events, "last": command.number}


def drop(state: State, command: commands.Abandon, payload: memoryview) -> bool:
    """As `committing.abandon`, for stages: published ones are not here any more, and stay published."""
    names = [command.assembly] if command.assembly else _read(_names, payload)
    if not state.is_outdated(command.epoch):
        state.assemblies.let_go(command.session, *names)
    return True


def _read(decoder: msgspec.msgpack.Decoder[Any], payload: memoryview) -> Any:
    try:
        return decoder.decode(payload)
    except NOT_READABLE as problem:
        raise ProtocolError(f"the stages that a command names cannot be read: {problem}") from problem


# --- checks ----------------------------------------------------------------------------------------------------------


def _checked(state: State, command: commands.Publish, named: Named) -> list[Batch]:
    """All batches to be placed, in order; NotPublished when one fails its checks."""
    if len(dict(named)) != len(named):
        raise _refused(command, "", "a stage is named twice; name each once")
    batches: list[Batch] = []
    for name, parts in named:
        stage = state.assemblies.find(command.session, name) or Assembly(command.session, name)
        _check_whole(command, stage, parts)
        batches.extend(made.batch._replace(client=command.client) for made in stage.in_order())
    _check_destinations(state, command, batches)
    return batches


def _check_whole(command: commands.Publish, stage: Assembly, parts: int) -> None:
    if len(stage.entries) > parts:
        why = f"{len(stage.entries)} parts of stage {stage.name!r} came, and {parts} are named; publish what sealing it gave"
        raise _refused(command, stage.name, why)
    if missing := stage.missing(parts):
        why = (
            f"part {missing} of {parts} of stage {stage.name!r} is not here: it was published, dropped, or given up because "
            "nothing came for too long; stage it again under another name"
        )
        raise _refused(command, stage.name, why)


def _check_destinations(state: State, command: commands.Publish, batches: list[Batch]) -> None:
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


def _refused(command: commands.Publish, stage: str, why: str) -> NotPublished:
    return NotPublished(f"nothing was published: {why}", scope=command.scope, number=command.number, stage=stage)
