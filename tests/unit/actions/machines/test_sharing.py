"""Rules share subscriptions, and a change of rules misses no event and counts none twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.machines.sharing import Placed, Source, Table, is_own, plan, settled, source_of, type_condition
from holdfast.event.pattern import Pattern
from holdfast.event.selector.selector import parse_optional

TICK = "actions.n.tick"


def test_a_plain_topic_is_read_by_its_name_and_several_by_one_expression() -> None:
    assert source_of(("a",), "", "", "", False, TICK) == Source("name", "a")
    assert source_of(("a.*",), "", "", "", False, TICK) == Source("glob", "a.*")
    assert source_of((), "jobs", "", "n > 1", False, TICK) == Source("queue", "jobs", "(n > 1)")

    both = source_of(("b.>", "a"), "", "", "", False, TICK)
    assert both == source_of(("a", "b.>", "a"), "", "", "", False, TICK)
    pattern = Pattern.regex(both.pattern)
    assert [name for name in ("a", "b.c.d", "b", "ab", TICK) if pattern.matches(name)] == ["a", "b.c.d"]


def test_a_timed_source_hears_ticks_whatever_its_selector_says() -> None:
    made = source_of(("a.*",), "", "disk.*", "n > 1", True, TICK)

    pattern = Pattern.regex(made.pattern)
    assert [name for name in ("a.b", TICK, "actionsxnxtick", "b") if pattern.matches(name)] == ["a.b", TICK]
    assert made.selector == "((type LIKE 'disk.%' ESCAPE '!') AND (n > 1)) OR type = 'holdfast.actions.tick'"
    assert parse_optional(made.selector) is not None


def test_ticks_do_not_travel_through_queues_and_the_log() -> None:
    queue = source_of((), "jobs", "", "", True, TICK)
    log = source_of(("_LOG",), "", "", "level = 'ERROR'", True, TICK)

    assert (queue.match, queue.hears_ticks, queue.selector) == ("queue", False, "")
    assert (log.match, log.pattern, log.hears_ticks, log.selector) == ("name", "_LOG", False, "(level = 'ERROR')")
    assert source_of(("a",), "", "", "", True, TICK).hears_ticks
    assert not source_of(("a",), "", "", "", False, TICK).hears_ticks


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("", ""),
        ("*", ""),
        ("disk", "type = 'disk'"),
        ("it's", "type = 'it''s'"),
        ("a_b%!*", "type LIKE 'a!_b!%!!%' ESCAPE '!'"),
        ("a?", "type LIKE 'a_' ESCAPE '!'"),
    ],
)
def test_a_glob_of_types_is_a_selector(glob: str, expected: str) -> None:
    assert type_condition(glob) == expected


SOURCES = [Source("name", name) for name in "xyz"]
NAMES = ["one", "two", "three"]
RULES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(SOURCES), min_size=1)


@given(st.lists(RULES, min_size=1, max_size=6), st.data())
def test_every_event_counts_once_for_each_rule_through_all_changes(changes: list[dict[str, Source]], data: st.DataObject) -> None:
    """All topics get the same events here: a rule that moves from one to another must count each of them once."""
    table, time_us = Table(), 0
    counted: dict[str, list[int]] = {name: [] for name in NAMES}
    there_since: dict[str, int] = {}
    backlog: dict[str, list[int]] = {}

    def pass_time() -> None:
        nonlocal time_us
        for _ in range(data.draw(st.integers(0, 3))):
            time_us += data.draw(st.integers(1, 2))
            for waiting in backlog.values():
                waiting.append(time_us)

    for wanted in changes:
        moving = plan(table, wanted, dict.fromkeys(wanted, ()))
        for source in wanted.values():
            backlog.setdefault(source.id, [])
        pass_time()
        if moving is None:
            assert {name: placed.source for name, placed in table.rules.items()} == {
                name: source.id for name, source in wanted.items()
            }
            continue
        time_us += 1
        boundary_us = time_us
        for name in list(there_since):
            if name not in wanted:
                del there_since[name]
                counted[name] = []
        for name in wanted:
            there_since.setdefault(name, boundary_us)
        pass_time()
        for left in {placed.before for placed in moving.rules.values() if placed.before}:
            early = [at_us for at_us in backlog[left] if at_us < boundary_us]
            backlog[left] = [at_us for at_us in backlog[left] if at_us >= boundary_us]
            for name, placed in moving.rules.items():
                counted[name] += [at_us for at_us in early if is_own(placed, left, at_us, boundary_us)]
        for retired in moving.retired:
            del backlog[retired]
        table = settled(moving, boundary_us)
        assert table.sources.keys() == backlog.keys()
        pass_time()
        for place, waiting in backlog.items():
            read = data.draw(st.integers(0, len(waiting)))
            for name, placed in table.rules.items():
                counted[name] += [at_us for at_us in waiting[:read] if is_own(placed, place, at_us, 0)]
            del waiting[:read]

    every: set[int] = set()
    for place, waiting in backlog.items():
        for name, placed in table.rules.items():
            counted[name] += [at_us for at_us in waiting if is_own(placed, place, at_us, 0)]
            every.update(waiting)
    for name, since_us in there_since.items():
        assert sorted(counted[name]) == sorted(set(counted[name]))
        assert {at_us for at_us in every if at_us >= since_us} <= set(counted[name])
        assert all(at_us >= since_us for at_us in counted[name])


def test_the_plan_is_none_when_nothing_changes_and_names_what_is_left_behind() -> None:
    x, y = SOURCES[:2]
    first = plan(Table(), {"one": x, "two": x}, {"one": ["s1", "a1"], "two": ["a2"]})
    assert first is not None
    table = settled(first, 100)

    assert table.rules["one"] == Placed(x.id, 100, ("s1", "a1"))
    assert plan(table, {"one": x, "two": x}, {"one": ["s1", "a1"], "two": ["a2"]}) is None

    moving = plan(table, {"one": y}, {"one": ["s1", "b1"]})
    assert moving is not None
    assert (moving.retired, moving.removed) == ([x.id], ["a1", "a2"])
    assert moving.rules["one"] == Placed(y.id, 0, ("s1", "b1"), x.id, 100)
    assert settled(moving, 200).rules["one"] == Placed(y.id, 200, ("s1", "b1"))
