"""Answers in parts: handed on while they come, gone on with by another server, or cut; and streams that are passed through."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.listener import answers
from tests.fronted_engine import Fronted, ask, asking, fronted_engine
from tests.listening import OK, listening
from tests.raw_http_server import RawHttpServer, raw_http_server, saying
from tests.waiting import until

pytestmark = pytest.mark.slow

_numbers = itertools.count()
BODY = bytes(range(256)) * 4096  # 1 MiB
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)


@pytest.fixture
def url() -> str:
    return f"memory:streams-{next(_numbers)}"


class Halting:
    """Says a beginning, waits, then the rest; a rest of None ends the connection. Each request gets the next pair or the last."""

    def __init__(self, *said: tuple[bytes, bytes | None]) -> None:
        self.said = list(said)
        self.go_on = asyncio.Event()

    async def __call__(self, writer: asyncio.StreamWriter, _: bytes) -> bool:
        begin, rest = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        writer.write(begin)
        await self.go_on.wait()
        writer.write(rest or b"")
        await writer.drain()
        return rest is not None


@asynccontextmanager
async def two_servers(url: str, tmp_path: Path, one: Halting, two: Halting, domain: Domain) -> AsyncIterator[Fronted]:
    async with (
        fronted_engine(url, domain) as front,
        raw_http_server(one) as first,
        raw_http_server(two) as second,
        listening(url, first.url, tmp_path / "1", server="one"),
        listening(url, second.url, tmp_path / "2", server="two"),
    ):
        await until(lambda: len(front.engine.servers.current()) == 2, "both are current")
        yield front


@asynccontextmanager
async def one_server(url: str, tmp_path: Path, server: RawHttpServer, domain: Domain) -> AsyncIterator[Fronted]:
    async with fronted_engine(url, domain) as front, listening(url, server.url, tmp_path / "s"):
        await front.engine.until_ready(60)
        yield front


# --- parts ---------------------------------------------------------------------------------------------------------------


async def test_an_answer_is_handed_on_while_it_comes_and_is_stored_whole_at_its_end(url: str, tmp_path: Path) -> None:
    say = Halting((HEAD + BODY[:300_000], BODY[300_000:]))
    async with raw_http_server(say) as server, one_server(url, tmp_path, server, Domain(name="shop")) as front:
        async with asking(front.port, "/", headers={"Idempotency-Key": "k"}) as asked:
            await until(lambda: len(asked.seen.body) == 300_000, "the beginning is there while the server halts")
            say.go_on.set()
            seen = await asked.whole()
        again = await ask(front.port, "/", headers={"Idempotency-Key": "k"})

    assert (seen.is_whole, seen.body == BODY, "holdfast-replayed" in seen.headers) == (True, True, False)
    assert (again.is_whole, again.body == BODY, again.headers["holdfast-replayed"]) == (True, True, "true")
    assert len(server.requests) == 1


async def test_a_slow_answer_without_a_length_is_whole_at_its_last_chunk(url: str, tmp_path: Path) -> None:
    say = Halting((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"))
    async with (
        raw_http_server(say) as server,
        one_server(url, tmp_path, server, Domain(name="shop")) as front,
        asking(front.port, "/", headers={"Accept-Encoding": "gzip"}) as asked,
    ):
        await until(lambda: asked.seen.body == b"one", "the first chunk is there")
        say.go_on.set()
        seen = await asked.whole()

    assert (seen.is_whole, seen.body) == (True, b"onetwo")
    assert b"accept-encoding" not in server.requests[0].lower()


async def test_an_answer_too_large_to_be_kept_is_handed_on_whole_and_a_retry_gets_410(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "BODY_KEPT_MAX", 500_000)
    say = Halting((HEAD + BODY[:300_000], BODY[300_000:]))
    say.go_on.set()
    async with raw_http_server(say) as server, one_server(url, tmp_path, server, Domain(name="shop")) as front:
        first = await ask(front.port, "/", headers={"Idempotency-Key": "k"})
        again = await ask(front.port, "/", headers={"Idempotency-Key": "k"})

    assert (first.is_whole, first.body == BODY, again.status) == (True, True, 410)
    assert len(server.requests) == 1


async def test_an_end_without_length_or_last_chunk_is_no_answer_and_another_server_answers(url: str, tmp_path: Path) -> None:
    endless = saying(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of", goes_on=False)
    whole = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")
    domain = Domain(name="shop", error_wait=0.2, answer_timeout=3.0)
    async with (
        fronted_engine(url, domain) as front,
        raw_http_server(endless) as first,
        raw_http_server(whole) as second,
        listening(url, first.url, tmp_path / "1", server="one"),
    ):
        await front.engine.until_ready(60)
        alone = await ask(front.port, "/", headers={"Idempotency-Key": "k"})
        async with listening(url, second.url, tmp_path / "2", server="two"):
            await until(lambda: front.engine.servers.get("two") is not None, "the other is linked")
            await until(lambda: [each.name for each in front.engine.servers.current()] == ["two"], "the other is current")
            other = await ask(front.port, "/", headers={"Idempotency-Key": "k"})

    assert (alone.status, b"half" in alone.body) == (502, False)
    assert (other.status, other.body, other.is_whole) == (200, b"whole", True)


# --- a server that dies midway -------------------------------------------------------------------------------------------


async def test_another_server_goes_on_where_one_died_if_its_answer_begins_alike(url: str, tmp_path: Path) -> None:
    one, two = Halting((HEAD + BODY[:300_000], None), (HEAD + BODY, b"")), Halting((b"", HEAD + BODY))
    async with two_servers(url, tmp_path, one, two, Domain(name="shop")) as front, asking(front.port, "/") as asked:
        await until(lambda: len(asked.seen.body) == 300_000, "the beginning is there")
        two.go_on.set()
        await until(lambda: front.engine.servers.get("two").state.finished >= 3, "the other has answered")  # type: ignore[union-attr]
        one.go_on.set()
        seen = await asked.whole()

    assert (seen.is_whole, seen.body == BODY) == (True, True)


async def test_another_server_that_is_still_answering_goes_on_where_one_died(url: str, tmp_path: Path) -> None:
    one = Halting((HEAD + BODY[:300_000], None), (b"", None))
    begin, end = asyncio.Event(), asyncio.Event()

    async def say(writer: asyncio.StreamWriter, _: bytes) -> bool:
        await begin.wait()
        writer.write(HEAD + BODY[:600_000])
        await end.wait()
        writer.write(BODY[600_000:])
        return True

    async with (
        fronted_engine(url, Domain(name="shop")) as front,
        raw_http_server(one) as first,
        raw_http_server(say) as second,
        listening(url, first.url, tmp_path / "1", server="one"),
        listening(url, second.url, tmp_path / "2", server="two") as other,
    ):
        await until(lambda: len(front.engine.servers.current()) == 2, "both are current")
        async with asking(front.port, "/") as asked:
            await until(lambda: len(asked.seen.body) == 300_000, "the beginning is there")
            begin.set()
            await until(lambda: [len(each.body) for each in other.answers._streams.values()] == [600_000], "the other halts")
            one.go_on.set()
            await until(lambda: len(asked.seen.body) == 600_000, "the other has gone on")
            end.set()
            seen = await asked.whole()

    assert (seen.is_whole, seen.body == BODY) == (True, True)


@pytest.mark.parametrize(
    "other",
    [
        HEAD + b"?" + BODY[1:],
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(BODY) - 1) + BODY[:-1],
        HEAD.replace(b"200", b"201") + BODY,
    ],
    ids=["body", "length", "status"],
)
async def test_the_connection_is_cut_if_the_other_answer_differs_and_the_retry_gets_a_whole_one(
    url: str, tmp_path: Path, other: bytes
) -> None:
    one, two = Halting((HEAD + BODY[:300_000], None), (other, b"")), Halting((b"", other))
    async with two_servers(url, tmp_path, one, two, Domain(name="shop", error_wait=0.2)) as front:
        async with asking(front.port, "/", headers={"Idempotency-Key": "k"}) as asked:
            await until(lambda: len(asked.seen.body) == 300_000, "the beginning is there")
            two.go_on.set()
            one.go_on.set()
            cut = await asked.whole()
        again = await ask(front.port, "/", headers={"Idempotency-Key": "k"})

    assert (cut.is_whole, len(cut.body)) == (False, 300_000)
    assert (again.is_whole, again.body) == (True, other.partition(b"\r\n\r\n")[2])


# --- streams that are passed through ---------------------------------------------------------------------------------------

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = {"Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
STREAMS = Domain(name="shop", routes=(Route("/events", kind="stream"),), answer_timeout=5.0)


async def test_server_sent_events_are_passed_through_from_one_server_until_the_client_leaves(url: str, tmp_path: Path) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def say(writer: asyncio.StreamWriter, _: bytes) -> bool:
        writers.append(writer)
        writer.write(EVENTS + b"9\r\ndata: 1\n\n\r\n")
        await asyncio.Event().wait()
        return False

    async with (
        raw_http_server(say) as one,
        raw_http_server(say) as two,
        fronted_engine(url, STREAMS) as front,
        listening(url, one.url, tmp_path / "1", server="one"),
        listening(url, two.url, tmp_path / "2", server="two") as listener,
    ):
        await until(lambda: len(front.engine.servers.current()) == 2, "both are current")
        before = listener.events.place
        async with asking(front.port, "/events", method="GET", headers={"Accept": "text/event-stream"}) as asked:
            await until(lambda: asked.seen.body == b"data: 1\n\n", "the first event is there")
            writers[0].write(b"9\r\ndata: 2\n\n\r\n")
            await until(lambda: asked.seen.body == b"data: 1\n\ndata: 2\n\n", "the second event is there")
        await until(lambda: _is_left(writers[0]), "the server sees that the client has left")
        after = listener.events.place

    assert len(writers) == 1
    assert asked.seen.headers["content-type"] == "text/event-stream"
    assert before == after  # nothing went through the topic


def _is_left(writer: asyncio.StreamWriter) -> bool:
    """Whether nobody takes what is written."""
    writer.write(b"9\r\ndata: 3\n\n\r\n")
    return writer.transport.is_closing()


async def test_a_stream_whose_server_dies_is_cut(url: str, tmp_path: Path) -> None:
    say = Halting((EVENTS + b"9\r\ndata: 1\n\n\r\n", None))
    async with (
        raw_http_server(say) as server,
        one_server(url, tmp_path, server, STREAMS) as front,
        asking(front.port, "/events", method="GET") as asked,
    ):
        await until(lambda: asked.seen.body == b"data: 1\n\n", "the first event is there")
        say.go_on.set()
        seen = await asked.whole()

    assert not seen.is_whole


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/other", {"Accept": "text/event-stream"}),
        ("/other", {**UPGRADE, "Upgrade": "websocket"}),
        ("/other", {**UPGRADE, "Upgrade": "chat"}),
        ("/events", {**UPGRADE, "Upgrade": "chat"}),
    ],
)
async def test_streams_elsewhere_and_other_upgrades_are_refused_with_501_and_not_sent(
    url: str, tmp_path: Path, target: str, headers: dict[str, str]
) -> None:
    async with raw_http_server(saying(OK)) as server, one_server(url, tmp_path, server, STREAMS) as front:
        seen = await ask(front.port, target, method="GET", headers=headers)

    assert (seen.status, server.requests) == (501, [])
