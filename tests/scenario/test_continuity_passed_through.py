"""Streams that are passed through, all parts as processes: a server is killed midway, and the client goes on at another (23)."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.domain_processes import Processes
from tests.server_process import ServerProcess, free_port

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, os

NAME = os.environ["NAME"]


async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": f"data: {NAME}\\n\\n".encode(), "more_body": True})
        await asyncio.Event().wait()
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": NAME})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with ServerProcess(tmp_path / "data") as holdfast, Processes(tmp_path, holdfast.url) as started:
        yield started


@pytest.fixture
def url(processes: Processes) -> str:
    """Two servers behind an engine; its URL."""
    (processes.folder / "live.py").write_text(PROGRAM)
    processes.domain("live", "--stream", "/live")
    ports = [free_port(), free_port()]
    for number, port in enumerate(ports):
        command = [sys.executable, "-m", "uvicorn", "live:app", "--app-dir", str(processes.folder), "--port", str(port)]
        processes.start(f"s{number}", "env", f"NAME=s{number}", *command, ready="Uvicorn running on")
    return processes.behind_engine("live", *(f"http://127.0.0.1:{port}" for port in ports))


def test_a_websocket_whose_server_is_killed_is_closed_with_1012_and_the_client_goes_on_at_another(
    processes: Processes, url: str
) -> None:
    def open_one() -> ClientConnection:
        return connect(f"{url.replace('http', 'ws')}/live", open_timeout=60)

    with open_one() as client:
        first = client.recv(timeout=60)
        client.send("hello")
        assert client.recv(timeout=60) == "hello"
        processes.kill(str(first))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=60)
    again = []
    for _ in range(2):  # in turn, and the one that is dead passes it on
        with open_one() as client:
            again.append(client.recv(timeout=60))

    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1012, "the server is lost; connect again")
    assert again == [other for other in ("s0", "s1") if other != first] * 2


def test_server_sent_events_whose_server_is_killed_are_cut_and_the_client_goes_on_at_another(
    processes: Processes, url: str
) -> None:
    def open_one() -> HTTPResponse:
        return urllib.request.urlopen(urllib.request.Request(f"{url}/live", headers={"Accept": "text/event-stream"}), timeout=60)  # type: ignore[no-any-return]

    with open_one() as stream:
        first = stream.readline().decode().split()[1]
        processes.kill(first)
        with pytest.raises((IncompleteRead, ConnectionError)):
            stream.read()
    again = []
    for _ in range(2):
        with open_one() as stream:
            again.append(stream.readline().decode().split()[1])

    assert again == [other for other in ("s0", "s1") if other != first] * 2
