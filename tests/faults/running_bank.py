"""A bank behind engines and listeners, for tests that break it: Holdfast, three servers, their listeners, two engines.

    client ─▶ engine ◀─ answer link, cuttable ─ listener ─▶ server a, b, c
                 └──▶ Holdfast ◀─ cuttable for listener c ─┘

Clients retry as is documented: after a lost connection, 503 or 504, the same request with its Idempotency-Key at the next engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import connect
from holdfast.continuity import domain_status, register
from holdfast.continuity.domain import Domain, Route
from tests import effort
from tests.cuttable_link import CuttableLink
from tests.server_process import ServerProcess, free_port
from tests.waiting import wait_until

TOP = Path(__file__).resolve().parents[2]
ACCOUNTS = ("joe", "ann", "eve")
DOMAIN = Domain(name="bank", call_timeout=1.0, answer_timeout=5.0, error_wait=0.5, routes=(Route("/accounts/*"),))
CLIENTS = 4
# Deposits of each client, at least.
DEPOSITS = effort.rounds(short=60, long=600)
PATIENCE_S = 60.0
RETRY_S = 0.02
STOP_S = 12.0


class Program:
    """A process that can be killed and started again."""

    def __init__(self, log: Path, *command: str) -> None:
        self._command = [sys.executable, "-m", *command]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": f"{TOP / 'src'}:{TOP}"}
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._log.parent, env=environment)

    def start_with(self, *options: str) -> None:
        self._command = [*self._command[:3], *options]
        self.start()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(STOP_S)


class Bank:
    def __init__(self, folder: Path, holdfast: ServerProcess) -> None:
        self.folder = folder
        self.holdfast = holdfast
        self.accounts: tuple[str, ...] = ACCOUNTS
        self.ports = {name: free_port() for name in "abc"}
        self.engine_ports = [free_port(), free_port()]
        self.holdfast_link = CuttableLink(holdfast.port)
        self.servers = {
            name: Program(folder / f"{name}.log", "examples.bank.server", *self.server_options(name)) for name in self.ports
        }
        self.listeners = {name: self._listener(name) for name in self.ports}
        answers = [free_port() for _ in self.engine_ports]
        self.answer_links = [CuttableLink(port) for port in answers]
        self.engines = [self._engine(*each) for each in zip(self.engine_ports, answers, self.answer_links, strict=True)]

    def server_options(self, name: str, *more: str) -> list[str]:
        return ["--port", str(self.ports[name]), "--data", str(self.folder / f"{name}.sqlite"), *more]

    def _listener(self, name: str) -> Program:
        url = self.holdfast.url if name != "c" else f"holdfast://127.0.0.1:{self.holdfast_link.port}"
        return Program(
            self.folder / f"listener-{name}.log", "holdfast", "listener", "--domain", "bank", "--url", url, "--name", name,
            "--server", f"http://127.0.0.1:{self.ports[name]}", "--store", str(self.folder / f"store-{name}"),
        )  # fmt: skip

    def _engine(self, port: int, answers: int, link: CuttableLink) -> Program:
        return Program(
            self.folder / f"engine-{port}.log", "holdfast", "engine", "--domain", "bank", "--url", self.holdfast.url,
            "--listen", f"127.0.0.1:{port}", "--name", f"e{port}", "--answers", f"127.0.0.1:{answers}",
            "--advertise", f"127.0.0.1:{link.port}",
        )  # fmt: skip

    # --- starting and ending -------------------------------------------------------------------------------------------

    def create(self) -> None:
        async def create() -> None:
            async with connect(self.holdfast.url) as client:
                await register.create(client, DOMAIN)

        asyncio.run(create())

    def start(self) -> None:
        for program in (*self.servers.values(), *self.listeners.values(), *self.engines):
            program.start()

    def kill(self) -> None:
        for program in (*self.engines, *self.listeners.values(), *self.servers.values()):
            program.kill()

    def close(self) -> None:
        self.kill()
        for link in (self.holdfast_link, *self.answer_links):
            link.close()

    # --- how it is -----------------------------------------------------------------------------------------------------

    def until_ready(self) -> None:
        for port in (*self.ports.values(), *self.engine_ports):
            wait_until(partial(answers, port), f"port {port} answers")
        self.until_current(*self.servers)

    def states(self) -> dict[str, str]:
        """The state of each server, as those that run say it."""

        async def told() -> dict[str, str]:
            async with connect(self.holdfast.url) as client:
                return {each["server"]: each["state"] for each in (await domain_status.ask(client, "bank"))["servers"]}

        return asyncio.run(told())

    def until_current(self, *names: str) -> None:
        try:
            wait_until(lambda: {self.states().get(name) for name in names} == {"current"}, f"{names} are current")
        except BaseException:
            print(self.logs())
            raise

    def digest(self, name: str) -> str:
        return str(ask(self.ports[name], "GET", "/digest")[1]["digest"])

    def balances(self, name: str) -> dict[str, int]:
        return {account: ask(self.ports[name], "GET", f"/accounts/{account}")[1]["balance"] for account in self.accounts}

    def logs(self) -> str:
        return "\n".join(f"{each.name}: {each.read_text(errors='replace')[-800:]}" for each in sorted(self.folder.glob("*.log")))


@contextlib.contextmanager
def running_bank(folder: Path) -> Iterator[Bank]:
    with ServerProcess(folder / "data") as holdfast, contextlib.ExitStack() as stack:
        bank = Bank(folder, holdfast)
        stack.callback(bank.close)
        bank.create()
        bank.start()
        bank.until_ready()
        yield bank


# --- clients -----------------------------------------------------------------------------------------------------------


def ask(port: int, method: str, path: str, body: bytes = b"", key: str = "", timeout: float = 10.0) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body or None, {"Idempotency-Key": key} if key else {})
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data.startswith(b"{") else data
    finally:
        connection.close()


def answers(port: int) -> bool:
    try:
        return ask(port, "GET", "/accounts/nobody", timeout=2)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


class Client(threading.Thread):
    """Deposits until it has made its number and may end; each until it is answered."""

    def __init__(self, ports: list[int], accounts: tuple[str, ...], name: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._ports = list(ports)
        self._accounts = accounts
        self._name = name
        self._dice = random.Random(seed)
        self.deposited = dict.fromkeys(accounts, 0)
        self.done = 0
        self.retries = 0
        self.failed: list[str] = []
        self.may_end = threading.Event()

    def run(self) -> None:
        while self.done < DEPOSITS or not self.may_end.is_set():
            account, amount = self._dice.choice(self._accounts), self._dice.randrange(1, 100)
            self._deposit(account, amount, f"{self._name}-{self.done}")
            self.deposited[account] += amount
            self.done += 1

    def _deposit(self, account: str, amount: int, key: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        body = json.dumps({"amount": amount}).encode()
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, told = ask(self._ports[0], "POST", f"/accounts/{account}/deposit", body, key)
                if status == 200:
                    return
                if status not in (503, 504):
                    self.failed.append(f"{key}: {status} {told!r}")
                    return
            self.retries += 1
            self._ports.append(self._ports.pop(0))
            self.may_end.wait(RETRY_S)
        self.failed.append(f"{key}: no answer")


@contextlib.contextmanager
def clients(bank: Bank) -> Iterator[list[Client]]:
    """Clients that deposit meanwhile. Afterwards none of their requests has failed."""
    made = [
        Client(bank.engine_ports[:: -1 if number % 2 else 1], bank.accounts, f"{bank.accounts[0]}-{number}", number)
        for number in range(CLIENTS)
    ]
    for each in made:
        each.start()
    try:
        yield made
    finally:
        for each in made:
            each.may_end.set()
    for each in made:
        each.join(3 * PATIENCE_S)
    assert [each.failed for each in made] == [[]] * CLIENTS, bank.logs()
    assert not any(each.is_alive() for each in made), bank.logs()


def until_more(made: list[Client], count: int = 10) -> None:
    """Wait until so many more deposits are answered."""
    begun = sum(each.done for each in made)
    wait_until(lambda: sum(each.done for each in made) >= begun + count, "clients are answered")


def check(bank: Bank, made: list[Client], *names: str) -> None:
    """These servers are current and equal, and every deposit counts once at each."""
    expected = {account: sum(each.deposited[account] for each in made) for account in bank.accounts}
    bank.until_current(*names)
    wait_until(lambda: len({bank.digest(name) for name in names}) == 1, f"{names} are equal")
    for name in names:
        assert bank.balances(name) == expected, bank.logs()
