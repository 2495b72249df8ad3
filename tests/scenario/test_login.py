"""Logging in to a real server: by password, by certificate, and not at all (E7, B1)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import BadSetting, LinkLost, LoginFailed, ProtocolError, Unreachable, Untrusted
from holdfast.node.login import users_file
from holdfast.node.login.passwords import hashed
from holdfast.wire import tcp, tls
from holdfast.wire.frame import MAGIC, Frame, Goodbye, Hello, Manage, Message, OpenSession
from holdfast.wire.link import Link
from tests.certificates import Authority
from tests.protected_server import ALICE, BOB, ProtectedServer
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedServer]:
    with ProtectedServer(tmp_path_factory.mktemp("protected")) as made:
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[ProtectedServer]:
    """A server nobody has failed to log in to yet, so that failures take one second."""
    with ProtectedServer(tmp_path) as made:
        yield made


async def refusal(url: str, timeout: float = 10, password: str | None = None) -> holdfast.HoldfastError:
    with pytest.raises(holdfast.HoldfastError) as refused:
        async with holdfast.connect(url, timeout=timeout, password=password):
            pass
    return refused.value


async def test_the_right_password_lets_a_user_in(server: ProtectedServer) -> None:
    async with holdfast.connect(server.alice) as client:
        receipt = await client.queue("orders.new").send({"sku": 7})

        assert receipt.is_synced


async def test_the_password_can_be_given_apart_from_the_url(server: ProtectedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with holdfast.connect(server.url("alice"), password=ALICE) as client:
        assert client.is_linked

    monkeypatch.setenv("HOLDFAST_PASSWORD", BOB)
    async with holdfast.connect(server.url("bob")) as client:
        assert client.is_linked


def test_a_program_without_a_loop_logs_in_alike(server: ProtectedServer) -> None:
    with holdfast.blocking.connect(server.url("alice"), password=ALICE) as client:
        client.queue("orders.new").send("one")


async def test_a_certificate_lets_its_user_in_without_a_password(server: ProtectedServer) -> None:
    for user in ("", "robot"):
        async with holdfast.connect(server.url(user, certificate=server.robot)) as client:
            with pytest.raises(holdfast.Refused, match="'robot' may not send"):
                await client.queue("orders.new").send("one")


async def test_big_events_travel_over_tls_and_come_back_whole(server: ProtectedServer) -> None:
    bodies = [bytes([number]) * 1_000_000 for number in range(20)]
    async with holdfast.connect(server.alice) as client:
        await client.queue("orders.big").send_many(bodies)
        async with client.queue("orders.big").receive() as incoming:
            received = []
            async for event in incoming:
                received.append(event.data)
                await event.confirm()
                if len(received) == len(bodies):
                    break

    assert received == bodies


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("alice", ""), ("robot", "any"), ("nobody", ALICE), ("", "")], ids=str
)
async def test_whoever_does_not_know_the_password_is_refused_slowly_and_not_told_why(
    fresh: ProtectedServer, user: str, password: str
) -> None:
    began = time.monotonic()

    refused = await refusal(fresh.url(user, password))

    assert isinstance(refused, LoginFailed)
    assert "user or password is wrong, or no user here has this certificate" in refused.sentence
    assert time.monotonic() - began >= 1


async def test_a_certificate_of_nobody_here_and_one_of_another_user_do_not_log_in(fresh: ProtectedServer) -> None:
    nobody = fresh.authority.issue("stranger.example.com")

    refusals = [await refusal(fresh.url(certificate=nobody)), await refusal(fresh.url("alice", certificate=fresh.robot))]

    assert [type(each) for each in refusals] == [LoginFailed, LoginFailed]


async def test_a_certificate_of_another_authority_does_not_log_in(server: ProtectedServer, tmp_path: Path) -> None:
    forged = Authority(tmp_path).issue("robot.example.com", common_name="robot")

    refused = await refusal(server.url("robot", certificate=forged))

    assert isinstance(refused, LoginFailed)
    assert "certificate" in refused.sentence


async def test_where_a_certificate_is_required_a_password_alone_is_not_enough(tmp_path: Path) -> None:
    with ProtectedServer(tmp_path, "--require-certificate") as server:
        refused = await refusal(server.alice)
        async with holdfast.connect(server.url("alice", ALICE, server.robot)) as client:
            await client.queue("orders.new").send("one")

    assert isinstance(refused, LoginFailed)
    assert "?certificate=FILE" in refused.sentence


async def test_a_server_that_cannot_prove_itself_never_hears_the_password(server: ProtectedServer, tmp_path: Path) -> None:
    other = Authority(tmp_path).file

    refused = await refusal(server.alice.replace(str(server.authority.file), str(other)))

    assert isinstance(refused, Untrusted)
    assert "?ca=FILE" in refused.sentence


async def test_plain_and_tls_do_not_mix_and_say_so_at_once(server: ProtectedServer, tmp_path: Path) -> None:
    plain_to_tls = await refusal(f"holdfast://127.0.0.1:{server.process.port}")
    with ServerProcess(tmp_path / "plain") as plain:
        tls_to_plain = await refusal(f"holdfasts://127.0.0.1:{plain.port}?ca={server.authority.file}")

    assert isinstance(plain_to_tls, ProtocolError)
    assert "holdfasts://" in plain_to_tls.sentence
    assert isinstance(tls_to_plain, ProtocolError)
    assert "holdfast://" in tls_to_plain.sentence


async def test_files_named_in_a_url_that_are_not_there_are_named(server: ProtectedServer) -> None:
    refused = await refusal(f"holdfasts://127.0.0.1:{server.process.port}?ca=/nowhere.pem")

    assert isinstance(refused, BadSetting)
    assert "/nowhere.pem" in refused.sentence


async def test_without_users_a_name_and_a_password_are_passed_over_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ServerProcess(tmp_path) as plain:
        address = plain.url.removeprefix("holdfast://")
        async with holdfast.connect(f"holdfast://alice:anything@{address}") as client:
            await client.queue("orders").send(1)
            plain.kill()
            plain.start()
            await client.queue("orders").send(2)
        async with holdfast.connect(f"holdfast://alice@{address}"), holdfast.connect(plain.url):
            pass

    (warning,) = [text for text in caplog.messages if "has no users" in text]
    assert "the password of 'alice' was not checked" in warning
    assert "anything" not in warning


async def test_passwords_work_without_tls_on_the_same_machine(tmp_path: Path) -> None:
    with ProtectedServer(tmp_path, is_tls=False) as server:
        async with holdfast.connect(server.alice) as client:
            await client.queue("orders.new").send("one")


class Stranger:
    """A link that says what a test tells it to before it is welcome."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.heard: list[Message] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        link.received, link.lost = lambda frame: self.heard.append(frame.message), self.lost.set_result

    async def say(self, *frames: Frame) -> list[Message]:
        """What it hears until the link ends."""
        for frame in frames:
            self._link.send(frame)
        async with asyncio.timeout(10):
            await self.lost
        return self.heard


