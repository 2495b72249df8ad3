"""E6: a server can be watched over HTTP: metrics, health and status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
import holdfast.blocking
from holdfast.channel.channel import Channel
from holdfast.cli.main import run
from holdfast.errors import Blocked, LoginFailed, NoSuchDestination
from holdfast.http import limited_protocol
from holdfast.http.metrics import METRICS, PREFIX
from holdfast.http.readiness import DiskProbe
from tests.protected_server import ProtectedServer
from tests.running_server import running, start
from tests.server_process import ServerProcess, free_port
from tests.waiting import until, wait_until
from tests.watching import Told, ask, value_in, watched

TOKEN = "a-token-of-sixteen-and-more"


async def test_the_exposition_has_the_listed_metrics_and_no_other(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http, holdfast.connect(server.url) as client:
        await client.queue("orders").send(1)

        told = await http.ask("/metrics")

    families = {each.name: each for each in text_string_to_metric_families(told.body) if each.name.startswith(PREFIX)}
    found = {(name.removeprefix(PREFIX), each.type, each.documentation) for name, each in families.items()}
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert found == {(name.removesuffix("_total"), each.kind, each.help) for name, each in METRICS.items()}
    orders = [each for each in families["holdfast_waiting_events"].samples if each.labels["destination"] == "orders"]
    assert [(each.labels, each.value) for each in orders] == [({"destination": "orders", "subscription": ""}, 1)]


async def test_events_are_counted_on_their_way_and_timed(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http, holdfast.connect(server.url) as client:
        await client.create_topic("prices")
        await client.create_subscription("prices", "audit")
        await client.topic("prices").send(1)
        await client.queue("orders").send_many(range(10))
        async with client.queue("orders").receive(credit=10) as incoming:
            events = [await incoming.next() for _ in range(10)]
            await events[0].reject("no")
            await events[1].release()
            for event in events[2:5]:
                await event.confirm()
            again = await incoming.next()
            await incoming.settled()
            orders = {"destination": "orders", "subscription": ""}

            text = (await http.ask("/metrics")).body

        assert again.deliveries == 1
        found = {name: value_in(text, f"holdfast_{name}", **orders) for name, each in METRICS.items() if len(each.labels) == 2
                 and each.labels[0] == "destination"}  # fmt: skip
        age = found.pop("oldest_waiting_seconds")
        assert found == {
            "accepted_events_total": 10,
            "delivered_events_total": 11,
            "redelivered_events_total": 1,
            "confirmed_events_total": 3,
            "dead_events_total": 1,
            "waiting_events": 6,
            "in_flight_events": 6,
            "blocked": 0,
        }
        assert age is not None and age > 0
        assert value_in(text, "holdfast_waiting_events", destination="prices", subscription="audit") == 1
        assert value_in(text, "holdfast_deaths_total", code="rejected") == 1
        assert value_in(text, "holdfast_links") == 1
        assert value_in(text, "holdfast_sessions") == 1
        assert value_in(text, "holdfast_end_to_end_seconds_count") == 10
        assert (value_in(text, "holdfast_send_seconds_count") or 0) >= 2
        assert (value_in(text, "holdfast_sync_seconds_count") or 0) >= 3
        assert value_in(text, "holdfast_journal_size_bytes") == server.node.channel.pressure.size_bytes


async def test_the_age_of_the_oldest_is_that_of_the_first_that_waits_also_of_a_large_batch(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http, holdfast.connect(server.url) as client:
        await client.queue("orders").send(bytes(100_000))

        first = await http.value("holdfast_oldest_waiting_seconds", destination="orders", subscription="")
        second = await http.value("holdfast_oldest_waiting_seconds", destination="orders", subscription="")

        async with client.queue("orders").receive() as incoming:
            await (await incoming.next()).confirm()
            await incoming.settled()
        assert 0 < (first or 0) < (second or 0)
        assert await http.value("holdfast_oldest_waiting_seconds", destination="orders", subscription="") == 0


async def test_refusals_are_counted_by_code_and_a_blocked_destination_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http, holdfast.connect(server.url) as client:
        with pytest.raises(NoSuchDestination):
            await client.describe("nowhere")
        await client.create_queue("narrow", events_max=1)
        await client.queue("narrow").send(1)
        await until(lambda: server.node.messages.flow.is_blocked("narrow"), "the queue is blocked")

        text = (await http.ask("/metrics")).body

    assert value_in(text, "holdfast_refusals_total", code="no-such-destination") == 1
    assert value_in(text, "holdfast_blocked", destination="narrow", subscription="") == 1
    assert value_in(text, "holdfast_blocked_destinations") == 1


async def test_status_over_http_is_that_of_the_command_line(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http, holdfast.connect(server.url) as client:
        await client.queue("orders").send(1)

        over_http = msgspec.json.decode((await http.ask("/status")).body)

        assert over_http == await client.status()
        assert (over_http["waiting"], over_http["links"]) == (1, 1)


async def test_nothing_else_is_there_and_nothing_can_be_changed(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http:
        assert (await http.ask("/")).status == 404
        assert (await http.ask("/metrics", method="POST")).status == 405
        head = await http.ask("/metrics", method="HEAD")
        assert (head.status, head.body) == (200, "")


async def test_a_token_is_asked_for_and_health_is_told_without_it(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path, TOKEN) as http:
        refused = await http.ask("/metrics")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="holdfast"')
        assert (await http.ask("/status", token="wrong")).status == 401
        assert (await http.ask("/metrics", TOKEN)).status == (await http.ask("/status", TOKEN)).status == 200
        assert (await http.ask("/healthz")) == Told(200, (await http.ask("/healthz")).headers, "ok\n")
        assert (await http.ask("/readyz")).status == 200


async def test_a_stranger_who_sends_no_request_or_an_endless_one_is_cut_off_and_others_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_protocol, "HEAD_S_MAX", 0.05)
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http:
        silent, unused = await asyncio.open_connection("127.0.0.1", http.port)
        assert await silent.read() == b""

        monkeypatch.setattr(limited_protocol, "HEAD_S_MAX", 600.0)
        late, asking = await asyncio.open_connection("127.0.0.1", http.port)
        asking.write(b"GET /healthz HTTP/1.1\r\nHost: here\r\nX-Long: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                asking.write(b"x" * 1024)
                await asking.drain()
        with contextlib.suppress(ConnectionError):
            assert await late.read() == b""

        assert (await http.ask("/healthz")).status == 200
        for each in (unused, asking):
            each.close()


# --- ready -----------------------------------------------------------------------------------------------------------


async def test_a_server_is_not_ready_before_its_journal_is_replayed(tmp_path: Path) -> None:
    may_claim = asyncio.Event()

    async def before_claim(channel: Channel) -> None:
        await may_claim.wait()

    server = await start(tmp_path / "data", before_claim=before_claim)
    async with watched(server, tmp_path) as http, watched(server, tmp_path, TOKEN) as with_token:
        early = await http.ask("/readyz")
        silent = await with_token.ask("/readyz")
        assert (await http.ask("/healthz")).status == 200
        may_claim.set()
        await server.node.messages.wait_until_primary()
        late = await http.ask("/readyz")
    await server.close()

    assert (early.status, late.status) == (503, 200)
    assert "replayed" in early.body
    assert silent.body == "not ready\n"


async def test_a_server_whose_journal_is_full_is_not_ready_until_there_is_room_again(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http, holdfast.connect(server.url) as client:
        queue = client.queue("orders")
        with pytest.raises(Blocked):
            while True:
                await queue.try_send(bytes(20_000), timeout=5)
        full = await http.ask("/readyz")

        waiting = (await client.describe("orders"))["waiting"]
        async with queue.receive() as incoming:
            for _ in range(waiting):
                await (await incoming.next()).confirm()
        await until(lambda: not server.node.channel.pressure.is_short, "there is room again")

        assert full.status == 503 and "the journal is full" in full.body
        assert (await http.ask("/readyz")).status == 200


async def test_a_server_whose_disk_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "probe")  # to open it for writing takes until somebody reads: as a disk that hangs
    probe = DiskProbe(tmp_path / "probe", answer_s_max=0.05)

    hangs = [await probe.problem(), await probe.problem()]
    await asyncio.to_thread(lambda: os.close(os.open(tmp_path / "probe", os.O_RDONLY)))
    probe.close()

    assert hangs == ["the disk has not answered for 0.05 s"] * 2


async def test_a_server_whose_disk_refuses_to_be_written_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    async with running(tmp_path / "data") as server, watched(server, tmp_path) as http:
        told = await http.ask("/readyz")

    assert told.status == 503 and "the disk refuses" in told.body


# --- as it is served -------------------------------------------------------------------------------------------------


def test_a_server_answers_http_when_it_is_told_to_and_ends_in_good_order(tmp_path: Path) -> None:
    port = free_port()
    with ServerProcess(tmp_path / "data", "--http", f"127.0.0.1:{port}") as server:
        wait_until(lambda: f"answering http://127.0.0.1:{port}" in server.log, "it is said where it answers")
        told = ask(port, "/metrics")
        assert value_in(told.body, "holdfast_info", node="holdfast", version=holdfast.__version__) == 1
        assert server.stop() == 0


def test_a_server_with_users_asks_for_the_token_over_tls_and_counts_failed_logins(tmp_path: Path) -> None:
    token, port = tmp_path / "token", free_port()
    token.touch(0o600)
    token.write_text(TOKEN)
    with ProtectedServer(tmp_path, "--http", f"127.0.0.1:{port}", "--http-token-file", str(token)) as server:
        tls = ssl.create_default_context(cafile=str(server.authority.file))
        with pytest.raises(LoginFailed), holdfast.blocking.connect(server.url("alice", "wrong")) as client:
            client.status()

        assert ask(port, "/metrics", tls=tls).status == 401
        text = ask(port, "/metrics", TOKEN, tls=tls).body

        assert (value_in(text, "holdfast_login_failures_total") or 0) >= 1
        assert TOKEN not in text + server.process.log


def test_http_without_its_packages_is_refused_with_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("holdfast.http.endpoint", "holdfast.http.limited_protocol"):
        monkeypatch.delitem(sys.modules, name)

    code = run(["serve", "--data", str(tmp_path / "data"), "--http", "127.0.0.1:0"])

    assert code == 1
    assert "pip install 'holdfast[http]'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--http", "127.0.0.1"], "has no port"),
        (["--http", "0.0.0.0:7480"], "lets other machines in"),
        (["--http", "127.0.0.1:0", "--users", "users.toml"], "only to those who have a token"),
        (["--http", "127.0.0.1:0", "--http-token-file", "missing"], "cannot be read"),
    ],
)
def test_http_that_would_be_unsafe_or_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    code = run(["serve", "--data", str(tmp_path / "data"), *options])

    assert code == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
