"""D1: what a power cut leaves of a checkpoint, and how a query can be started from it again."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake")

from holdfast.spark.checkpoint import mend_checkpoint

OFFSETS = b'v1\n{"batchWatermarkMs":0}\n{"plant": ["7c1e:48", 65536]}'
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


def checkpoint(folder: Path, **files: bytes) -> Path:
    """With files like offsets_3 and commits_2; each with a checksum beside it, as Spark writes them."""
    for name, data in files.items():
        place = folder / name.replace("_", "/")
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        (place.parent / f".{place.name}.crc").write_bytes(b"crc\0")
    return folder


def found(folder: Path) -> set[str]:
    """What Spark would look at."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {name for name in names if not Path(name).name.startswith(("_", "."))}


def test_a_checkpoint_that_is_whole_is_left_as_it_is(tmp_path: Path) -> None:
    checkpoint(tmp_path, metadata=b'{"id":"7c1e"}', offsets_0=OFFSETS, offsets_1=OFFSETS, commits_0=COMMIT)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert mend_checkpoint(str(tmp_path)) == []

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("torn", [b"", b"\0" * 300, OFFSETS[:-9], b"v1\n{"])
def test_torn_offsets_of_a_batch_that_was_not_committed_are_set_aside_and_it_is_planned_again(
    tmp_path: Path, torn: bytes
) -> None:
    checkpoint(tmp_path, metadata=b'{"id":"7c1e"}', offsets_8=OFFSETS, offsets_9=torn, commits_8=COMMIT)

    assert mend_checkpoint(tmp_path.as_uri()) == ["offsets/9"]

    assert found(tmp_path) == {"metadata", "offsets/8", "commits/8"}
    assert (tmp_path / "offsets/_torn.9").read_bytes() == torn
    assert not (tmp_path / "offsets/.9.crc").exists()
    assert mend_checkpoint(str(tmp_path)) == []


def test_a_torn_commit_is_set_aside_and_its_batch_comes_again(tmp_path: Path) -> None:
    checkpoint(tmp_path, offsets_9=OFFSETS, offsets_10=OFFSETS, commits_9=COMMIT, commits_10=b"")

    assert mend_checkpoint(str(tmp_path)) == ["commits/10"]

    assert found(tmp_path) == {"offsets/9", "offsets/10", "commits/9"}


def test_a_torn_commit_and_the_torn_offsets_after_it_are_both_set_aside(tmp_path: Path) -> None:
    checkpoint(tmp_path, offsets_0=OFFSETS, offsets_1=b"", commits_0=b"")

    assert mend_checkpoint(str(tmp_path)) == ["commits/0", "offsets/1"]

    assert found(tmp_path) == {"offsets/0"}


def test_offsets_that_are_torn_although_their_batch_is_committed_are_damage_and_are_left_alone(tmp_path: Path) -> None:
    checkpoint(tmp_path, offsets_0=OFFSETS, offsets_1=b"", commits_0=COMMIT, commits_1=COMMIT)

    assert mend_checkpoint(str(tmp_path)) == []

    assert "offsets/1" in found(tmp_path)


def test_a_query_whose_first_plan_was_not_on_disk_begins_anew(tmp_path: Path) -> None:
    checkpoint(tmp_path, metadata=b"", offsets_0=b"")

    assert mend_checkpoint(str(tmp_path)) == ["offsets/0", "metadata"]

    assert found(tmp_path) == set()


def test_a_torn_metadata_beside_whole_offsets_is_damage_and_is_left_alone(tmp_path: Path) -> None:
    checkpoint(tmp_path, metadata=b"", offsets_0=OFFSETS)

    assert mend_checkpoint(str(tmp_path)) == []


@pytest.mark.parametrize("place", ["hdfs://name/checkpoint", "s3a://bucket/checkpoint", "/nowhere/at/all"])
def test_a_checkpoint_that_is_not_here_is_not_looked_at(place: str) -> None:
    assert mend_checkpoint(place) == []
