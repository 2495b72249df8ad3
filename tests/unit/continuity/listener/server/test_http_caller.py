"""Calling a server: whole answers and parts, what is sent, and what a failure says. The servers are real, and some are rude."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.listener.server import server_connection
from holdfast.continuity.listener.server.http_caller import HttpCaller
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.request import Content
from tests.raw_http_server import raw_http_server, saying
from tests.server_process import free_port
from tests.waiting import turn_loop, until

GET = Content("GET", "/", [])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def failure_of(caller: HttpCaller, content: Content = GET, timeout: float = 30) -> CallFailed:
    with pytest.raises(CallFailed) as found:
        await caller.call(content, timeout=timeout)
    return found.value


async def parts_of(caller: HttpCaller, content: Content = GET) -> list[Head | bytes]:
    return [part async for part in caller.call_in_parts(content)]


# --- answers -----------------------------------------------------------------------------------------------------------


async def test_an_answer_has_the_status_headers_and_body_that_the_server_sent() -> None:
    async with raw_http_server(
        saying(b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-One: 1\r\nX-One: 2\r\n\r\nhello")
    ) as server:
        answer = await HttpCaller(server.url).call(GET)

    assert answer.head == Head(201, [(b"content-length", b"5"), (b"x-one", b"1"), (b"x-one", b"2")], 5)
    assert answer.body == b"hello"


@pytest.mark.parametrize(
    ("method", "said", "status"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200),
        ("HEAD", b"HTTP/1.1 200 OK\r\n\r\n", 200),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304),
    ],
)
async def test_an_answer_without_a_body_is_complete_and_its_connection_is_kept(method: str, said: bytes, status: int) -> None:
    async with raw_http_server(saying(said)) as server, HttpCaller(server.url) as caller:
        answers = [await caller.call(Content(method, "/", [])) for _ in range(3)]

        assert [(answer.head.status, answer.head.length, answer.body) for answer in answers] == [(status, 0, b"")] * 3
        assert server.connections == 1


async def test_a_chunked_answer_is_put_together_and_its_trailers_are_left_out() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    said = (head, b"3\r\nabc\r\n", b"2\r\nde\r\n", b"0\r\nX-Sum: 9\r\n\r\n")
    async with raw_http_server(saying(*said)) as server, HttpCaller(server.url) as caller:
        answers = [await caller.call(GET) for _ in range(2)]

    assert [(answer.head, answer.body) for answer in answers] == [(Head(200, [], 5), b"abcde")] * 2
    assert server.connections == 1


async def test_an_answer_that_comes_byte_by_byte_is_the_same() -> None:
    async with raw_http_server(saying(*(bytes([each]) for each in OK))) as server:
        assert (await HttpCaller(server.url).call(GET)).body == b"hello"


async def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with raw_http_server(saying(interim + OK)) as server:
        answer = await HttpCaller(server.url).call(GET)

    assert answer.head == Head(200, [(b"content-length", b"5")], 5)


async def test_headers_of_the_connection_are_not_passed_on() -> None:
    said = (
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\nKeep-Alive: 5\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n"
    )
    async with raw_http_server(saying(said)) as server:
        answer = await HttpCaller(server.url).call(GET)

    assert answer.head.headers == [(b"x-kept", b"2"), (b"content-length", b"0")]


# --- connections -------------------------------------------------------------------------------------------------------


async def test_a_connection_is_used_again_unless_the_server_says_close() -> None:
    close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with raw_http_server(saying(OK)) as kept, raw_http_server(saying(close)) as closing:
        for server in (kept, closing):
            async with HttpCaller(server.url) as caller:
                for _ in range(3):
                    await caller.call(GET)

    assert (kept.connections, closing.connections) == (1, 3)


async def test_a_connection_that_the_server_ended_while_it_was_idle_is_not_used_again() -> None:
    async with raw_http_server(saying(OK, goes_on=False)) as server, HttpCaller(server.url) as caller:
        for _ in range(3):
            assert (await caller.call(GET)).body == b"hello"
            await until(lambda: not caller.idle, "the end of the connection was heard")

        assert server.connections == 3


async def test_a_connection_on_which_something_comes_unasked_is_not_used_again() -> None:
    said = OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with raw_http_server(saying(said)) as server, HttpCaller(server.url) as caller:
        answers = [(await caller.call(GET)).body for _ in range(3)]

    assert answers == [b"hello"] * 3
    assert server.connections == 3


async def test_there_are_no_more_connections_than_allowed_and_further_calls_wait() -> None:
    go_on = asyncio.Event()

    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        await go_on.wait()
        writer.write(OK)
        return True

    async with raw_http_server(say) as server, HttpCaller(server.url, connections_max=2) as caller:
        calls = [asyncio.create_task(caller.call(GET)) for _ in range(6)]
        await until(lambda: len(server.requests) == 2, "two calls came")
        go_on.set()
        answers = await asyncio.gather(*calls)

    assert [answer.body for answer in answers] == [b"hello"] * 6
    assert server.connections == 2


async def test_a_call_that_is_cancelled_does_not_leave_its_answer_to_the_next() -> None:
    first, last = asyncio.Event(), asyncio.Event()

    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        if b"/slow" in request:
            first.set()
            await last.wait()
        writer.write(OK)
        return True

    async with raw_http_server(say) as server, HttpCaller(server.url, connections_max=1) as caller:
        call = asyncio.create_task(caller.call(Content("GET", "/slow", [])))
        await first.wait()
        call.cancel()

        assert (await caller.call(GET)).body == b"hello"
        assert server.connections == 2
        last.set()


# --- failures ----------------------------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_refuses_and_has_seen_nothing(tmp_path: Path) -> None:
    tcp, unix = HttpCaller(f"http://127.0.0.1:{free_port()}"), HttpCaller(f"http+unix://{tmp_path}/none.sock")

    assert [(await failure_of(caller)).kind for caller in (tcp, unix)] == ["refused", "refused"]


async def test_an_end_before_the_head_of_the_answer_is_a_reset() -> None:
    for said in ((), (b"HTTP/1.1 200 OK\r\nContent-",), (b"HTTP/1.1 100 Continue\r\n\r\n",)):
        async with raw_http_server(saying(*said, goes_on=False)) as server:
            assert (await failure_of(HttpCaller(server.url))).kind == "reset"


@pytest.mark.parametrize(
    "said",
    [
        OK[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
    ],
)
async def test_an_end_without_length_or_last_chunk_is_never_complete(said: bytes) -> None:
    async with raw_http_server(saying(said, goes_on=False)) as server, HttpCaller(server.url) as caller:
        assert (await failure_of(caller)).kind == "cut"
        with pytest.raises(CallFailed):
            await parts_of(caller)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"y" * server_connection.HEAD_BYTES_MAX + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_is_no_http_is_cut(said: bytes) -> None:
    async with raw_http_server(saying(said)) as server:
        assert (await failure_of(HttpCaller(server.url))).kind == "cut"


async def test_a_server_that_does_not_answer_in_time_is_timed_out_also_in_the_middle() -> None:
    for said in ((), (OK[:-1],)):
        async with raw_http_server(saying(*said)) as server:
            assert (await failure_of(HttpCaller(server.url), timeout=0.05)).kind == "timed out"


async def test_a_whole_answer_over_the_limit_is_cut_and_not_held() -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def endless(writer: asyncio.StreamWriter, request: bytes) -> bool:
        writer.write(head)
        while True:
            writer.write(chunk)
            await writer.drain()

    async with raw_http_server(endless) as server:
        failure = await failure_of(HttpCaller(server.url, answer_max=1 << 20))

    assert failure.kind == "cut" and "1,048,576" in failure.reason


# --- parts -------------------------------------------------------------------------------------------------------------


async def test_parts_come_as_the_server_sends_them() -> None:
    more = asyncio.Event()

    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
        await more.wait()
        writer.write(b"llo")
        return True

    async with raw_http_server(say) as server, HttpCaller(server.url) as caller:
        parts = caller.call_in_parts(GET)
        head, first = await anext(parts), await anext(parts)
        more.set()
        rest = [part async for part in parts]
        again = await parts_of(caller)

    assert head == Head(200, [(b"content-length", b"5")], 5)
    assert [first, *rest] == [b"he", b"llo"]
    assert again[0] == head and server.connections == 1


async def test_a_server_waits_while_nobody_takes_the_parts() -> None:
    sent, size = 0, 64 << 20

    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 0x10000)
            await writer.drain()
            sent += 0x10000
        return True

    async with raw_http_server(say) as server, HttpCaller(server.url) as caller, aclosing(caller.call_in_parts(GET)) as parts:
        await anext(parts)
        before = -1
        while sent != before:  # until the server stands still
            before = sent
            await turn_loop(200)
        held = sent
        received = sum([len(part) async for part in parts if isinstance(part, bytes)])

    assert held < size // 2
    assert received == size


async def test_an_answer_left_early_ends_its_connection() -> None:
    async with raw_http_server(saying(OK[:-1], goes_on=True)) as server, HttpCaller(server.url) as caller:
        async with aclosing(caller.call_in_parts(GET)) as parts:
            await anext(parts)

        assert not caller.idle


# --- calls without a task ------------------------------------------------------------------------------------------------


class Taken:
    """A stream that keeps what it is given."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    async def take(self, head: Head, body: bytes) -> None:
        self.parts.append(body)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


