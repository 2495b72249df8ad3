"""Unmodified HTTP servers and clients with engine and listeners between them, all of them processes (C2, C12)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast.blocking
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.engine.http_clients import HttpxTransport, RequestsAdapter
from tests.domain_processes import Processes, port_in
from tests.server_process import ServerProcess, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sqlite3

database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE notes (text TEXT)")


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["method"] == "POST":
        with database:
            database.execute("INSERT INTO notes VALUES (?)", (body.decode(),))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    notes = [text for text, in database.execute("SELECT text FROM notes")]
    for piece in ("[", ", ".join(json.dumps(note) for note in notes), "]"):  # in chunks, without a length
        await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("continuity") / "data") as process:
        yield process


@pytest.fixture
def processes(server: ServerProcess, tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path, server.url) as started:
        yield started


def _curl(*arguments: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of what `curl` got."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    done = subprocess.run(["curl", "-sS", "-i", *arguments], capture_output=True, text=True, timeout=60, check=True)
    head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.split("\n")
    return int(status.split()[1]), {line.split(": ")[0].lower(): line.split(": ", 1)[1] for line in lines}, body


def _banks(processes: Processes, *options: str) -> list[str]:
    """Two servers of the bank; their URLs."""
    command = [sys.executable, "-m", "examples.bank.server", *options, "--data"]
    said = [processes.start(f"bank-{each}", *command, str(processes.folder / f"{each}.sqlite"), ready="open on") for each in "ab"]
    return [f"http://127.0.0.1:{port_in(line)}" for line in said]


def _balance(bank: str) -> int:
    return int(json.loads(urllib.request.urlopen(f"{bank}/accounts/joe", timeout=30).read())["balance"])


def _requests_taken(processes: Processes, domain: str) -> int:
    """How many requests are in the topic of a domain."""
    with (
        holdfast.blocking.connect(processes.holdfast) as client,
        client.topic(f"domain.{domain}.requests").browse("history") as events,
    ):
        return sum(event.type == "holdfast.http.request" for event in events)


def _digests(banks: list[str]) -> set[str]:
    return {json.loads(urllib.request.urlopen(f"{each}/digest", timeout=30).read())["digest"] for each in banks}


# --- servers -----------------------------------------------------------------------------------------------------------


def test_files_of_two_http_servers_of_python_are_fetched_with_curl(processes: Processes) -> None:
    ports = []
    for each in "ab":
        folder = processes.folder / each
        folder.mkdir()
        (folder / "hello.txt").write_text("hello\n" * 50_000)
        os.utime(folder / "hello.txt", (1_000_000_000, 1_000_000_000))
        command = [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
        ports.append(port_in(processes.start(f"files-{each}", *command, ready="Serving HTTP on")))
    processes.domain("files", "--read", "/**")
    url = processes.behind_engine("files", *(f"http://127.0.0.1:{port}" for port in ports))

    status, headers, body = _curl(f"{url}/hello.txt")
    missing, _, _ = _curl(f"{url}/missing.txt")
    _, head, nothing = _curl("--head", f"{url}/hello.txt")

    assert (status, body) == (200, "hello\n" * 50_000)
    assert headers["content-type"] == "text/plain"
    assert "holdfast-transaction" in headers
    assert (missing, head["content-length"], nothing) == (404, "300000", "")


def test_deposits_with_curl_reach_both_servers_of_a_bank_and_go_on_when_one_is_killed(processes: Processes) -> None:
    banks = _banks(processes)
    processes.domain("bank-curl")
    url = processes.behind_engine("bank-curl", *banks)

    first = _curl("-d", '{"amount": 500}', f"{url}/accounts/joe/deposit")
    again = [_curl("-d", '{"amount": 250}', "-H", "Idempotency-Key: k", f"{url}/accounts/joe/deposit") for _ in range(2)]
    wait_until(lambda: len(_digests(banks)) == 1, "both servers are equal")
    processes.kill("bank-b")
    after = _curl("-d", '{"amount": 1}', f"{url}/accounts/joe/deposit")
    refused = _curl("-d", '{"amount": 5000}', f"{url}/accounts/joe/withdraw")

    assert [(each[0], json.loads(each[2])["balance"]) for each in (first, *again, after)] == [
        (200, 500), (200, 750), (200, 750), (200, 751),
    ]  # fmt: skip
    assert again[1][1]["holdfast-replayed"] == "true"
    assert refused[0] == 409


def test_a_deposit_is_made_at_both_servers_although_its_client_has_hung_up(processes: Processes) -> None:
    banks = _banks(processes, "--slow", "1")
    processes.domain("bank-left")
    url = processes.behind_engine("bank-left", *banks)
    body = b'{"amount": 250}'

    with socket.create_connection(("127.0.0.1", port_in(url))) as client:
        client.sendall(b"POST /accounts/joe/deposit HTTP/1.1\r\nHost: bank\r\nIdempotency-Key: k\r\n")
        client.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        wait_until(lambda: _requests_taken(processes, "bank-left") == 1, "the request is accepted")

    wait_until(lambda: all(_balance(each) == 250 for each in banks), "both have the deposit")
    again = _curl("-d", body.decode(), "-H", "Idempotency-Key: k", f"{url}/accounts/joe/deposit")
    assert (json.loads(again[2])["balance"], again[1]["holdfast-replayed"]) == (250, "true")


def test_a_uvicorn_application_with_sqlite_answers_in_chunks_by_port_and_by_unix_socket(processes: Processes) -> None:
    (processes.folder / "notes.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "uvicorn", "notes:app", "--app-dir", str(processes.folder)]
    port, path = free_port(), processes.folder / "notes.sock"
    processes.start("notes-a", *command, "--port", str(port), ready="Uvicorn running on")
    processes.start("notes-b", *command, "--uds", str(path), ready="Uvicorn running on")
    processes.domain("notes")
    url = processes.behind_engine("notes", f"http://127.0.0.1:{port}", f"http+unix://{path}")

    answers = [_curl("-d", f"note {each}", url) for each in range(3)]
    processes.kill("notes-a")
    last = _curl("-d", "note 3", url)

    assert [json.loads(body) for _, _, body in answers] == [[f"note {n}" for n in range(each + 1)] for each in range(3)]
    assert json.loads(last[2]) == [f"note {each}" for each in range(4)]


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_files_of_two_nginx_are_fetched(processes: Processes) -> None:
    ports = []
    for each in "ab":
        folder, port = processes.folder / f"nginx-{each}", free_port()
        (folder / "files").mkdir(parents=True)
        (folder / "files" / "hello.txt").write_text("hello from nginx\n")
        os.utime(folder / "files" / "hello.txt", (1_000_000_000, 1_000_000_000))
        paths = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log stderr notice; events {{}}"
            f"http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port}; root {folder}/files; }} }}"
        )
        processes.start(f"nginx-{each}", "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), ready="[notice]")
        ports.append(port)
    processes.domain("nginx", "--read", "/**")
    url = processes.behind_engine("nginx", *(f"http://127.0.0.1:{port}" for port in ports))

    both = _curl(f"{url}/hello.txt")
    processes.kill("nginx-a")
    one = _curl(f"{url}/hello.txt")

    assert [(status, body) for status, _, body in (both, one)] == [(200, "hello from nginx\n")] * 2


# --- clients -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["requests", "httpx"])
def test_clients_of_python_speak_with_an_engine_as_with_any_server(processes: Processes, package: str) -> None:
    module = pytest.importorskip(package)
    banks = _banks(processes)
    processes.domain(f"bank-{package}")
    url = processes.behind_engine(f"bank-{package}", *banks)
    client = module.Session() if package == "requests" else module.Client()

    with client:
        answers = [client.post(f"{url}/accounts/joe/deposit", json={"amount": 250}) for _ in range(3)]
        again = [client.post(f"{url}/accounts/joe/deposit", json={"amount": 1}, headers={"Idempotency-Key": "k"}) for _ in "12"]
        other = client.post(f"{url}/accounts/joe/deposit", json={"amount": 2}, headers={"Idempotency-Key": "k"})

    assert [each.json()["balance"] for each in (*answers, *again)] == [250, 500, 750, 751, 751]
    assert again[1].headers["holdfast-replayed"] == "true"
    assert other.status_code == 422
    wait_until(lambda: len(_digests(banks)) == 1, "both servers are equal")


async def test_httpx_with_the_transport_needs_no_engine_process_and_reaches_other_urls_directly(processes: Processes) -> None:
    httpx = pytest.importorskip("httpx")
    banks = _banks(processes)
    processes.domain("bank-transport")
    for name, each in zip("ab", banks, strict=True):
        processes.listener("bank-transport", name, each)

    async with Engine(processes.holdfast, "bank-transport") as engine:
        await engine.until_ready(60)
        async with httpx.AsyncClient(mounts={"http://bank.internal": HttpxTransport(engine, session="joe")}) as http:
            sent: dict[str, Any] = {"json": {"amount": 250}, "headers": {"Idempotency-Key": "k"}}
            first, again = [await http.post("http://bank.internal/accounts/joe/deposit", **sent) for _ in range(2)]
            other = await http.post("http://bank.internal/accounts/joe/deposit", json={"amount": 1}, headers=sent["headers"])
            direct = await http.get(f"{banks[0]}/accounts/jane")

    assert (first.json()["balance"], again.json()["balance"], direct.json()["balance"]) == (250, 250, 0)
    assert (again.headers["holdfast-replayed"], other.status_code) == ("true", 422)
    assert first.headers["holdfast-transaction"] != again.headers["holdfast-transaction"]
    assert "holdfast-transaction" not in direct.headers


def test_requests_with_the_adapter_needs_no_engine_process_and_reaches_other_urls_directly(processes: Processes) -> None:
    requests = pytest.importorskip("requests")
    banks = _banks(processes)
    processes.domain("bank-adapter")
    for name, each in zip("ab", banks, strict=True):
        processes.listener("bank-adapter", name, each)

    with RequestsAdapter(processes.holdfast, "bank-adapter", session="joe") as adapter, requests.Session() as http:
        http.mount("http://bank.internal", adapter)
        wait_until(lambda: adapter.engine.is_ready, "the listeners are linked")
        sent: dict[str, Any] = {"json": {"amount": 250}, "headers": {"Idempotency-Key": "k"}}
        first, again = [http.post("http://bank.internal/accounts/joe/deposit", **sent) for _ in range(2)]
        other = http.post("http://bank.internal/accounts/joe/deposit", json={"amount": 1}, headers=sent["headers"])
        direct = http.get(f"{banks[0]}/accounts/jane")

    assert (first.json()["balance"], again.json()["balance"], direct.json()["balance"]) == (250, 250, 0)
    assert (again.headers["holdfast-replayed"], other.status_code) == ("true", 422)
    assert first.headers["holdfast-transaction"] != again.headers["holdfast-transaction"]
    assert "holdfast-transaction" not in direct.headers
