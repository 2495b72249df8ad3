"""What actions reach outside: a real SMTP server, a real HTTP server, a scrape, commands, log files, a lake table (A10)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import socket
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.header import decode_header, make_header
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import deltalake
import pytest
from aiosmtpd.controller import Controller
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.actions.rules_file import parse
from tests import acting
from tests.server_process import free_port
from tests.waiting import until


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory:{request.node.name[:60]}"


@asynccontextmanager
async def at_work(url: str, folder: Path, text: str) -> AsyncIterator[holdfast.Client]:
    async with holdfast.connect(url) as client, acting.at_work(url, rule_set=parse(text, folder)):
        yield client


class Mailbox:
    """Keeps what an SMTP server was given."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.mails.append(envelope.content)
        return "250 OK"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # apprise imports it
async def test_a_mail_reaches_a_real_smtp_server(url: str, tmp_path: Path) -> None:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port())
    controller.start()
    rules = f"""
        name = "mail"
        [rules.disk]
        topics = ["disk"]
        selector = "percent > 90"
        key = "host"
        severity = "error"
        summary = "{{host}} is {{percent}} % full"
        [[rules.disk.actions]]
        do = "notify"
        to = ["mailto://127.0.0.1:{controller.port}?from=holdfast@example.com&to=night@example.com&mode=insecure"]
        body = "{{summary}}, count {{count}}"
    """
    try:
        async with at_work(url, tmp_path, rules) as client:
            await client.topic("disk").send(properties={"host": "web-1", "percent": 97})
            await client.topic("disk").send(properties={"host": "web-2", "percent": 50})
            await until(lambda: box.mails, "a mail has come")
    finally:
        controller.stop()

    (mail,) = box.mails
    read = message_from_bytes(mail)
    body = "".join(str(part.get_payload(decode=True).decode()) for part in read.walk() if not part.is_multipart())  # type: ignore[union-attr]
    assert str(make_header(decode_header(read["Subject"]))) == "[error] web-1 is 97 % full"
    assert "night@example.com" in read["To"]
    assert "web-1 is 97 % full, count 1" in body


