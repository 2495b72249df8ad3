"""Rules for comparison that are learnt from servers which differ in times and ids (25): processes, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import blocking
from tests.domain_processes import Processes, holdfast
from tests.server_process import ServerProcess, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

# Each answer has a time and an id of its own, and a total that both agree on, but for one server that is told to be wrong.
PROGRAM = """
import json, os, time, uuid

total = 0


async def app(scope, receive, send):
    global total
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    total += 1
    said = {"order": {"id": str(uuid.uuid4()), "created": time.time_ns()}, "total": total + int(os.environ.get("WRONG", "0"))}
    headers = [(b"content-type", b"application/json"), (b"x-request-id", uuid.uuid4().hex.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with ServerProcess(tmp_path / "data") as server, Processes(tmp_path, server.url) as started:
        yield started


def _behind_engine(processes: Processes, *settings: str) -> tuple[str, list[int]]:
    """A server of the program for each of these settings; the URL of the engine before them, and their ports."""
    (processes.folder / "orders.py").write_text(PROGRAM)
    ports = [free_port() for _ in settings]
    for number, (port, setting) in enumerate(zip(ports, settings, strict=True)):
        command = [sys.executable, "-m", "uvicorn", "orders:app", "--app-dir", str(processes.folder), "--port", str(port)]
        processes.start(f"orders-{number}", "env", setting, *command, ready="Uvicorn running on")
    processes.domain("orders")
    return processes.behind_engine("orders", *(f"http://127.0.0.1:{port}" for port in ports)), ports


def _order(processes: Processes, url: str, count: int) -> None:
    """Make orders, and wait until the servers' disagreement about each is known."""
    before = _disagreements(processes)
    for _ in range(count):
        urllib.request.urlopen(urllib.request.Request(f"{url}/orders", b"{}"), timeout=60).read()
    wait_until(lambda: _disagreements(processes) == before + count, "all disagreements are known")


def _disagreements(processes: Processes) -> int:
    with (
        blocking.connect(processes.holdfast) as client,
        client.topic("domain.orders.requests").browse("history", selector="type = 'holdfast.domain.member'") as events,
    ):
        return sum(event.data["kind"] == "disagreement" for event in events)


def _learn(processes: Processes, *options: str) -> dict[str, Any]:
    return json.loads(_said(processes, "--json", *options))  # type: ignore[no-any-return]


def _said(processes: Processes, *options: str) -> str:
    return _domain(processes, "compare", "learn", "orders", *options)


def _domain(processes: Processes, *words: str) -> str:
    command = holdfast("domain", *words, "--url", processes.holdfast)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_times_and_ids_of_each_server_become_rules_with_which_the_servers_agree(processes: Processes) -> None:
    url, ports = _behind_engine(processes, "A=1", "B=1")
    nothing = _said(processes)
    _order(processes, url, 3)

    learned, shown = _learn(processes), _said(processes, "--count", "2", "--servers", "s0,s1")
    applied = _learn(processes, "--apply")
    definition = json.loads(_domain(processes, "show", "orders", "--json"))

    assert "have not disagreed" in nothing
    rules = {"headers": ["x-request-id"], "json": ["$.order.created", "$.order.id"], "text": [], "tolerance": 0.0, "function": ""}
    assert (learned["compare"], learned["servers"], learned["applied"]) == (rules, ["s0", "s1"], False)
    assert [(each["where"], each["count"]) for each in learned["differences"]] == [
        ("header x-request-id", 3), ("json $.order.created", 3), ("json $.order.id", 3),
    ]  # fmt: skip
    assert all(len(set(each["example"])) == 2 for each in learned["differences"])
    assert (learned["requests"], learned["unequal"], learned["not_kept"]) == (3, 0, 0)
    assert "compared 2 of 2 disagreements, between s0, s1" in shown
    pasted = tomllib.loads(shown[shown.index("[compare]") :])
    assert pasted == {"compare": {"headers": rules["headers"], "json": rules["json"]}}
    assert (applied["applied"], definition["compare"]) == (True, rules)

    processes.kill("engine")
    for number in range(2):
        processes.kill(f"listener-s{number}")
        processes.listener("orders", f"s{number}", f"http://127.0.0.1:{ports[number]}")
    url = processes.engine("orders")
    for _ in range(2):
        urllib.request.urlopen(urllib.request.Request(f"{url}/orders", b"{}"), timeout=60).read()
    status = json.loads(_domain(processes, "status", "orders", "--json"))
    assert (status["requests"], status["disagreements"]) == (2, 0)


def test_a_value_that_is_wrong_is_shown_with_an_example(processes: Processes) -> None:
    url, _ = _behind_engine(processes, "A=1", "WRONG=100")
    _order(processes, url, 2)

    learned = _learn(processes)

    found = {each["where"]: (each["count"], each["example"]) for each in learned["differences"]}
    assert found["json $.total"] == (2, ["1", "101"])
