"""The line of logins: bounded in count and in bytes, oldest first (E7)."""

from __future__ import annotations

from holdfast.access.login_line import LoginLine


def test_whoever_has_waited_longest_and_may_is_next() -> None:
    line: LoginLine[str] = LoginLine()
    for attempt in ("a1", "a2", "b1"):
        assert line.join(attempt, 10)

    assert line.next(lambda attempt: attempt.startswith("b")) == "b1"
    assert line.next(lambda attempt: True) == "a1"
    assert line.next(lambda attempt: False) is None
    assert line.next(lambda attempt: True) == "a2"


def test_more_than_fit_by_count_or_by_bytes_are_turned_away_until_somebody_leaves() -> None:
    line: LoginLine[str] = LoginLine(length_max=2, bytes_max=100)
    assert line.join("a", 60)

    assert not line.join("too long", 41)
    assert line.join("b", 40)
    assert not line.join("too many", 0)

    line.leave("a")
    line.leave("a")
    assert line.join("c", 60)
    assert not line.join("d", 0)


def test_a_line_that_is_cleared_is_empty() -> None:
    line: LoginLine[str] = LoginLine(length_max=1, bytes_max=10)
    line.join("a", 10)

    line.clear()

    assert line.next(lambda attempt: True) is None
    assert line.join("b", 10)