async def told_at_once(caller: HttpCaller, content: Content = GET, timeout: float = 30, stream: Taken | None = None) -> object:
    """What a call without a task is told."""
    told: list[object] = []
    assert caller.call_at_once(content, [], timeout, stream or Taken(), told.append), "a connection is kept"
    await until(lambda: bool(told), "it is told")
    assert len(told) == 1
    return told[0]


async def test_a_call_without_a_task_needs_a_kept_connection_and_keeps_it() -> None:
    async with raw_http_server(saying(OK)) as server, HttpCaller(server.url) as caller:
        assert not caller.call_at_once(GET, [], 30, Taken(), print)
        await caller.call(GET)

        told = [await told_at_once(caller) for _ in range(3)]

        assert told == [Answer(Head(200, [(b"content-length", b"5")], 5), b"hello")] * 3
        assert server.connections == 1


async def test_a_call_without_a_task_takes_a_turn_while_it_lasts() -> None:
    async with raw_http_server(saying(OK)) as server, HttpCaller(server.url, connections_max=1) as caller:
        await caller.call(GET)
        told: list[object] = []
        assert caller.call_at_once(GET, [], 30, Taken(), told.append)

        assert not caller.is_at_hand
        assert (await caller.call(GET)).body == b"hello"

        assert told and server.connections == 1


