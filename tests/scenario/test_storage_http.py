"""A file store over HTTP (C11), to a client that knows nothing of Holdfast: tags, conditions, ranges, listings."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from holdfast.cli.main import run
from holdfast.continuity.storage.place.objects import CHUNK
from holdfast.continuity.storage.serving import serve_front
from holdfast.continuity.storage.write import Put
from tests.storing import storing

pytestmark = pytest.mark.slow

LARGE = secrets.token_bytes(2 * CHUNK + 99)


async def test_a_file_is_put_looked_at_read_in_parts_and_deleted(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        made = await http.put("/r/größe.bin", content=LARGE, headers={"content-type": "image/x"})
        tag = f'"{hashlib.sha256(LARGE).hexdigest()}"'
        assert (made.status_code, made.headers["etag"]) == (201, tag)
        assert (await http.put("/r/größe.bin", content=LARGE)).status_code == 204

        whole = await http.get("/r/größe.bin")
        head = await http.head("/r/größe.bin")
        assert (whole.status_code, whole.content, whole.headers["etag"]) == (200, LARGE, tag)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(LARGE)))
        assert {"last-modified", "accept-ranges", "holdfast-write"} <= head.headers.keys()

        assert (await http.delete("/r/größe.bin")).status_code == 204
        assert (await http.delete("/r/größe.bin")).status_code == 404
        assert (await http.get("/r/größe.bin")).status_code == 404


async def test_a_body_in_an_unknown_coding_is_refused_and_nothing_is_put(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        reader, writer = await asyncio.open_connection(*files.front.split(":"))  # httpx sends no such request
        writer.write(b"PUT /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")

        assert (await reader.readline()).startswith(b"HTTP/1.1 501 ")
        assert b"gzip, chunked is not understood" in await reader.readuntil(b"or chunked\n")
        writer.close()
        assert (await http.get("/x")).status_code == 404


async def test_ranges_are_206_and_416_and_a_range_of_another_file_gives_the_whole(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        tag = (await http.put("/x", content=LARGE)).headers["etag"]

        async def part(value: str, **headers: str) -> tuple[int, bytes, str]:
            told = {"range": value} | {name.replace("_", "-"): each for name, each in headers.items()}
            answer = await http.get("/x", headers=told)
            return answer.status_code, answer.content, answer.headers.get("content-range", "")

        size = len(LARGE)
        assert await part("bytes=0-9") == (206, LARGE[:10], f"bytes 0-9/{size}")
        middle = CHUNK - 5
        assert await part(f"bytes={middle}-{middle + 9}") == (
            206,
            LARGE[middle : middle + 10],
            f"bytes {middle}-{middle + 9}/{size}",
        )
        assert await part("bytes=-7") == (206, LARGE[-7:], f"bytes {size - 7}-{size - 1}/{size}")
        assert (await part(f"bytes={size}-"))[::2] == (416, f"bytes */{size}")
        assert await part("bytes=0-9", if_range=tag) == (206, LARGE[:10], f"bytes 0-9/{size}")
        assert await part("bytes=0-9", if_range='"another"') == (200, LARGE, "")


async def test_conditions_are_304_for_readers_and_412_for_writers(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        first = (await http.put("/x", content=b"1", headers={"if-none-match": "*"})).headers["etag"]

        assert (await http.put("/x", content=b"2", headers={"if-none-match": "*"})).status_code == 412
        assert (await http.get("/x", headers={"if-none-match": f'"no", {first}'})).status_code == 304
        assert (await http.get("/x", headers={"if-match": '"no"'})).status_code == 412
        assert (await http.put("/x", content=b"3", headers={"if-match": first})).status_code == 204
        assert (await http.put("/x", content=b"4", headers={"if-match": first})).status_code == 412
        assert (await http.delete("/x", headers={"if-match": first})).status_code == 412
        assert (await http.get("/x")).content == b"3"


async def test_a_move_is_one_step_and_listings_show_folders_and_pages(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        for name in ("top", "d/1", "d/2", "d/e/3", "z"):
            await http.put(f"/{name}", content=name.encode())
        moved = await http.request("MOVE", "/top", headers={"destination": f"http://{files.front}/d/{quote('t o p')}"})
        assert moved.status_code == 204
        assert (await http.request("MOVE", "/z", headers={"destination": "/d/1", "overwrite": "F"})).status_code == 412

        root, below = (await http.get("/")).json(), (await http.get("/d/")).json()
        assert (root["folders"], [each["name"] for each in root["files"]]) == (["d/"], ["z"])
        assert (below["folders"], [each["name"] for each in below["files"]]) == (["d/e/"], ["d/1", "d/2", "d/t o p"])

        names = list[str]()
        after: str | None = ""
        while after is not None:
            page = (await http.get("/", params={"recursive": 1, "limit": 2, "after": after})).json()
            names += [each["name"] for each in page["files"]]
            after = page["next"]
        assert names == ["d/1", "d/2", "d/e/3", "d/t o p", "z"]


async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        statuses = [
            (await http.put("/a//b", content=b"1")).status_code,
            (await http.put("/%2e%2e/b", content=b"1")).status_code,
            (await http.put("/" + "x" * 2000, content=b"1")).status_code,
            (await http.put("/%ff", content=b"1")).status_code,
            (await http.post("/a", content=b"1")).status_code,
        ]

        assert statuses == [400, 400, 400, 400, 405]


async def test_too_few_places_are_503_before_the_body_is_taken_and_another_front_reads_nothing_older(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        async with serve_front(files.url, "files") as other, httpx.AsyncClient(base_url=f"http://{other.address}") as another:
            for each in range(20):
                number = (await http.put("/x", content=b"%d" % each)).headers["holdfast-write"]
                seen = await another.get("/x", headers={"holdfast-write": number})
                assert seen.content == b"%d" % each
        await files.end("b")
        await files.until_current("a")

        async def body() -> AsyncIterator[bytes]:
            yield b"x"

        refused = await http.put("/y", content=body())
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "1 of 2 places" in refused.text
        assert (await http.get("/x")).content == b"19"


@pytest.mark.parametrize("name", ["a%0Ab", "a%0D", "d/%00", "%1B[2J", "a%E2%80%A8b", "a%C2%85b"])
async def test_a_new_name_with_a_line_break_or_control_character_is_refused(tmp_path: Path, name: str) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        await http.put("/x", content=b"x")
        refused = [
            await http.put(f"/{name}", content=b"y"),
            await http.request("MOVE", "/x", headers={"destination": f"/{name}"}),
        ]

        assert [each.status_code for each in refused] == [400, 400]
        assert all("is no name of a" in each.text and len(each.text.splitlines()) == 1 for each in refused)
        assert [each["name"] for each in (await http.get("/")).json()["files"]] == ["x"]


async def test_a_name_with_a_line_break_from_an_earlier_release_can_be_listed_read_moved_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        for name in ("old\n1", "old\n2"):
            await files.store._write(Put(name, hashlib.sha256(b"x").hexdigest(), 1, b"x"))

        listed = await asyncio.to_thread(run, ["store", "ls", "--front", f"http://{files.front}"])
        assert (listed, len(lines := capsys.readouterr().out.splitlines())) == (0, 3)
        assert [line.split()[0] for line in lines[1:]] == [r"'old\n1'", r"'old\n2'"]
        assert [each["name"] for each in (await http.get("/")).json()["files"]] == ["old\n1", "old\n2"]
        assert (await http.get("/old%0A1")).content == b"x"
        assert (await http.request("MOVE", "/old%0A1", headers={"destination": "/new"})).status_code == 204
        assert (await http.delete("/old%0A2")).status_code == 204
        assert [each["name"] for each in (await http.get("/")).json()["files"]] == ["new"]


async def test_a_name_that_is_no_utf8_is_refused_in_words_also_as_the_destination_of_a_move(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files, httpx.AsyncClient(base_url=f"http://{files.front}") as http:
        await http.put("/x", content=b"x")
        refused = [await http.put("/%ff", content=b"y"), await http.request("MOVE", "/x", headers={"destination": "/%ff"})]

        assert [each.status_code for each in refused] == [400, 400]
        assert all("'/%ff' is no name of a file: it is no UTF-8" in each.text for each in refused)
        assert (await http.get("/x")).content == b"x"
