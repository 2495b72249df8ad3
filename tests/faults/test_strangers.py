"""Whoever has not logged in costs little, however many they are and whatever they say (E7)."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Iterator

import pytest

import holdfast
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import LENGTH, MAGIC, Goodbye, Hello, encode_lead
from tests import effort
from tests.protected_server import ProtectedServer

pytestmark = [pytest.mark.slow, pytest.mark.faults]

# More than twice as many as may be there before login: half of them fill what there is, the others find it full.
LINKS = effort.rounds(short=4_500, long=10_000)
# What all of them together may hold, twice: memory that was freed is not always given back. TLS needs some 40 KiB for each link.
GROWTH_MB_MAX = 40
GROWTH_MB_MAX_TLS = 150
# To verify a password takes 19 MiB, and two are verified at once. Passwords of 60 KiB that were kept would be 120 MB.
GROWTH_MB_MAX_LOGIN = 100
# How much of it may come late.
LATE_GROWTH_MB_MAX = 15
SEND_S_MAX = 5.0


def hello(user: str, password: str) -> bytes:
    return encode_lead(0, Hello(MAGIC, [1], "", user, password), 0)


HALF_A_LARGE_FRAME = LENGTH.pack(1 << 20) + bytes((1 << 20) - 4096)
HALF_A_SMALL_FRAME = LENGTH.pack(60 << 10) + b"\x01" * (59 << 10)
HALF_A_HANDSHAKE = b"\x16\x03\x01\x40\x00" + bytes(16_000)


class Crowd:
    """Connections that stay, as long as they are let."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._links: list[socket.socket] = []

    def join(self, said: bytes) -> None:
        link = socket.create_connection(("127.0.0.1", self._port), timeout=SEND_S_MAX)
        self._links.append(link)
        with contextlib.suppress(ConnectionError):  # it was sent away while it spoke
            link.sendall(said)

    def leave(self) -> None:
        for link in self._links:
            link.close()


@contextlib.contextmanager
def crowd_at(port: int) -> Iterator[Crowd]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= LINKS + 200, f"this machine allows only {hard} connections"
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd(port)
    try:
        yield crowd
    finally:
        crowd.leave()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def flat_under(server: ProtectedServer, said: bytes, growth_mb_max: float) -> None:
    """Thousands come and say this: they cost little memory, and whoever is in goes on."""
    async with holdfast.connect(server.alice, timeout=30) as client:
        await client.queue("orders.others").send("before")
        memory_mb = [server.process.memory_mb()]
        with crowd_at(server.process.port) as crowd:
            for _ in range(10):
                for _ in range(LINKS // 10):
                    crowd.join(said)
                await client.queue("orders.others").send("meanwhile", timeout=10)
                memory_mb.append(server.process.memory_mb())
                assert memory_mb[-1] - memory_mb[0] < growth_mb_max, memory_mb
        assert memory_mb[-1] - memory_mb[5] < LATE_GROWTH_MB_MAX, memory_mb


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedServer]:
    with ProtectedServer(tmp_path_factory.mktemp("strangers"), is_tls=False) as made:
        yield made


@pytest.fixture(scope="module")
def server_with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedServer]:
    with ProtectedServer(tmp_path_factory.mktemp("strangers_with_tls")) as made:
        yield made


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(HALF_A_LARGE_FRAME, id="half a frame of 1 MiB"),
        pytest.param(HALF_A_SMALL_FRAME, id="half a frame of 60 KiB"),
        pytest.param(hello("alice", "x" * 1_000_000), id="a password of 1 MB"),
    ],
)
async def test_memory_stays_flat_under_thousands_of_links_that_have_not_logged_in(server: ProtectedServer, said: bytes) -> None:
    await flat_under(server, said, GROWTH_MB_MAX)


async def test_memory_stays_flat_under_thousands_of_logins_that_fail_with_half_a_frame_after_each(
    server: ProtectedServer,
) -> None:
    await flat_under(server, hello("alice", "x" * (60 << 10)) + HALF_A_SMALL_FRAME, GROWTH_MB_MAX_LOGIN)


async def test_memory_stays_flat_under_thousands_of_handshakes_that_do_not_end(server_with_tls: ProtectedServer) -> None:
    await flat_under(server_with_tls, HALF_A_HANDSHAKE, GROWTH_MB_MAX_TLS)


def frame_of(kind: int, head: bytes) -> bytes:
    return LENGTH.pack(7 + len(head)) + bytes([kind, 0, 0]) + LENGTH.pack(len(head)) + head


GARBAGE = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a frame of 4 GiB": b"\xff\xff\xff\xff",
    "an empty frame": bytes(4),
    "no such kind": frame_of(200, b""),
    "a head that is no msgpack": frame_of(Hello.KIND, b"\xc1"),
    "text that is no UTF-8": frame_of(Hello.KIND, b"\x92\xa2\xff\xfe\x90"),
    "nested too deep": frame_of(Hello.KIND, b"\x97\xa8holdfast\x91\x01\xa0\xa0\xa0\xa0" + b"\x91" * 50_000 + b"\x01"),
    "a Hello of another protocol": encode_lead(0, Hello("amqp", [1]), 0),
    "a Hello of another version": encode_lead(0, Hello(MAGIC, [99]), 0),
    "a Hello with an id that is too long": encode_lead(0, Hello(MAGIC, [1], client="x" * 1000), 0),
    "a Goodbye": encode_lead(0, Goodbye(), 0),
}


def answer_to(port: int, said: bytes) -> list[object]:
    """What a server says to these bytes before it ends the link."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(said)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while more := link.recv(4096):
                heard += more
        return [frame.message for frame in FrameDecoder().feed(heard)]


def test_garbage_before_login_is_answered_with_a_goodbye_and_at_most_one_line_a_second(server: ProtectedServer) -> None:
    before, began = len(server.process.log.splitlines()), time.monotonic()

    for _ in range(effort.rounds(short=10, long=30)):
        for kind, said in GARBAGE.items():
            assert [type(message) for message in answer_to(server.process.port, said)] == [Goodbye], kind

    took_s = time.monotonic() - began
    lines = server.process.log.splitlines()[before:]
    assert "Traceback" not in "".join(lines)
    assert 1 <= len(lines) <= took_s + 2
    assert "127.0.0.1" in lines[0]
