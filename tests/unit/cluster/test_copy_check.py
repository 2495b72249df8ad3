"""The judgement of copies by their digests."""

from __future__ import annotations

from itertools import product

from holdfast.cluster.copy_check import REMEMBERED_MAX, Digests, judged

A, B, C = "a", "b", "c"


def test_a_copy_remembers_the_digests_of_the_newest_checks() -> None:
    digests = Digests()
    for entry in range(1, REMEMBERED_MAX + 2):
        digests.note(entry, f"digest {entry}")

    assert digests.at(1) is None
    assert digests.at(2) == "digest 2"
    assert digests.at(REMEMBERED_MAX + 1) == f"digest {REMEMBERED_MAX + 1}"


def test_equal_copies_differ_from_nobody() -> None:
    assert judged({A: "x", B: "x"}, A) == ("x", [], [])
    assert judged({A: "x"}, None) == ("x", [], [])
    assert judged({}, None) == (None, [], [])


def test_of_two_the_backup_is_wrong() -> None:
    assert judged({A: "x", B: "y"}, A) == ("x", [B], [B])
    assert judged({A: "x", B: "y"}, B) == ("y", [A], [A])


def test_without_the_primary_nobody_is_opened_anew() -> None:
    assert judged({A: "x", B: "y"}, None) == (None, [A, B], [])
    assert judged({A: "x", B: "y", C: "y"}, None) == ("y", [A], [])


def test_a_primary_that_differs_from_most_is_named_and_nothing_is_opened_anew() -> None:
    assert judged({A: "x", B: "y", C: "y"}, A) == ("y", [A], [])
    assert judged({A: "x", B: "y", C: "z"}, A) == ("x", [B, C], [B, C])


def test_of_any_digests_only_backups_that_differ_from_their_primary_are_opened_anew() -> None:
    for told in product("xyz", repeat=4):
        digests = dict(zip("abcd", told, strict=True))
        for primary in (None, *digests):
            found = judged(digests, primary)

            assert found.differing == [node for node, digest in digests.items() if digest != found.digest]
            assert bool(found.differing) == (len(set(told)) > 1)
            if primary is None or primary in found.differing:
                assert found.wrong_backups == []
            else:
                assert found.wrong_backups == found.differing and primary not in found.wrong_backups
