"""Selector questions: which selectors a command will ask, about which batches. Asked before, in steps, they block no loop.

    command ─▶ the batches it will place in topics ─▶ their selectors ─▶ answers ─▶ apply

The answer of a selector depends on the batch alone, so it does not matter when it is asked: with the answers or without, the
state becomes the same. A command that is cheap to apply has no questions; an expensive one has all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from holdfast.destination import command as commands
from holdfast.destination.backlog import bodies as _bodies
from holdfast.destination.state.assembly import is_stage
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.state import State
from holdfast.destination.state.subscription_matching import Answers, SubscriptionMatching
from holdfast.destination.state.topic import Topic
from holdfast.errors import BadSelector, HoldfastError
from holdfast.event import batch as batches
from holdfast.event.selector.selector import Selector

# The cost that may be asked while a command is applied: a millisecond or two.
AT_ONCE_COST = 1 << 20
_PLACING = frozenset(
    each.KIND
    for each in (
        commands.BatchCommand, commands.Part, commands.Commit, commands.OpenProducer, commands.ForgetProducer, commands.Detach,
        commands.Final,
    )
)  # fmt: skip


class SelectorQuestion(NamedTuple):
    batch: Batch
    selectors: list[Selector]


def ahead_of(state: State, entry: int, data: commands.Buffer) -> list[SelectorQuestion]:
    """The questions to be asked before the command at this entry is applied; none when it is cheap."""
    if not state.catalog.has_selectors or commands.kind_of(data) not in _PLACING:
        return []
    try:
        command, payload = commands.decode(data)
        if isinstance(command, commands.BatchCommand) and not (
            _is_filtered(state, command.destination) or _held(state, command.producer)
        ):
            return []  # most batches: nobody selects where they are sent
        placed = list(_placed_by(state, entry, command, payload))
    except HoldfastError:
        return []  # applying it says what is wrong with it
    found = [SelectorQuestion(each, selectors) for each in placed if (selectors := _asked(state, each))]
    return found if _cost_much(found) else []


def of_batch(state: State, command: commands.BatchCommand, payload: commands.Buffer) -> list[SelectorQuestion]:
    """As `ahead_of`, for a batch that has no entry yet: its entry is 0."""
    if not state.catalog.has_selectors or not _is_filtered(state, command.destination):
        return []
    came = Batch(0, _bodies.events_in(memoryview(payload)), command.destination, heads=payload)
    found = [SelectorQuestion(came, selectors)] if (selectors := _asked(state, came)) else []
    return found if _cost_much(found) else []


def answered(questions: Iterable[SelectorQuestion]) -> Generator[int, None, Answers]:
    """The answers of the selectors: a generator that yields the cost of each step."""
    answers: Answers = {}
    for batch, selectors in questions:
        matching = SubscriptionMatching(batch)
        said = answers[batch.entry] = {}
        for selector in selectors:
            try:
                said[selector.text] = yield from matching.unwanted_in_steps(selector)
            except BadSelector:
                continue  # another release could read it: it is refused again when it is asked
    return answers


def _is_filtered(state: State, destination: str) -> bool:
    topic = state.catalog.destinations.get(destination)
    return isinstance(topic, Topic) and topic.is_filtered


def _asked(state: State, batch: Batch) -> list[Selector]:
    """The selectors to be asked: each once, in the order of the subscriptions, and none that was asked before."""
    topic = state.catalog.destinations.get(batch.destination)
    if not isinstance(topic, Topic) or batch.unwanted is not None:
        return []
    known = state.answers.get(batch.entry, {})
    selectors = {each.selector: None for each in topic.selecting() if each.selector is not None}
    return [each for each in selectors if each.text not in known]


def _cost_much(questions: Iterable[SelectorQuestion]) -> bool:
    cost = 0
    for batch, selectors in questions:
        try:
            read = batches.UnreadBatch(batch.heads)
        except HoldfastError:
            continue
        for selector in selectors:
            if not selector.is_ready:
                return True
            cost += selector.cost(read, batch.events)
            if cost > AT_ONCE_COST:
                return True
    return False


def _placed_by(state: State, entry: int, command: commands.Command, payload: memoryview) -> Iterator[Batch]:
    """The batches that a command may place; too many do no harm."""
    match command:
        case commands.BatchCommand():
            yield Batch(entry, _bodies.events_in(payload), command.destination, heads=payload)
            yield from _held(state, command.producer)
        case commands.OpenProducer() | commands.ForgetProducer():
            yield from _held(state, command.producer)
        case commands.Detach():
            session = state.sessions().get(command.session)
            for producer in session.producers if session is not None else ():
                yield from _held(state, producer)
        case commands.Part() if is_stage(command.session) and command.destination:
            yield Batch(entry, _bodies.events_in(payload), command.destination, heads=payload)
        case commands.Commit() | commands.Final():
            assembly = state.assemblies.find(command.session, command.assembly)
            yield from (made.batch for made in assembly.in_order()) if assembly is not None else ()


def _held(state: State, identifier: str) -> list[Batch]:
    producer = state.producers.find(identifier)
    return list(producer.held.values()) if producer is not None else []
