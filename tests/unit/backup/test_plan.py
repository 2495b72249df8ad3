"""What a backup copies: what changed since the one before, by number, generation, life and bytes (E8)."""

from __future__ import annotations

from holdfast.backup.manifest import CopiedSegment
from holdfast.backup.plan import planned

OLDEST, MIDDLE, TAIL = CopiedSegment(3, 17, 0xA, 8192), CopiedSegment(7, 18, 0xB, 8192), CopiedSegment(4, 19, 0xC, 2048)


def copied(segment: CopiedSegment, checksum: int) -> CopiedSegment:
    return CopiedSegment(*segment.key, checksum)


def test_a_first_backup_copies_everything_e8() -> None:
    plan = planned((OLDEST, MIDDLE, TAIL), ())

    assert plan.bytes == 8192 + 8192 + 2048
    assert plan == ((OLDEST, MIDDLE, TAIL), ())


def test_a_segment_that_is_there_is_kept_with_the_checksum_of_its_copy_e8() -> None:
    there = (copied(OLDEST, 1), copied(MIDDLE, 2))

    assert planned((OLDEST, MIDDLE, TAIL), there) == ((TAIL,), there)


def test_a_segment_that_has_grown_is_copied_again_under_another_name_e8() -> None:
    grown = CopiedSegment(4, 19, 0xC, 4096)

    plan = planned((grown,), (copied(TAIL, 3),))

    assert plan.copied == (grown,)
    assert grown.file != TAIL.file


def test_a_segment_that_was_used_again_is_another_one_even_if_its_generation_is_the_same_e8() -> None:
    """A generation may be given again after a crash, and after a restore; the life is drawn at random."""
    again = CopiedSegment(3, 17, 0xD, 8192)

    assert planned((again,), (copied(OLDEST, 1),)).copied == (again,)
    assert again.file != OLDEST.file