@pytest.mark.parametrize(
    ("said", "kind"), [((b"",), "timed out"), ((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",), "timed out"), ((), "reset")]
)
async def test_a_call_without_a_task_fails_as_others_do(said: tuple[bytes, ...], kind: str) -> None:
    answers = [OK]

    async def once(writer: asyncio.StreamWriter, _: bytes) -> bool:
        if answers:
            writer.write(answers.pop())
            return True
        for each in said:
            writer.write(each)
        if said:
            await asyncio.Event().wait()
        return False

    async with raw_http_server(once) as server, HttpCaller(server.url) as caller:
        await caller.call(GET)

        failure = await told_at_once(caller, timeout=0.05)

        assert isinstance(failure, CallFailed) and failure.kind == kind
        assert not caller.is_at_hand


async def test_the_rest_of_an_answer_that_is_not_whole_at_once_is_given_to_its_stream() -> None:
    go_on = asyncio.Event()
    answers = [OK]

    async def halting(writer: asyncio.StreamWriter, _: bytes) -> bool:
        if answers:
            writer.write(answers.pop())
            return True
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
        await go_on.wait()
        writer.write(b"llo")
        return True

    async with raw_http_server(halting) as server, HttpCaller(server.url) as caller:
        await caller.call(GET)
        stream, told = Taken(), list[object]()
        assert caller.call_at_once(GET, [], 30, stream, told.append)
        await until(lambda: stream.parts == [b"he"], "the beginning is given")

        go_on.set()
        await until(lambda: bool(told), "it is told")

        assert told == [Answer(Head(200, [(b"content-length", b"5")], 5), b"hello")] and caller.is_at_hand


async def test_a_request_that_cannot_be_written_is_told_at_once_and_uses_no_connection() -> None:
    async with raw_http_server(saying(OK)) as server, HttpCaller(server.url) as caller:
        await caller.call(GET)

        told = await told_at_once(caller, Content("GET", "/", [(b"a", b"b\r\nc: d")]))

        assert isinstance(told, Answer) and told.head.status == 400 and caller.idle == 1