async def test_nobody_gets_past_the_greeting_without_logging_in(server: ProtectedServer) -> None:
    context = tls.client_context(server.authority.file)
    stranger = Stranger(await tcp.dial(("127.0.0.1", server.process.port), 10, context))

    heard = await stranger.say(
        Frame(0, Hello(MAGIC, [1], "", "alice", "wrong")), Frame(1, OpenSession(1)), Frame(1, Manage(2, "list", {}))
    )

    assert [type(message) for message in heard] == [Goodbye]


async def test_a_handshake_that_never_ends_does_not_keep_others_out(server: ProtectedServer) -> None:
    hanging = [await asyncio.open_connection("127.0.0.1", server.process.port) for _ in range(50)]
    for _, writer in hanging:
        writer.write(b"\x16\x03\x01\x02\x00\x01")

    async with holdfast.connect(server.alice) as client:
        await client.queue("orders.new").send("one")

    for _, writer in hanging:
        writer.close()


async def test_a_flood_of_logins_does_not_hold_up_those_who_are_in(fresh: ProtectedServer) -> None:
    async def guess(number: int) -> None:
        with pytest.raises((LoginFailed, Unreachable)):
            async with holdfast.connect(fresh.url("alice", f"guess {number}"), timeout=3):
                pass

    async def send(client: holdfast.Client) -> float:
        began = time.monotonic()
        await client.queue("orders.new").send("on time", timeout=60)
        return time.monotonic() - began

    async with holdfast.connect(fresh.alice) as client:
        quiet = sorted([await send(client) for _ in range(20)])[10]
        guessing = [asyncio.create_task(guess(number)) for number in range(200)]
        took: list[float] = []
        while len(took) < 20 or not any(task.done() for task in guessing):
            took.append(await send(client))
        for task in guessing:
            task.cancel()
        await asyncio.gather(*guessing, return_exceptions=True)

    assert sorted(took)[len(took) // 2] < max(0.5, 50 * quiet)


@pytest.mark.slow
async def test_a_new_password_counts_after_sighup_and_the_links_of_the_old_one_end(fresh: ProtectedServer) -> None:
    async with holdfast.connect(fresh.alice, timeout=5) as client, holdfast.connect(fresh.bob) as other:
        users_file.change_password(fresh.users, "alice", hashed("changed"))
        assert client.is_linked

        fresh.process.signal(signal.SIGHUP)

        with pytest.raises(Unreachable, match="user or password is wrong"):
            while True:
                with contextlib.suppress(LinkLost):  # asked while the link was on its way out
                    await client.status(timeout=3)
        await other.status()
    async with holdfast.connect(fresh.url("alice", "changed")) as client:
        await client.status()


async def test_a_broken_users_file_is_not_taken_over_and_the_log_says_why(fresh: ProtectedServer) -> None:
    good = fresh.users.read_text()
    fresh.users.write_text("[users.alice]\npasword = 5\n")
    async with holdfast.connect(fresh.alice) as client:
        fresh.process.signal(signal.SIGHUP)
        while "unknown key 'pasword'" not in fresh.process.log:
            await client.status()
    fresh.users.write_text(good)

    async with holdfast.connect(fresh.alice) as client:
        await client.queue("orders.new").send("one")

    assert "the users and certificate read before stay in force" in fresh.process.log


async def test_a_renewed_certificate_is_shown_after_sighup(fresh: ProtectedServer) -> None:
    renewed = fresh.authority.issue("127.0.0.1", common_name="renewed")
    renewed.certificate.replace(fresh.pem.certificate)
    renewed.key.replace(fresh.pem.key)
    context = tls.client_context(fresh.authority.file)

    fresh.process.signal(signal.SIGHUP)
    async with holdfast.connect(fresh.bob) as client:
        while "reloaded" not in fresh.process.log:
            await client.status()

    stranger = Stranger(link := await tcp.dial(("127.0.0.1", fresh.process.port), 10, context))
    assert "renewed" in link.certificate_names
    await stranger.say(Frame(0, Goodbye()))


@pytest.mark.slow
async def test_whoever_gives_no_password_or_no_user_is_told_how_to_give_one(
    fresh: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_PASSWORD", raising=False)

    without_password = await refusal(fresh.url("alice"))
    without_user = await refusal(fresh.url(""))
    wrong = await refusal(fresh.url("alice"), password="wrong")

    assert isinstance(without_password, LoginFailed)
    assert "asks for a login: this client gave no password for 'alice'; put it in HOLDFAST_PASSWORD" in without_password.sentence
    assert isinstance(without_user, LoginFailed)
    assert "this client named no user; write holdfasts://USER@HOST" in without_user.sentence
    assert wrong.sentence.startswith("user or password is wrong")
