"""Every example in a help text works as it is printed (E4)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import typer.main

import holdfast
from holdfast.cli.failure import EXIT_CODES, USAGE
from holdfast.cli.main import app
from holdfast.continuity.effects import effect_events
from holdfast.continuity.storage.serving import embedded
from holdfast.node.login import users_file
from holdfast.spark.pipelines.running.registry import PIPELINES
from holdfast.worker.signals import LEFT
from tests import effort
from tests.certificates import Authority
from tests.server_process import SMALL_QUERY, ServerProcess

SERVE = "holdfast serve"
WORK = "holdfast work"
BENCH = "holdfast bench"
# Programs of a domain or file store, which is there when its examples have run, and what they say when they are ready.
OF_A_DOMAIN = {
    "holdfast effects": "carrying effects out",
    "holdfast engine": "taking requests on",
    "holdfast listener": "server ",
    "holdfast store place": "place ",
    "holdfast store serve": "taking requests on",
}
ACTIONS = "holdfast actions run"
# A cluster of the first example is left running for those of the commands that follow.
CLUSTER_UP = "holdfast cluster up"
# Commands that speak with a front of a file store.
AT_A_FRONT = {f"holdfast store {each}" for each in ("put", "ls", "get", "rm")}
SETTLE = "holdfast domain settle"
RELAY_STATUS = "holdfast relay status"
RELAY_FORGET = "holdfast relay forget"
MAKING = {
    "holdfast send",
    "holdfast domain create",
    "holdfast store create",
    "holdfast record",
    "holdfast destination create",
    "holdfast subscription create",
    "holdfast user add",
}
# Spark takes seconds to start: what these run is checked and not started. `tests/spark` runs each of them.
ON_SPARK = {f"holdfast pipeline {pipeline.name}" for pipeline in PIPELINES}

RULES = """
name = "alerting"
[rules.disk-full]
topics = ["metrics.*", "jobs.*"]
actions = [{ do = "log", file = "alerts.log" }]
"""
WORKER = """
import holdfast

