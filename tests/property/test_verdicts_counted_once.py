"""Verdicts of recipients that believe to hold the same events, against a naive twin: the first on each event counts, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.destination import command as commands
from holdfast.destination.applying.verdict import NOT_KNOWN
from holdfast.destination.directory import Directory
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.machines import Manager

KINDS = ("confirm", "release", "reject")
WHO = ("ann", "bob")


class Said(NamedTuple):
    command: commands.Confirm | commands.Release | commands.Reject
    taken: set[int]  # what it took effect on
    about: set[int]


steps = st.lists(
    st.tuples(
        st.sampled_from(("say", "say", "say", "again", "again", "restart")),
        st.sampled_from(WHO),
        st.sampled_from(KINDS),
        st.sets(st.integers(0, 11), min_size=1),
        st.integers(0, 20),
    ),
    max_size=40,
)


def verdict(kind: str, session: str, where: Ranges, number: int) -> commands.Confirm | commands.Release | commands.Reject:
    ranges, which = where.to_bytes(), (1, number, where.count)
    if kind == "confirm":
        return commands.Confirm("q", "", session, ranges, 0, "", 0, 0, which)
    if kind == "release":
        return commands.Release("q", "", session, ranges, 0, True, "", 0, 0, which)
    return commands.Reject("q", "", session, ranges, "no", "", 0, 0, "", which)


def told(answer: Any, about: set[int]) -> set[int]:
    """What a verdict took effect on, as its recipient hears it."""
    if not isinstance(answer, tuple):
        return about
    return {each for first, last in Ranges.from_bytes(answer[0]) for each in range(first, last + 1)}


@given(steps)
def test_every_recipient_is_told_exactly_what_its_verdict_took_effect_on(
    steps: Sequence[tuple[str, str, str, set[int], int]],
) -> None:
    manager = Manager()
    manager.ask(commands.Create("q", "queue"))
    for session in WHO:
        manager.ask(commands.Attach(session, 1, "q"))
    entries = [manager.send("q", 4) for _ in range(3)]
    events = [position.of(entry, index) for entry in entries for index in range(4)]
    finished: set[int] = set()
    counted = dict.fromkeys(events, 0)
    history: dict[str, list[Said]] = {session: [] for session in WHO}

    for step, session, kind, chosen, back in steps:
        if step == "restart":
            manager.directory = Directory.restore(list(manager.directory.snapshot()))
        elif step == "say":
            about = {events[index] for index in chosen}
            taken = about - finished
            made = verdict(kind, session, Ranges.gather((each, each) for each in about), len(history[session]) + 1)

            assert told(manager.ask(made), about) == taken

            history[session].append(Said(made, taken, about))
            if kind == "release":
                counted.update({each: counted[each] + 1 for each in taken})
            else:
                finished |= taken
        elif history[session]:
            said = history[session][-1 - back % len(history[session])]
            before = manager.directory.digest()

            answer = manager.ask(said.command)

            assert manager.directory.digest() == before
            if said.taken == said.about:
                assert told(answer, said.about) == said.about
            else:
                assert answer == NOT_KNOWN

    assert manager.waiting("q") == sorted(set(events) - finished)
    backlog = manager.directory.backlog(("q", ""))
    assert all(backlog.deliveries(each) == counted[each] for each in events if each not in finished)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_ranges_without_others_are_those_positions_that_the_others_have_not(these: set[int], others: set[int]) -> None:
    made = Ranges.gather((each, each) for each in these).without(Ranges.gather((each, each) for each in others))

    assert made == Ranges.gather((each, each) for each in these - others)
    assert made.count == len(these - others)
