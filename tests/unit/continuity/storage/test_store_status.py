"""How a file store is, from what its places say."""

from __future__ import annotations

import pytest

from holdfast.continuity.storage.store_status import level, summary


@pytest.mark.parametrize(
    ("current", "places_min", "found"),
    [(0, 1, "stopped"), (1, 1, "least"), (2, 1, "safe"), (1, 2, "reading"), (2, 2, "least"), (3, 2, "safe"), (0, 2, "stopped")],
)
def test_the_level_says_what_may_fail(current: int, places_min: int, found: str) -> None:
    assert level(current, places_min) == found


def test_a_place_that_says_nothing_is_silent_and_counts_for_nothing() -> None:
    told = {"a": {"name": "a", "state": "current", "number": 7, "files": 3}}

    found = summary("files", 2, ["a", "b", "c"], told, dropped=["a", "c"])

    assert (found["level"], found["number"], found["current"]) == ("reading", 7, 1)
    assert [(each["place"], each["state"], each["files"]) for each in found["places"]] == [
        ("a", "current", 3),
        ("b", "silent", 0),
        ("c", "dropped", 0),
    ]
