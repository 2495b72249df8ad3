"""`holdfast relay` as a program: what it prints, what it answers, how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import holdfast.blocking
from holdfast.relay.metrics import METRICS, PREFIX
from tests.relay_process import RelayProcess
from tests.server_process import ServerProcess, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "holdfast", *arguments], capture_output=True, text=True, timeout=60)


TOP = Path(__file__).parents[2]


def definition(upstream: str, local: str) -> str:
    return f"""
name = "berlin"
local = "{local}"
[upstreams.head]
url = "{upstream}"
[routes.orders]
from = "head"
queue = "orders"
to = "here"
mode = "end-to-end"
"""


def test_a_relay_tells_how_it_fares_and_ends_in_good_order(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "head") as head,
        ServerProcess(tmp_path / "berlin") as berlin,
        RelayProcess(tmp_path / "relay.toml", definition(head.url, berlin.url)) as relay,
    ):
        with holdfast.blocking.connect(head.url) as client:
            client.queue("orders").send_many(range(10))
        relay.until_started()

        def told() -> dict[str, object]:
            found = run("relay", "status", "--config", str(relay.file), "--json")
            return dict(json.loads(found.stdout)["routes"][0]) if found.returncode == 0 else {}

        wait_until(lambda: told().get("waiting_here") == 10, "ten events wait here")
        shown = run("relay", "status", "--config", str(relay.file))
        assert shown.returncode == 0
        assert re.search(r"orders +end-to-end +head", shown.stdout)
        with holdfast.blocking.connect(berlin.url) as client, client.queue("here").receive() as incoming:
            for _ in range(10):
                incoming.next(10).confirm()
        wait_until(lambda: told().get("confirmed") == 10, "upstream has applied the confirms")

        assert relay.stop() == 0
        gone = run("relay", "forget", "--config", str(relay.file), "--all", "--json")
        assert (gone.returncode, gone.stdout) == (0, '{"route":"orders","lost":0}\n')
        away = run("relay", "status", "--config", str(relay.file), "--timeout", "1")
        assert (away.returncode, "does not run" in away.stderr) == (3, True)


def test_an_address_for_metrics_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "relay.toml").write_text(definition("holdfast://127.0.0.1:1", f"file:{tmp_path}/here"))

    done = run("relay", "--config", str(tmp_path / "relay.toml"), "--metrics", "nonsense")

    assert (done.returncode, done.stdout) == (1, "")
    assert "--metrics 'nonsense' has no port; write HOST:PORT" in done.stderr


def test_a_relay_shows_metrics_for_prometheus(tmp_path: Path) -> None:
    port = free_port()
    with (
        ServerProcess(tmp_path / "head") as head,
        ServerProcess(tmp_path / "berlin") as berlin,
        RelayProcess(tmp_path / "relay.toml", definition(head.url, berlin.url), "--metrics", f"127.0.0.1:{port}") as relay,
    ):
        relay.until_started()

        def text() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return str(answer.read(), "utf-8")

        wait_until(lambda: 'holdfast_relay_appended_total{route="orders"}' in text(), "the route is counted")
        relay.signal(signal.SIGINT)
        wait_until(lambda: relay.is_over, "the relay has ended")


def test_the_document_lists_every_metric_of_a_relay_and_no_other() -> None:
    rows = re.findall(r"^\| `(holdfast_relay_\w+)` \| (\w+) \| (.+?) \|$", (TOP / "docs" / "relays.md").read_text(), re.MULTILINE)

    endings = {"counter": "_total", "gauge": ""}
    assert {name: (kind, told) for name, kind, told in rows} == {
        PREFIX + name + endings[kind]: (kind, told) for name, (kind, told) in METRICS.items()
    }


def test_every_mistake_of_a_file_is_told_and_the_exit_code_is_one(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(
        'name = "berlin"\nlocal = "file:./b"\n[upstreams.head]\nurl = "holdfast://x"\n[routes.a]\nfrom = "haed"\nqeue = "q"\n'
    )

    done = run("relay", "--config", str(file))

    assert done.returncode == 1
    assert "routes.a.qeue is not known; did you mean queue?" in done.stderr


def test_a_relay_without_its_journal_says_so_with_exit_code_three(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(definition("holdfast://127.0.0.1:1", "holdfast://127.0.0.1:2"))

    done = run("relay", "--config", str(file))

    assert done.returncode == 3


def test_without_a_file_a_relay_asks_for_one() -> None:
    done = run("relay")

    assert (done.returncode, "--config FILE" in done.stderr) == (1, True)


def test_a_server_runs_its_relay_beside_itself_and_ends_it_with_itself(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    with ServerProcess(tmp_path / "head") as head:
        file.write_text(definition(head.url, "unused").replace('local = "unused"\n', ""))
        with ServerProcess(tmp_path / "berlin", "--relay", str(file)) as berlin, holdfast.blocking.connect(head.url) as client:
            client.queue("orders").send("x")
            with holdfast.blocking.connect(berlin.url) as here, here.queue("here").receive() as incoming:
                event = incoming.next(30)
                event.confirm()

            assert event.data == "x"
            wait_until(lambda: client.describe("orders")["waiting"] == 0, "upstream has heard of it")
            assert berlin.stop() == 0
            assert client.status()["links"] == 1, "the relay has ended with its server"
