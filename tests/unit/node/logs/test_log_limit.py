"""Lines of the log that there may suddenly be many of: the first at once, the others together."""

from __future__ import annotations

import logging

import pytest

from holdfast.node.logs.log_limit import LogLimit
from holdfast.node.logs.notices import Notices, folded
from tests.waiting import until


def test_the_first_is_said_at_once_and_the_others_together_at_the_end_of_the_interval() -> None:
    limit: LogLimit[str] = LogLimit(10, 100)

    assert limit.note("a", "first", 0, 2) == ("first", 2, 0)
    assert limit.note("a", "second", 1, 3) is None
    assert limit.note("a", "third", 9.9, 4) is None
    assert limit.due(9.9) == []
    assert limit.due_s == 10
    assert limit.due(10) == [("third", 7, 0)]


def test_a_line_that_stands_for_others_begins_an_interval_of_its_own() -> None:
    limit: LogLimit[str] = LogLimit(10, 100)
    limit.note("a", "first", 0)
    limit.note("a", "second", 1)
    limit.due(10)

    assert limit.note("a", "third", 19) is None
    assert limit.due(20) == [("third", 1, 0)]


def test_a_quiet_key_is_forgotten_and_the_next_of_it_is_said_at_once() -> None:
    limit: LogLimit[str] = LogLimit(10, 100)
    limit.note("a", "first", 0)

    assert limit.due(10) == []
    assert limit.due_s is None
    assert limit.note("a", "second", 10.1) == ("second", 1, 0)


def test_keys_do_not_hold_each_other_back_but_too_many_count_as_one() -> None:
    limit: LogLimit[str] = LogLimit(10, 3)

    said = [limit.note(str(number), f"of {number}", number / 1000) for number in range(1_000)]

    assert [line.text for line in said if line is not None] == ["of 0", "of 1", "of 2", "of 3"]
    assert limit.due(11) == [("of 999", 1, 995)]


def test_what_is_folded_is_said_at_the_end() -> None:
    limit: LogLimit[str] = LogLimit(10, 100)
    limit.note("a", "first", 0)
    limit.note("a", "second", 1)
    limit.note("b", "other", 1)

    assert limit.all() == [("second", 1, 0)]
    assert limit.due_s is None


async def test_notices_are_written_at_once_or_together_and_nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log, notices = logging.getLogger("holdfast.test"), Notices(0.05)

    for number in range(100):
        notices.say(log, logging.WARNING, "full", folded(f"it is full ({number})"))
    await until(lambda: len(caplog.messages) == 2, "what was folded is said")
    notices.say(log, logging.WARNING, "full", folded("it is full again"))
    notices.stop()

    assert caplog.messages == ["it is full (0)", "it is full (99) (and 98 more like it)", "it is full again"]