class Hooks(ThreadingHTTPServer):
    """A receiver of webhooks that is down half of the time: it hangs up, or answers 503, and takes the other half."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.requests = 0
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.keys: list[str] = []


class _Hook(BaseHTTPRequestHandler):
    server: Hooks

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        self.server.keys.append(self.headers["Idempotency-Key"])
        if self.server.requests % 4 == 1:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.server.requests % 4 == 3:
            self.send_error(503, "come back")
            return
        self.server.taken.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    server = Hooks()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_webhook_reaches_a_server_that_is_down_half_of_the_time_signed_and_with_one_key(
    url: str, tmp_path: Path, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a-secret-of-ours")
    rules = f"""
        name = "hooks"
        [rules.any]
        topics = ["t"]
        [[rules.any.actions]]
        do = "webhook"
        url = "http://127.0.0.1:{hooks.server_port}/hook?x=1"
        secret = "${{env:HOOK_SECRET}}"
        backoff = 0.01
    """
    async with at_work(url, tmp_path, rules) as client:
        for number in range(10):
            await client.topic("t").send({"number": number})
        await until(lambda: len({headers["Idempotency-Key"] for headers, _ in hooks.taken}) == 10, "all ten have come")

    assert hooks.requests > 10
    assert len(set(hooks.keys)) == 10
    events = [json.loads(body) for _, body in hooks.taken]
    assert sorted(event["data"]["events"][0]["data"]["number"] for event in events) == list(range(10))
    assert {(event["specversion"], event["type"], event["source"]) for event in events} == {
        ("1.0", "holdfast.alert", "/holdfast/actions/hooks/any")
    }
    for headers, body in hooks.taken:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(b"a-secret-of-ours", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["Content-Type"].startswith("application/cloudevents+json")


async def test_counters_and_histograms_are_scraped_by_a_real_parser(url: str, tmp_path: Path) -> None:
    port = free_port()
    rules = f"""
        name = "counters"
        metrics = "127.0.0.1:{port}"
        [rules.orders]
        topics = ["orders"]
        [[rules.orders.actions]]
        do = "count"
        metric = "orders_failed_total"
        labels = {{ site = "site", kind = "{{data.kind|other}}" }}
        [[rules.orders.actions]]
        do = "count"
        name = "seconds"
        metric = "order_seconds"
        value = "seconds"
        buckets = [0.1, 1.0]
    """

    def scraped() -> dict[str, float]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        counted = [each for each in samples if not each.name.endswith("_created")]
        return {"answers": 1, **{f"{each.name}{sorted(each.labels.items())}": each.value for each in counted}}

    async with at_work(url, tmp_path, rules) as client:
        assert scraped() == {"answers": 1}  # nothing is counted yet
        for number in range(6):
            data = {"kind": "card"} if number < 4 else {}
            await client.topic("orders").send(data, properties={"site": "eu", "seconds": 0.05 if number else 3.0})
        await until(lambda: scraped().get("order_seconds_count[]") == 6, "all are counted", poll_s=0.05)
        found = scraped()

    assert found["orders_failed_total[('kind', 'card'), ('site', 'eu')]"] == 4
    assert found["orders_failed_total[('kind', 'other'), ('site', 'eu')]"] == 2
    assert found["order_seconds_bucket[('le', '0.1')]"] == 5
    assert found["order_seconds_sum[]"] == pytest.approx(3.25)
    assert found["holdfast_rules_alerts_total[('rule', 'orders')]"] == 6
    assert found["holdfast_rules_actions_done_total[('action', 'seconds'), ('rule', 'orders')]"] <= 6


async def test_a_command_gets_the_alert_on_its_input_and_no_shell_reads_its_words(url: str, tmp_path: Path) -> None:
    rules = """
        name = "run"
        [rules.any]
        topics = ["t"]
        key = "host"
        [[rules.any.actions]]
        do = "run"
        command = ["/bin/sh", "-c", "cat > \\"$2\\"; echo \\"$1\\" >> \\"$2\\"", "sh", "{host}", "FILE"]
    """.replace("FILE", str(tmp_path / "out"))
    words = "x; touch /tmp/never $(id) `id`"
    async with at_work(url, tmp_path, rules) as client:
        await client.topic("t").send(properties={"host": words})
        await until(lambda: (tmp_path / "out").exists() and "touch" in (tmp_path / "out").read_text()[-60:], "it has run")

    alert, said = (tmp_path / "out").read_text().rsplit("}", 1)
    assert json.loads(alert + "}")["keys"] == [words]
    assert said.strip() == words


async def test_a_command_that_hangs_is_ended_with_all_its_children(url: str, tmp_path: Path) -> None:
    rules = f"""
        name = "hang"
        [rules.any]
        topics = ["t"]
        [[rules.any.actions]]
        do = "run"
        command = ["/bin/sh", "-c", "sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/shell; wait"]
        timeout = "1s"
        retries = 0
    """
    async with at_work(url, tmp_path, rules) as client:
        await client.topic("t").send("x")

        async def dead() -> bool:
            return len(await client.dead.list()) == 1

        await until(dead, "it is given up")
        (event,) = await client.dead.list()

    assert "ran for more than 1 s and was killed" in event.dead[0].reason
    for name in ("child", "shell"):
        pid = int((tmp_path / name).read_text())
        await until(lambda pid=pid: not _lives(pid), f"the {name} is gone")  # type: ignore[misc]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_log_file_is_rotated_and_syslog_gets_a_line(url: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        path = str(tmp_path / "log.socket")
        syslog.bind(path)
        syslog.settimeout(30)
        rules = f"""
            name = "logs"
            [rules.any]
            topics = ["t"]
            severity = "critical"
            summary = "{{data}}"
            [[rules.any.actions]]
            do = "log"
            file = "alerts.log"
            line = "{{summary}}"
            size = "100"
            keep = 2
            [[rules.any.actions]]
            do = "log"
            name = "syslog"
            to = "syslog"
            socket = "{path}"
            [[rules.any.actions]]
            do = "log"
            name = "journald"
            to = "journald"
            socket = "{path}"
        """
        said: list[bytes] = []
        async with at_work(url, tmp_path, rules) as client:
            for number in range(6):
                await client.topic("t").send(f"line {number} " + "x" * 60)
                await until(lambda n=number: f"line {n} " in _logged(tmp_path), "the line is written")  # type: ignore[misc]
                said += [await asyncio.to_thread(syslog.recv, 4096) for _ in range(2)]

    assert sorted(name for name in os.listdir(tmp_path) if "alerts" in name) == ["alerts.log", "alerts.log.1", "alerts.log.2"]
    assert (tmp_path / "alerts.log").read_text().startswith("line 5")
    assert (tmp_path / "alerts.log.2").read_text().startswith("line 3")
    lines = [each.decode() for each in said]
    assert any(line.startswith(f"<26>holdfast[{os.getpid()}]: ") and "line 0" in line for line in lines)
    assert any("HOLDFAST_RULE=any\n" in line and "PRIORITY=2\n" in line for line in lines)


def _logged(folder: Path) -> str:
    try:
        return "".join(path.read_text() for path in folder.glob("alerts.log*"))
    except FileNotFoundError:  # it is rotated just now
        return ""


async def test_alerts_are_rows_of_a_lake_table_in_batches_each_once(url: str, tmp_path: Path) -> None:
    rules = """
        name = "lake"
        [rules.any]
        topics = ["t"]
        key = "host"
        [[rules.any.actions]]
        do = "table"
        path = "alerts"
        every = "200ms"
    """

    def rows() -> list[dict[str, Any]]:
        try:
            return list(deltalake.DeltaTable(tmp_path / "alerts").to_pyarrow_table().to_pylist())
        except deltalake.exceptions.TableNotFoundError:
            return []

    async with at_work(url, tmp_path, rules) as client:
        await client.topic("t").send_many([holdfast.Event(data={"n": n}, properties={"host": f"h{n}"}) for n in range(50)])
        await until(lambda: len(rows()) == 50, "all rows are there")

    found = rows()
    assert sorted(row["key"] for row in found) == sorted(f"h{n}" for n in range(50))
    assert {json.loads(row["data"])["n"] for row in found} == set(range(50))
    assert deltalake.DeltaTable(tmp_path / "alerts").version() < 10
