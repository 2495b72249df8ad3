"""The programs in `examples/` run, and do what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[2]


def _run(*command: str, folder: Path, seconds: float = 60, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_program_sends_receives_and_confirms_and_does_so_again(tmp_path: Path) -> None:
    program = str(TOP / "examples" / "first_program.py")

    first = _run(program, folder=tmp_path)
    second = _run(program, folder=tmp_path)

    assert re.fullmatch(r"durable at position \d+\norder.placed {'sku': 7}\n", first)
    assert re.fullmatch(r"durable at position \d+\norder.placed {'sku': 7}\n", second)
    assert first != second


def test_the_readme_shows_the_first_program() -> None:
    programs = re.findall(r"```python\n(.+?)```", (TOP / "README.md").read_text(), re.DOTALL)

    assert programs == [(TOP / "examples" / "first_program.py").read_text()]


def test_the_boot_recorder_delivers_what_was_recorded_before_the_server_existed_first(tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "boot_recorder.py"), folder=tmp_path)

    assert re.findall(r"delivered: (.+)", out) == [
        "firmware checked",
        "disks mounted",
        "network is down",
        "sent when the server was up",
    ]


def test_the_worker_invoices_what_it_can_and_says_why_it_cannot_the_rest(tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "worker.py"), folder=tmp_path)

    assert sorted(out.splitlines()) == [
        "dead: {'sku': 'nine'}: the data does not fit Order: Expected `int`, got `str` - at `$.sku`",
        "dead: {'sku': 9, 'count': 1000}: ValueError: 1000 are not in stock",
        "invoice for 1 of 7",
        "invoice for 3 of 8",
    ]


def test_alerting_makes_one_alert_of_forty_disks_and_logs_what_its_rules_tell() -> None:
    out = _run("-m", "examples.alerting", folder=TOP)

    lines = out.splitlines()
    assert lines[0] == "incident: berlin, 40 hosts"
    assert [line.partition(": ")[0] for line in lines[1:]] == ["error disk-full", "warning error-rate", "warning queue-too-long"]
    assert "'orders' is blocked" in lines[3]


def test_the_page_of_rules_people_need_shows_those_of_the_example() -> None:
    page = re.search(r"```toml\n(# A disk is full.+?)```", (TOP / "docs" / "actions.md").read_text(), re.DOTALL)
    example = (TOP / "examples" / "alerting" / "rules.toml").read_text()

    assert page is not None
    shown, there = tomllib.loads(page[1])["rules"], tomllib.loads(example)["rules"]
    assert len(shown) == 5
    assert shown == {name: {key: value for key, value in rule.items() if key != "actions"} for name, rule in there.items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("examples") / "data") as process:
        yield process


@pytest.fixture(params=["memory", "server"])
def url(request: pytest.FixtureRequest) -> str:
    """The examples run where they are told to: in their own process, and against a server."""
    return "memory:" if request.param == "memory" else str(request.getfixturevalue("server").url)


def test_the_work_queue_retries_what_fails_and_gives_up_what_always_does(url: str, tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "work_queue.py"), url, folder=tmp_path, seconds=15)

    assert sorted(re.findall(r"done: (.+)", out)) == ["flaky upload", "resize cat.png", "resize dog.png", "resize owl.png"]
    assert [int(attempt) for attempt in re.findall(r"'impossible conversion' failed .+ attempt (\d)", out)] == [1, 2, 3, 4]
    assert "given up: 'impossible conversion' after 4 deliveries" in out


def test_requests_are_answered_each_to_whoever_asked(url: str, tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "request_reply.py"), url, folder=tmp_path, seconds=15)

    assert out.splitlines() == [
        "nobody answers yet",
        "10 EUR in USD: 11.0",
        "20 EUR in USD: 22.0",
        "30 EUR in USD: 33.0",
        "5 EUR in ZZZ: no rate for ZZZ",
    ]


def test_the_price_ticker_hears_topics_by_wildcard_expression_and_selector(url: str, tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "price_ticker.py"), url, folder=tmp_path, seconds=15)

    assert out.splitlines() == [
        "one word: AAA 99.5, BBB 12.25, AAA 101.0, CCC 7.0",
        "any words: AAA 99.5, BBB 12.25, AAA 101.0, CCC 7.0, options.AAA 3.5",
        "AAA or BBB: AAA 99.5, BBB 12.25, AAA 101.0",
        "over 100: AAA 101.0",
        "kept for the archive: AAA 99.5, AAA 101.0",
    ]


def test_the_order_saga_loses_no_order_and_carries_none_on_twice(url: str, tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "order_saga.py"), url, folder=tmp_path, seconds=15)

    assert out.splitlines() == [
        "rolled back: the printer is on fire",
        "ada: shipped",
        "bob: not paid",
        "ada: shipped",
        "ada: sold out",
        "left: 0 tea, ada has 80",
    ]


def test_a_file_arrives_as_it_was_sent(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("a few words\n")

    made = _run(str(TOP / "examples" / "file_transfer.py"), folder=tmp_path, seconds=15)
    given = _run(str(TOP / "examples" / "file_transfer.py"), "small.txt", folder=tmp_path, seconds=15)

    assert "received 20 MB" in made
    assert made.endswith("the same file\n")
    assert given.endswith("the same file\n")


@pytest.mark.slow
def test_the_demo_kills_the_server_loses_nothing_and_leaves_nothing_running(tmp_path: Path) -> None:
    out = _run("-m", "examples.demo", "--kills", "2", folder=TOP, seconds=120, TMPDIR=str(tmp_path))

    assert re.search(r"server killed \(SIGKILL\)\W+2 times", out)
    assert re.search(r"lost\W+0\s", out)
    assert "Nothing that was accepted was lost." in out
    assert _left_running(tmp_path) == []


@pytest.mark.slow
def test_the_demo_of_a_cluster_kills_each_kind_of_process_and_loses_nothing(tmp_path: Path) -> None:
    out = _run("-m", "examples.cluster_demo", "--quick", folder=TOP, seconds=240, TMPDIR=str(tmp_path))

    killed = re.findall(r"kill -9 of (?:node|nats)\d, (a client manager|the primary|which leads NATS)\n", out)
    assert killed == ["a client manager", "the primary", "which leads NATS"]
    assert re.search(r"│ lost +│ 0 +│", out)
    assert "Nothing that was accepted was lost." in out
    assert list(tmp_path.iterdir()) == []
    assert _left_running(tmp_path) == []


def test_a_demo_that_is_interrupted_leaves_nothing_running(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=TOP,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "kill -9" in line:
                demo.send_signal(signal.SIGINT)
                break
        demo.communicate(timeout=30)

    assert demo.returncode == 130
    assert _left_running(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def _left_running(folder: Path) -> list[str]:
    """Processes that have a folder on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = place.read_text(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_the_stock_order_is_executed_once_although_a_server_and_the_carrier_are_killed(tmp_path: Path) -> None:
    picture = tmp_path / "orders.png"

    out = _run("-m", "examples.stock_order", "--orders", "6", "--picture", str(picture), folder=TOP, seconds=180)

    assert "requests 6, orders at the exchange 6, seen twice 0" in out
    assert "server a and server b: yes" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_service_goes_on_while_its_servers_hang_die_and_lie(tmp_path: Path) -> None:
    path = f"{TOP}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    out = _run("-m", "examples.continuity_demo", "--quick", folder=tmp_path, seconds=180, PYTHONPATH=path)

    assert "failed 0" in out
    assert "c removed" in out
    assert "Nothing failed, and nothing counted twice." in out


@pytest.mark.slow
def test_the_branch_office_gets_everything_once_while_its_relay_is_killed_and_its_line_cut(tmp_path: Path) -> None:
    path = f"{TOP}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    out = _run("-m", "examples.branch_office", "--quick", folder=tmp_path, seconds=120, PYTHONPATH=path)

    assert "the relay is killed" in out
    assert "the line is cut" in out
    assert "account   nothing lost, nothing twice" in out


@pytest.mark.slow
def test_the_bank_has_the_balance_right_at_both_servers_after_one_was_killed(tmp_path: Path) -> None:
    path = f"{TOP}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    out = _run("-m", "examples.bank", "--quick", "--plot", "bank.png", folder=tmp_path, seconds=120, PYTHONPATH=path)

    assert "the balance is 750" in out
    assert "failed: 0" in out
    assert "The balance is right at both servers." in out
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_files_are_equal_at_all_places_after_one_lost_its_disk(tmp_path: Path) -> None:
    path = f"{TOP}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    out = _run("-m", "examples.file_store", "--quick", folder=tmp_path, seconds=120, PYTHONPATH=path)

    assert out.count(" files, as written") == 3
    assert "written and read: 45, failed: 0" in out
    assert "All places have the same files." in out