worker = holdfast.Worker()
worker.queue("work")(print)
"""
RELAY = """
name = "berlin"
local = "{local}"
[upstreams.head]
url = "memory:"
[routes.orders]
from = "head"
queue = "orders"
"""
PIPELINE_SETTINGS = """
destinations = "orders"
[archive]
subscription = "lake"
checkpoint = "./checkpoints/archive"
table = "./lake/events"
[audit]
subscription = "lake"
table = "./lake/events"
"""


def _commands(command: Any, path: str = "holdfast") -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, child in command.commands.items():
        yield from _commands(child, f"{path} {name}")


COMMANDS = dict(_commands(typer.main.get_command(app)))


def _section(command: Any, title: str) -> list[str]:
    found = re.search(rf"{title}:\n((?:  .+\n?)+)", command.epilog or "")
    return [line.strip() for line in found[1].splitlines()] if found else []


EXAMPLES = [(name, example) for name, command in COMMANDS.items() for example in _section(command, "Examples")]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with ServerProcess(tmp_path / "server") as server:
        folder = Path(sys.executable).parent
        yield {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOLDFAST_URL": server.url,
            "HOLDFAST_LISTEN": "127.0.0.1:0",
        }
        subprocess.run([folder / "holdfast", "cluster", "down", "--data", tmp_path / "here" / "cluster"], capture_output=True)


def _run(example: str, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(["sh", "-c", example], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{example}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"


def _serve(example: str, folder: Path, environment: dict[str, str], says: str = "listening on 127.0.0.1:") -> None:
    """A server says that it is ready, and stops in good order."""
    with subprocess.Popen(
        ["sh", "-c", f"exec {example}"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = any(line.startswith(says) for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert said, errors
    assert process.returncode == 0, f"{example}\n{errors}"


def _work(example: str, folder: Path, environment: dict[str, str]) -> None:
    """A worker says what it works on, and stops in good order."""
    with subprocess.Popen(
        ["sh", "-c", f"exec {example}"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = next((line for line in process.stderr if "works on queue 'work'" in line), "")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert said, f"{example}\n{errors}"
    assert process.returncode == 0, f"{example}\n{errors}"


async def _begin_effect(url: str, key: str) -> None:
    """An effect that began, and of which nothing is known."""
    begun = effect_events.Outcome(effect_events.identity_of(key), "begun")
    async with holdfast.connect(url) as client:
        await client.topic("domain.shop.results").send(effect_events.encode(begun), **effect_events.outcome_fields(begun))


def _relay_status(example: str, folder: Path, environment: dict[str, str]) -> None:
    """A relay says that it is ready, answers, and stops in good order."""
    (folder / "relay.toml").write_text(RELAY.format(local=environment["HOLDFAST_URL"]))
    command = ["sh", "-c", "exec holdfast relay --config relay.toml"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("relay berlin has its journal at")
        _run(example, folder, environment)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def _prepare(folder: Path) -> None:
    """What the examples take for granted: a certificate, a users file, a lake table, what a pipeline is told and given."""
    folder.mkdir()
    (folder / "pipeline.toml").write_text(PIPELINE_SETTINGS)
    (folder / "holdfast.toml").write_text('data = "configured"\n')
    (folder / "tasks.py").write_text(WORKER)
    (folder / "alerting.toml").write_text(RULES)
    (folder / "report.csv").write_text("number\n7\n")
    (folder / "rules.toml").write_text('[[rule]]\nname = "many"\nwindow = "1m"\nthreshold = 100\n')
    (folder / "sent.jsonl").write_text('{"destination": "orders", "id": "1", "position": 262144}\n')
    deltalake.write_deltalake(folder / "lake" / "events", pa.table({"date": ["2026-11-16"], "id": ["1"]}), partition_by=["date"])
    certificate = Authority(folder / "authority").issue("localhost")
    certificate.certificate.rename(folder / "server.pem")
    certificate.key.rename(folder / "server.key")
    users_file.add(folder / "users.toml", "operator", "", "operator.example.com")


def _tried() -> list[tuple[str, str]]:
    """Return all examples; in a short run one of each command, and those that make what others need: each is a process."""
    first = dict(reversed(EXAMPLES))
    tried = [(name, example) for name, example in EXAMPLES if effort.IS_LONG or name in MAKING or first[name] == example]
    return sorted(tried, key=lambda each: each[0] in OF_A_DOMAIN)


@pytest.mark.slow
def test_every_example_in_a_help_text_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    _prepare(tmp_path / "here")
    tried = _tried()
    with embedded(f"file:{tmp_path}/store{SMALL_QUERY}", "files", {each: str(tmp_path / each) for each in "ab"}) as front:
        for name, example in tried:
            if name in AT_A_FRONT:
                _run(example, tmp_path / "here", {**environment, "HOLDFAST_STORE": f"http://{front}"})

    for name, example in tried:
        if name in AT_A_FRONT:
            continue
        if name == SERVE:
            _serve(example, tmp_path / "here", environment)
        elif name == WORK:
            _work(example, tmp_path / "here", environment)
        elif name == ACTIONS:
            _serve(example, tmp_path / "here", environment, "1 rule of alerting at work")
        elif name in OF_A_DOMAIN:
            _serve(example, tmp_path / "here", environment, OF_A_DOMAIN[name])
        elif name == SETTLE:
            asyncio.run(_begin_effect(environment["HOLDFAST_URL"], example.split()[4]))
            _run(example, tmp_path / "here", environment)
        elif name == RELAY_STATUS:
            _relay_status(example, tmp_path / "here", environment)
        elif name == RELAY_FORGET:
            (tmp_path / "here" / "relay.toml").write_text(RELAY.format(local=environment["HOLDFAST_URL"]))
            _run(example, tmp_path / "here", environment)
        elif name == CLUSTER_UP and "--detach" not in example:
            _serve(example, tmp_path / "here", environment, "connect to holdfast://127.0.0.1:")
        elif name in ON_SPARK:
            _run(f"{example} --check", tmp_path / "here", environment)
        elif name != BENCH:
            _run(example, tmp_path / "here", environment)


@pytest.mark.slow
def test_the_bench_runs_in_under_twenty_seconds_on_a_quiet_machine(tmp_path: Path, environment: dict[str, str]) -> None:
    for example in _section(COMMANDS[BENCH], "Examples")[: effort.rounds(short=1, long=10)]:
        _run(example, tmp_path, environment)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_a_sentence_examples_and_exit_codes(name: str) -> None:
    command = COMMANDS[name]

    assert re.fullmatch(r"[A-Z].+\.", command.help)
    examples = _section(command, "Examples")
    assert examples
    assert all(name in example for example in examples)
    codes = [int(line.split()[0]) for line in _section(command, "Exit codes")]
    assert codes[0] == 0
    assert USAGE in codes
    assert set(codes) <= {0, USAGE, *EXIT_CODES.values(), LEFT}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_says_what_it_is_for(name: str) -> None:
    for parameter in COMMANDS[name].params:
        assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize("name", [name for name, each in COMMANDS.items() if any(p.name == "selector" for p in each.params)])
def test_whoever_may_select_is_told_that_selectors_do_not_see_data(name: str) -> None:
    (selector,) = (each for each in COMMANDS[name].params if each.name == "selector")

    assert "properties and attributes" in selector.help
    assert re.search(r"not (the )?data", selector.help)


def test_the_redelivery_limit_is_said_to_count_what_comes_after_the_first_delivery() -> None:
    for name in ("create", "configure"):
        (limit,) = (each for each in COMMANDS[f"holdfast destination {name}"].params if each.name == "redelivery_limit")

        assert limit.help.startswith("Deliver an event again at most so often, after the first time")
