"""The catalog of a place: what was applied is there at a start, loose digests are known, a copy makes another place equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.continuity.storage.place import catalog as catalogs
from holdfast.continuity.storage.place.catalog import Catalog, Held, Numbered
from holdfast.continuity.storage.write import Delete, Move, Put, Write


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def put(name: str, text: str) -> Put:
    return Put(name, digest(text), len(text))


class Writing:
    """Applies writes to catalogs, numbering them; positions are ten times the number."""

    def __init__(self, *catalogs: Catalog) -> None:
        self.catalogs = catalogs
        self.number = 0

    def __call__(self, *told: Write | None) -> None:
        first = self.number + 1
        events = [Numbered(first + place, (first + place) * 10, 1_000 + place, each) for place, each in enumerate(told)]
        for each in self.catalogs:
            each.apply(events, [], now_us=5_000)
        self.number += len(told)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(tmp_path / "one.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(tmp_path / "other.sqlite")
    yield opened
    opened.close()


def entries(catalog: Catalog) -> dict[str, object]:
    return dict(catalog.page("", "", 1_000))


def test_what_was_applied_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    first = Catalog(tmp_path / "c.sqlite")
    Writing(first)(put("a", "1"), put("b/c", "2"), None)
    wanted, identity = entries(first), first.fact("identity")
    first.close()

    second = Catalog(tmp_path / "c.sqlite")

    assert (entries(second), second.number, second.fact("identity")) == (wanted, 3, identity)
    outcome, none = second.outcome(10), second.outcome(15)
    assert (outcome.kind if outcome else "", none) == ("created", None)
    second.close()


def test_a_digest_is_loose_while_no_entry_names_it(catalog: Catalog) -> None:
    write = Writing(catalog)
    catalog.intend([digest("1"), digest("2")], now_us=1)
    write(put("a", "1"), put("b", "1"))
    assert catalog.loose_since(10, 9) == [digest("2")]

    write(put("a", "3"))
    assert catalog.loose_since(10_000, 9) == [digest("2")]  # b names it still
    write(Delete("b"))

    assert set(catalog.loose_since(10_000, 9)) == {digest("1"), digest("2")}
    assert catalog.loose_since(4_999, 9) == [digest("2")]  # the other is loose since the delete


def test_a_move_leaves_nothing_loose(catalog: Catalog) -> None:
    Writing(catalog)(put("a", "1"), Move("a", "b"))

    assert list(entries(catalog)) == ["b"]
    assert catalog.counts() == {"files": 1, "loose": 0, "lacking": 1}
    catalog.hold([Held(digest("1"), 1, b"")])
    assert catalog.counts()["lacking"] == 0


@pytest.mark.parametrize("have", [0, 1, 3])
def test_a_copy_makes_another_place_equal_from_wherever_it_was(catalog: Catalog, other: Catalog, have: int) -> None:
    told: list[Write | None] = [put("a", "1"), put("b", "2"), put("c", "3"), Delete("a"), put("b", "4"), Move("c", "d"), None]
    Writing(catalog)(*told)
    if have:
        Writing(other)(*told[:have])

    other.take_copy(list(catalog.copied(other.number, 70)), passing_until=70, now_us=9)

    assert entries(other) == entries(catalog)
    assert (other.number, other.passing_until) == (7, 70)
    assert other.outcome(70) == catalog.outcome(70)


def test_a_copy_is_whole_where_deletions_are_not_remembered(
    catalog: Catalog, other: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "KEPT", 2)
    monkeypatch.setattr(catalogs, "TRIMMED_EVERY", 1)
    Writing(other)(put("a", "1"), put("b", "2"))
    write = Writing(catalog)
    for each in (put("a", "1"), put("b", "2"), Delete("a"), put("c", "3"), put("d", "4"), put("e", "5"), put("f", "6")):
        write(each)

    lines = list(catalog.copied(other.number, 70))
    other.take_copy(lines, passing_until=70, now_us=9)

    assert not any(line.startswith(b'["gone"') for line in lines)
    assert entries(other) == entries(catalog)


def test_a_copy_that_breaks_off_or_does_not_reach_back_to_the_join_changes_nothing(catalog: Catalog, other: Catalog) -> None:
    Writing(catalog)(put("a", "1"), put("b", "2"))
    broken = list(catalog.copied(0, 20))[:-1]
    unreached = list(catalog.copied(0, 99))

    for lines in (broken, unreached):
        with pytest.raises(ValueError, match="not whole"):
            other.take_copy(lines, passing_until=20, now_us=9)

    assert (entries(other), other.number, other.passing_until) == ({}, 0, None)


def test_pages_follow_each_other_and_a_prefix_is_taken_literally(catalog: Catalog) -> None:
    names = ["a", "a%b", "a/1", "a/2", "a_b", "é/x", "\U0001f600"]
    Writing(catalog)(*(put(name, "1") for name in names))

    found, after = list[str](), ""
    while page := catalog.page("", after, 2):
        found += [name for name, _ in page]
        after = found[-1]

    assert found == sorted(names)
    assert [name for name, _ in catalog.page("a/", "", 9)] == ["a/1", "a/2"]
    assert [name for name, _ in catalog.page("a%", "", 9)] == ["a%b"]
