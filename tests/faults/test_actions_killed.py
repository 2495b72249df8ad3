"""Rules that are killed with SIGKILL at random: their alerts are those of rules that nobody killed (A10).

Two programs have the same rules at the same server, and so the same events with the same times. One is killed again and again.
The id of an alert is a function of rule, group, time and event: so the alerts of both can be compared one by one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import holdfast
from holdfast.event.event import PropertyValue
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until, wait_until

pytestmark = pytest.mark.faults

KEYS = "abcde"
RULES = """
name = "NAME"

[rules.every]
topics = ["load.*"]
selector = "n > 1"

[rules.many]
topics = ["load.*"]
key = "host"
count = 7
within = "1s"

[rules.absent]
topics = ["load.*"]
key = "host"
absent = "400ms"

[rules.gathered]
topics = ["load.*"]
selector = "n = 3"
key = "host"
gather = "200ms"
cooldown = "300ms"

[rules.change]
topics = ["load.one", "load.two"]
key = "host"
change = "state"
to = ["down"]
group = "host"
cooldown = "100ms"

[rules.silence]
topics = ["load.*"]
selector = "n = 5"
key = "host"
silence = "300ms"
"""
ACTIONS = """
[[rules.RULE.actions]]
do = "send"
queue = "told.NAME"
text = "{id}"
properties = { at = "{at}" }

[[rules.RULE.actions]]
do = "log"
file = "NAME.log"
format = "json"
"""


class Program:
    """`holdfast actions`, which is killed and started again."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        names = [line[7:-1] for line in RULES.splitlines() if line.startswith("[rules.")]
        text = RULES + "".join(ACTIONS.replace("RULE", rule) for rule in names)
        (folder / f"{name}.toml").write_text(text.replace("NAME", name))
        self._command = [sys.executable, "-m", "holdfast", "actions", str(folder / f"{name}.toml"), "--url", url]
        self._errors = (folder / f"{name}.stderr").open("a")
        self._process: subprocess.Popen[str] | None = None

    def start(self, is_ready: bool = True) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env={**os.environ}
        )
        if is_ready:
            assert self._process.stdout is not None
            assert "at work" in self._process.stdout.readline(), Path(self._errors.name).read_text()

    def kill(self) -> None:
        if self._process is not None:
            assert self._process.poll() is None, Path(self._errors.name).read_text()
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        self._errors.close()


@contextmanager
def programs(folder: Path, url: str) -> Iterator[tuple[Program, Program]]:
    made = Program(folder, "killed", url), Program(folder, "spared", url)
    try:
        for each in made:
            each.start()
        yield made
    finally:
        for each in made:
            each.close()


async def _told(client: holdfast.Client, name: str) -> list[tuple[str, str]]:
    try:
        async with client.queue(f"told.{name}").browse() as events:
            return sorted([(str(event.properties["rule"]), event.data) async for event in events])
    except holdfast.errors.NoSuchDestination:
        return []


async def test_the_alerts_of_rules_that_are_killed_are_those_of_rules_that_are_not(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_118))
    rounds = effort.rounds(short=4, long=40)
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "200") as server, programs(tmp_path, server.url) as (killed, _):
        stop = asyncio.Event()

        async def load(client: holdfast.Client) -> None:
            while not stop.is_set():
                host = dice.choice(KEYS)
                properties: dict[str, PropertyValue] = {
                    "host": host,
                    "n": dice.randrange(6),
                    "state": dice.choice(["up", "down"]),
                }
                with suppress(holdfast.HoldfastError):  # the server was killed: the event may be there, for both
                    await client.topic(dice.choice(["load.one", "load.two"])).send({"for": host}, properties=properties)
                await asyncio.sleep(dice.choice([0, 0.002, 0.03]))

        async with holdfast.connect(server.url) as client:
            loading = asyncio.create_task(load(client))
            for number in range(rounds):
                await asyncio.sleep(dice.uniform(0.05, 0.8))
                if number % 4 == 2:  # the server, too, on whom both depend
                    server.kill()
                    await asyncio.to_thread(server.start)
                killed.kill()
                is_ready = dice.random() < 0.7  # else it may be killed while it starts
                await asyncio.to_thread(killed.start, is_ready)
            await asyncio.sleep(0.5)
            stop.set()
            await loading
            last = time.time()

            async def all_absent() -> bool:
                async with client.queue("told.spared").browse() as events:
                    told = [event async for event in events if event.properties["rule"] == "absent"]
                late = [event for event in told if event.accepted_at and event.accepted_at.timestamp() > last]
                return len(late) >= len(KEYS)

            await until(all_absent, "the rules that were spared have told the last absences")

            async def equal() -> bool:
                return await _told(client, "killed") == await _told(client, "spared")

            await until(equal, "the killed rules have told the same alerts")
            told = await _told(client, "killed")
            ids = {identifier for _, identifier in told}
            await until(lambda: _logged(tmp_path / "killed.log") == ids, "each alert stands in a whole line of the log")

    assert len(told) == len(set(told)) > 50
    assert {rule for rule, _ in told} == {"every", "many", "absent", "gathered", "change", "silence"}


def _logged(file: Path) -> set[str]:
    """The ids in the whole lines of a log file; the last line may be being written."""
    return {json.loads(line)["id"] for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")}


def test_an_action_that_was_begun_and_not_confirmed_is_done_again_with_the_same_id_and_key(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        f"""
        name = "again"
        [rules.any]
        topics = ["t"]
        [[rules.any.actions]]
        do = "run"
        command = ["/bin/sh", "-c", "echo $HOLDFAST_IDEMPOTENCY_KEY $$ >> {tmp_path}/runs; test -e {tmp_path}/go || sleep 600"]
        timeout = "10m"
        """
    )

    def runs() -> list[list[str]]:
        file = tmp_path / "runs"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    async def send(url: str) -> None:
        async with holdfast.connect(url) as client:
            await client.topic("t").send("x")

    with ServerProcess(tmp_path / "data", "--session-grace-ms", "200") as server:
        command = [sys.executable, "-m", "holdfast", "actions", str(rules), "--url", server.url]
        for life in range(2):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert "at work" in process.stdout.readline()
                if not life:
                    asyncio.run(send(server.url))
                wait_until(lambda life=life: len(runs()) == life + 1, "the command runs")  # type: ignore[misc]
                if not life:
                    process.kill()
                    process.wait()
                    shell = int(runs()[0][1])
                    wait_until(lambda shell=shell: _is_gone(shell), "it dies with the program")  # type: ignore[misc]
                    (tmp_path / "go").touch()
                else:
                    wait_until(lambda: _waiting(server.url) == 0, "it is confirmed")
                    process.terminate()

    assert len({key for key, _ in runs()}) == 1


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _waiting(url: str) -> int:
    async def look() -> int:
        async with holdfast.connect(url) as client:
            return (await client.describe("actions.again.do.any.run"))["waiting"]

    return asyncio.run(look())
