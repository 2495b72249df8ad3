"""A file store as a file system of fsspec (C11), embedded: for plain programs, pyarrow and whatever takes a URL."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.continuity.storage.file_system import StoreFileSystem
from holdfast.continuity.storage.serving import embedded
from tests.server_process import SMALL_QUERY

BODY = random.Random(3).randbytes(3_000_000)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    fsspec.register_implementation("holdfast+store", StoreFileSystem, clobber=True)
    places = {each: str(folder / each) for each in "ab"}
    with embedded(f"file:{folder}/events{SMALL_QUERY}", "files", places) as front:
        yield front


@pytest.fixture
def files(address: str) -> StoreFileSystem:
    return StoreFileSystem(address)


def test_the_file_system_is_known_to_fsspec_by_an_entry_point() -> None:
    told = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())

    points = told["project"]["entry-points"]["fsspec.specs"]

    assert {name: resolve_name(each) for name, each in points.items()} == {StoreFileSystem.protocol: StoreFileSystem}


def test_files_are_written_read_listed_moved_and_removed(files: StoreFileSystem, tmp_path: Path) -> None:
    with files.open("one/a.bin", "wb") as file:
        file.write(BODY[:2_000_000])
        file.write(BODY[2_000_000:])
    files.pipe("one/two/b", b"small")
    (tmp_path / "c").write_bytes(b"from a file")
    files.put(str(tmp_path / "c"), "one/c")

    assert files.ls("one", detail=False) == ["one/a.bin", "one/c", "one/two"]
    assert files.find("one") == ["one/a.bin", "one/c", "one/two/b"]
    assert (files.isdir("one"), files.isdir("none"), files.exists("one/c"), files.size("one/a.bin")) == (
        True,
        False,
        True,
        len(BODY),
    )
    assert files.cat("one/a.bin") == BODY
    assert files.cat_file("one/a.bin", -5) == BODY[-5:]
    assert files.cat_file("one/a.bin", 10, 20) == BODY[10:20]
    with files.open("one/a.bin") as file:
        file.seek(2_500_000)
        assert file.read(7) == BODY[2_500_000:2_500_007]
    files.get("one/a.bin", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == BODY

    files.mv("one/a.bin", "moved")
    files.cp_file("moved", "copied")
    assert not files.exists("one/a.bin")
    assert files.info("moved")["digest"] == files.info("copied")["digest"] == files.ukey("moved")
    files.rm("one", recursive=True)
    assert files.find("one") == []
    with pytest.raises(FileNotFoundError):
        files.cat("one/c")
    with pytest.raises(FileNotFoundError):
        files.rm_file("one/c")


def test_a_file_is_seen_when_it_is_closed_and_not_if_its_writer_fails(files: StoreFileSystem) -> None:
    with files.open("late", "wb") as file:
        file.write(b"1")
        assert not files.exists("late")
    assert files.exists("late")

    with pytest.raises(RuntimeError, match="on purpose"), files.open("never", "wb") as file:
        file.write(b"1")
        raise RuntimeError("on purpose")
    assert not files.exists("never")


def test_a_file_that_is_overwritten_while_it_is_read_is_never_mixed(files: StoreFileSystem) -> None:
    files.pipe("mixed", b"1" * 1_000_000)
    with files.open("mixed", block_size=1_000, cache_type="none") as file:
        assert file.read(10) == b"1" * 10
        files.pipe("mixed", b"2" * 1_000_000)
        with pytest.raises(FileExistsError):
            file.read(10)


def test_creating_exclusively_finds_out_that_another_was_first(files: StoreFileSystem) -> None:
    with files.open("mine", "xb") as file:
        file.write(b"1")

    with pytest.raises(FileExistsError), files.open("mine", "xb") as file:
        file.write(b"2")
    assert files.cat("mine") == b"1"


def test_pyarrow_writes_and_reads_tables_and_a_url_is_enough(files: StoreFileSystem, address: str) -> None:
    table = pa.table({"number": list(range(10_000)), "text": ["x"] * 10_000})

    pq.write_to_dataset(table, "lake/t", filesystem=files)
    pq.write_table(table, "lake/one.parquet", filesystem=files)

    assert pq.read_table("lake/t", filesystem=files).num_rows == 10_000
    assert pq.read_table("lake/one.parquet", filesystem=files, columns=["number"]).column("number").to_pylist()[-1] == 9_999
    with fsspec.open(f"holdfast+store://{address}/lake/one.parquet") as file:
        assert pq.read_metadata(file).num_rows == 10_000
