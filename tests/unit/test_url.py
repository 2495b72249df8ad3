"""URLs: where a client finds its events."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.client.url import FileUrl, MemoryUrl, ServerUrl, parse
from holdfast.errors import BadSetting, BadUrl


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:events", FileUrl("events")),
        ("file:./a b", FileUrl("./a b")),
        ("file:/var/events", FileUrl("/var/events")),
        ("file:///var/events", FileUrl("/var/events")),
        ("file:a%20b", FileUrl("a b")),
        ("file:a?journal_size=1G&reserve=8M", FileUrl("a", (("journal_size", "1G"), ("reserve", "8M")))),
        ("memory:", MemoryUrl("")),
        ("memory:shared", MemoryUrl("shared")),
        ("holdfast://one", ServerUrl((("one", 7400),))),
        ("holdfast://one:1,two,[::1]:3,[::2]", ServerUrl((("one", 1), ("two", 7400), ("::1", 3), ("::2", 7400)))),
    ],
)
def test_a_url_names_a_place(url: str, place: object) -> None:
    assert parse(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "", "events", "http://one", "holdfasts://one", "file:", "file://machine/dir", "file:a?sync=no", "memory:?x", "memory:/x",
        "holdfast:one", "holdfast://", "holdfast://one,", "holdfast://one:x", "holdfast://one:0", "holdfast://one:65536", "holdfast://one/q",
        "holdfast://me@one", "holdfast://[::1", "holdfast://one?tls=1", "file:a%00b", "FILE:a",
    ],
)  # fmt: skip
def test_any_other_is_refused_with_what_is_possible(url: str) -> None:
    with pytest.raises(BadUrl) as refusal:
        holdfast.connect(url)

    assert any(word in refusal.value.sentence for word in ("write", "possible are", "leave out", "there are"))


def test_a_timeout_that_is_over_before_it_begins_and_a_name_that_is_too_long_are_refused() -> None:
    with pytest.raises(BadSetting, match="timeout"):
        holdfast.connect("memory:", timeout=0)
    with pytest.raises(BadSetting, match="name"):
        holdfast.connect("memory:", name="x" * 256)


async def test_a_size_in_a_file_url_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="64M"):
        async with holdfast.connect(f"file:{tmp_path}/data?journal_size=lots"):
            pass


async def test_the_sizes_of_an_embedded_journal_are_those_of_its_url(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}/data?journal_size=64M&segment_size=1M&reserve=2M") as client:
        await client.queue("orders").send("one")

    sizes = {file.stat().st_size for file in (tmp_path / "data" / "journal").glob("segment-*")}
    assert sizes == {1 << 20}
