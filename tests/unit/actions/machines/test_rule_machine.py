"""Alerts are a function of events and their times: not of when somebody looked, and not of crashes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.alert import alert_of
from holdfast.actions.machines import state_log
from holdfast.actions.machines.condition import Absence, Change, Condition, Count, Every, Silence
from holdfast.actions.machines.gathering import Gathering
from holdfast.actions.machines.rule_machine import RuleMachine, Terms, Told
from holdfast.actions.machines.seen import Seen
from holdfast.actions.machines.state_log import Record, StateLog
from holdfast.actions.machines.template import Template

END_US = 1_000


def _quiet(at_us: int) -> int | None:
    """Quiet from 100 to 150, and so on."""
    return at_us - at_us % 100 + 50 if at_us >= 100 and at_us % 100 < 50 else None


CONDITIONS: list[Condition] = [Every(), Count(3, 40), Absence(30), Absence(30, ("a", "z")), Change("state"), Silence(25)]
GATHERINGS = [
    Gathering(),
    Gathering(gather_us=20),
    Gathering(cooldown_us=50),
    Gathering(gather_us=10, cooldown_us=60),
    Gathering(gather_us=10, quiet_until=_quiet),
    Gathering(cooldown_us=30, is_held=False, quiet_until=_quiet),
]
TERMS = st.builds(
    Terms,
    name=st.just("rule"),
    condition=st.sampled_from(CONDITIONS),
    key=st.sampled_from(["", "host"]),
    group=st.sampled_from(["", "site"]),
    gathering=st.sampled_from(GATHERINGS),
    keys_max=st.sampled_from([2, 100]),
)


@st.composite
def events(draw: st.DrawFn) -> list[Seen]:
    """Events in the order of acceptance, some at the same time."""
    at_us, made = 1, []
    for position in range(draw(st.integers(0, 25))):
        at_us += draw(st.integers(0, 30))
        properties = {
            "host": draw(st.sampled_from("abc")),
            "site": draw(st.sampled_from("xy")),
            "state": draw(st.sampled_from(["up", "down"])),
        }
        made.append(Seen(at_us=at_us, position=position + 1, properties=properties))
    return made


def told_by(terms: Terms, seen: Sequence[Seen]) -> list[Told]:
    machine = RuleMachine(terms, 1)
    told = [each for event in seen for each in machine.event(event)]
    return told + machine.advance(END_US)


@given(TERMS, events(), st.data())
def test_it_does_not_matter_how_often_and_when_time_is_told(terms: Terms, seen: list[Seen], data: st.DataObject) -> None:
    machine, told = RuleMachine(terms, 1), []
    for number, event in enumerate(seen):
        before_us = seen[number - 1].at_us if number else 1
        for at_us in sorted(data.draw(st.lists(st.integers(before_us, event.at_us), max_size=3))):
            told += machine.advance(at_us)
        told += machine.event(event)
    last_us = seen[-1].at_us if seen else 1
    for at_us in sorted(data.draw(st.lists(st.integers(last_us, END_US), max_size=3))):
        told += machine.advance(at_us)
    told += machine.advance(END_US)

    assert told == told_by(terms, seen)


@given(TERMS, events(), st.data())
def test_a_crash_after_any_transaction_changes_no_alert(terms: Terms, seen: list[Seen], data: st.DataObject) -> None:
    """A run keeps a record of each transaction, and begins again from the records now and then."""
    records: list[bytes] = []
    told: list[Told] = []
    machine, log = RuleMachine(terms, 1), StateLog(terms.condition)
    steps: list[Seen | int] = [*seen, END_US]
    while steps:
        run = steps[: data.draw(st.integers(1, 4))]
        if data.draw(st.booleans()):  # it is killed in the middle: what it did is not there
            RuleMachine(terms, 1, log.kept())
        else:
            for step in run:
                told += machine.advance(step) if isinstance(step, int) else machine.event(step)
            for written in log.next(machine):
                records = [written.body] if written.is_whole else [*records, written.body]
            steps = steps[len(run) :]
        if data.draw(st.booleans()):
            log = StateLog(terms.condition, [state_log.decode(body) for body in records])
            machine = RuleMachine(terms, log.since_us or 1, log.kept())

    assert told == told_by(terms, seen)


@given(TERMS, events())
def test_every_alert_has_an_id_of_its_own(terms: Terms, seen: list[Seen]) -> None:
    told = told_by(terms, seen)

    assert len({each.id for each in told}) == len(told)


@given(events(), st.integers(1, 4), st.integers(1, 60))
def test_a_count_holds_when_so_many_came_within_the_time_since_it_held_last(seen: list[Seen], count: int, within_us: int) -> None:
    told = told_by(Terms(name="rule", condition=Count(count, within_us), key="host", group="host"), seen)

    expected, since = [], dict.fromkeys("abc", -1)
    for place, event in enumerate(seen):
        host = event.properties["host"]
        near = [
            other
            for number, other in enumerate(seen[: place + 1])
            if number > since[host] and other.properties["host"] == host and other.at_us > event.at_us - within_us
        ]
        if len(near) >= count:
            expected.append((event.at_us, host))
            since[host] = place
    assert [(each.due.at_us, each.group) for each in told] == expected


@given(events(), st.integers(1, 60))
def test_an_absence_holds_once_for_each_gap_that_is_long_enough(seen: list[Seen], after_us: int) -> None:
    told = told_by(Terms(name="rule", condition=Absence(after_us), key="host", group=""), seen)

    expected = []
    for host in "abc":
        times = [event.at_us for event in seen if event.properties["host"] == host]
        ends = [*times[1:], END_US][: len(times)]
        expected += [(time + after_us, host) for time, end in zip(times, ends, strict=True) if time + after_us <= end]
    assert sorted((each.due.at_us, each.due.keys[0]) for each in told) == sorted(expected)


@given(events(), st.integers(1, 60))
def test_silence_holds_for_the_first_event_and_after_each_gap(seen: list[Seen], after_us: int) -> None:
    told = told_by(Terms(name="rule", condition=Silence(after_us)), seen)

    times = [event.at_us for event in seen]
    expected = [time for place, time in enumerate(times) if not place or time - times[place - 1] >= after_us]
    assert [each.due.at_us for each in told] == expected


def test_a_change_of_state_holds_for_the_values_that_are_meant() -> None:
    condition = Change("state", after=("down",))
    states = ["down", "up", "down", "down", "up", "odd", "down"]
    seen = [Seen(at_us=place, position=place, properties={"state": state}) for place, state in enumerate(states, 1)]

    told = told_by(Terms(name="rule", condition=condition), seen)

    assert [each.due.at_us for each in told] == [3, 7]
    assert told[0].due.reason == "state went from 'up' to 'down'"


def test_three_hundred_disks_are_one_alert() -> None:
    terms = Terms(name="disk", key="host", gathering=Gathering(gather_us=30_000_000, cooldown_us=3_600_000_000))
    seen = [Seen(at_us=1_000 * place, position=place, properties={"host": f"host-{place}"}) for place in range(1, 301)]

    machine = RuleMachine(terms, 1)
    told = [each for event in seen for each in machine.event(event)] + machine.advance(10**12)

    (one,) = told
    assert (len(one.due.keys), one.due.count, len(one.due.examples)) == (300, 300, 3)


def test_what_comes_during_the_cooldown_is_counted_and_told_with_the_next_alert() -> None:
    terms = Terms(name="rule", gathering=Gathering(cooldown_us=50))
    seen = [Seen(at_us=at_us, position=at_us) for at_us in (1, 10, 20, 51, 60)]

    told = told_by(terms, seen)

    assert [(each.due.at_us, each.due.suppressed) for each in told] == [(1, 0), (51, 2)]


def test_what_comes_in_quiet_hours_is_held_until_they_end_as_one_alert() -> None:
    terms = Terms(name="rule", key="host", gathering=Gathering(quiet_until=_quiet))
    seen = [Seen(at_us=at_us, position=at_us, properties={"host": str(at_us)}) for at_us in (90, 110, 120, 149, 160)]

    told = told_by(terms, seen)

    assert [(each.due.at_us, each.due.keys) for each in told] == [(90, ["90"]), (150, ["110", "120", "149"]), (160, ["160"])]


def test_an_urgent_event_does_not_make_others_absent_that_were_accepted_before_it() -> None:
    terms = Terms(name="rule", condition=Absence(30), key="host")
    machine = RuleMachine(terms, 1)
    machine.event(Seen(at_us=10, position=1, properties={"host": "a"}))

    urgent = machine.event(Seen(at_us=60, position=3, priority=9, properties={"host": "b"}))
    late = machine.event(Seen(at_us=35, position=2, properties={"host": "a"}))

    assert urgent + late == []
    assert [each.due.at_us for each in machine.advance(70)] == [65]


def test_past_the_limit_the_key_that_was_used_longest_ago_is_forgotten() -> None:
    machine = RuleMachine(Terms(name="rule", condition=Count(2, 1_000), key="host", keys_max=2), 1)
    for place, host in enumerate(["a", "b", "a", "c", "d"], 1):
        machine.event(Seen(at_us=place, position=place, properties={"host": host}))

    assert list(machine.keys) == ["c", "d"]


@pytest.mark.parametrize("keys", [10, 1_000])
def test_a_record_of_changes_is_as_large_as_the_changes(keys: int) -> None:
    terms = Terms(name="rule", condition=Count(100, 10**9), key="host")
    machine, log = RuleMachine(terms, 1), StateLog(terms.condition)
    for place in range(keys):
        machine.event(Seen(at_us=place + 1, position=place + 1, properties={"host": f"host-{place}"}))
    (whole,) = log.next(machine)

    machine.event(Seen(at_us=keys + 1, position=keys + 1, properties={"host": "host-3"}))
    (change,) = log.next(machine)

    assert whole.is_whole and len(whole.body) > 15 * keys
    assert not change.is_whole and len(change.body) < 200


def test_records_are_bounded_however_many_changes_there_are() -> None:
    terms = Terms(name="rule", condition=Count(10**6, 10**12), key="host", keys_max=50)
    machine, log = RuleMachine(terms, 1), StateLog(terms.condition)
    waiting = most = 0
    for place in range(2_000):
        machine.event(Seen(at_us=place + 1, position=place + 1, properties={"host": f"host-{place % 70}"}))
        (written,) = log.next(machine)
        waiting = 1 if written.is_whole else waiting + 1
        most = max(most, waiting)

    assert most <= state_log.CHANGES_MAX + 1


def test_a_state_larger_than_an_event_is_kept_in_several_records() -> None:
    terms = Terms(name="rule", condition=Count(100, 10**9), key="host", keys_max=20_000)
    machine, log = RuleMachine(terms, 1), StateLog(terms.condition)
    for place in range(15_000):
        machine.event(Seen(at_us=place + 1, position=place + 1, properties={"host": f"host-{place}-{'x' * 60}"}))

    written = log.next(machine)

    assert [each.is_whole for each in written] == [True] + [False] * (len(written) - 1)
    assert 3 <= len(written) < 20 and max(len(each.body) for each in written) < state_log.RECORD_BYTES_MAX + 1_000
    kept = StateLog(terms.condition, [state_log.decode(each.body) for each in reversed(written)]).kept()
    assert kept is not None and list(kept.keys.items()) == list(machine.keys.items())


def test_an_event_of_any_size_is_an_example_of_bounded_size() -> None:
    huge = {
        "type": "t" * 10**6,
        "subject": "s" * 10**6,
        "properties": {"p": "x" * 10**6, "host": "h" * 10**6},
        "data": ["d" * 10**6],
    }
    machine = RuleMachine(Terms(name="rule", key="host", group="subject", gathering=Gathering(gather_us=5)), 1)

    told = machine.event(Seen(at_us=1, position=1, **huge)) + machine.advance(100)  # type: ignore[arg-type]

    (one,) = told
    assert len(msgspec.json.encode(one)) < 20_000
    assert one.due.examples[0]["data_left_out"] and one.due.examples[0]["properties_left_out"]


def test_data_that_is_nested_too_deep_to_be_written_is_left_out_and_counts_all_the_same() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    machine = RuleMachine(Terms(name="rule", key="data.deep", condition=Count(2, 100), gathering=Gathering(cooldown_us=5)), 1)

    told = [each for at_us in (1, 2) for each in machine.event(Seen(at_us=at_us, position=at_us, data={"deep": deep}))]

    (one,) = told
    assert one.due.keys == ["…"] and one.due.examples[0]["data_left_out"]
    assert msgspec.json.encode(one)


def test_another_condition_forgets_keys_and_keeps_what_was_gathered() -> None:
    terms = Terms(name="rule", condition=Count(2, 100), key="host", gathering=Gathering(gather_us=50))
    machine, log = RuleMachine(terms, 1), StateLog(terms.condition)
    for place, host in enumerate(["a", "a", "b"], 1):
        machine.event(Seen(at_us=place, position=place, properties={"host": host}))
    (written,) = log.next(machine)

    changed = msgspec.structs.replace(terms, condition=Silence(10))
    kept = StateLog(changed.condition, [state_log.decode(written.body)]).kept()
    machine = RuleMachine(changed, 1, kept)

    assert dict(machine.keys) == {}
    assert [each.due.keys for each in machine.advance(100)] == [["a"]]


def test_the_newest_whole_record_counts_with_the_changes_after_it() -> None:
    records = [
        Record(3, "silence", 1, 30, keys={"c": [30]}),
        Record(1, "silence", 1, 10, True, keys={"a": [10]}),
        Record(2, "silence", 1, 20, True, keys={"b": [20]}),
    ]

    log = StateLog(Silence(5), records)

    kept = log.kept()
    assert kept is not None and kept.keys == {"b": [20], "c": [30]} and kept.now_us == 30
    assert log.version == 3


def test_an_event_that_an_urgent_one_has_overtaken_is_told_too() -> None:
    machine = RuleMachine(Terms(name="rule"))
    urgent, overtaken = Seen(at_us=100, position=2, priority=9), Seen(at_us=50, position=1)

    told = [*machine.event(urgent), *machine.event(overtaken)]

    assert [each.due.cause for each in told] == [2, 1]


@pytest.mark.parametrize("condition", [Absence(30), Silence(30)])
def test_an_event_that_an_urgent_one_has_overtaken_is_not_the_newest(condition: Condition) -> None:
    machine = RuleMachine(Terms(name="rule", condition=condition))
    machine.event(Seen(at_us=100, position=2, priority=9))

    told = machine.event(Seen(at_us=50, position=1))

    told += machine.advance(129)
    told += machine.event(Seen(at_us=129, position=3))
    assert all(each.due.at_us == 30 for each in told), "nothing was absent, and nothing silent, after 100"


@pytest.mark.parametrize("letter", ["x", "\x01", "\U0001f525"])
def test_an_alert_fits_an_event_whatever_the_keys_are(letter: str) -> None:
    terms = Terms(name="rule", key="host", gathering=Gathering(gather_us=10_000, examples_max=20))
    machine, log = RuleMachine(terms), StateLog(terms.condition)
    for number in range(1_500):
        properties = {"host": f"{number:08d}{letter * 190}", "more": letter * 1_000}
        machine.event(Seen(at_us=1 + number, position=number + 1, properties=properties))

    records = log.next(machine)
    (told,) = machine.advance(20_000)
    alert = alert_of(told, "program", "rule", "warning", Template("{keys} {keys} {keys} {keys} {keys} {keys}"))

    assert all(len(record.body) < 1_000_000 for record in records)
    assert len(msgspec.json.encode(alert)) < 1_000_000
    assert told.due.count == 1_500
    assert len(told.due.keys) > 100
