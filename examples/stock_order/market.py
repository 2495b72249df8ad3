"""The market: every part of the stock order as a process of its own, started, killed and started again by name.

holdfast   exchange   carrier   engine   server-a  listener-a   server-b  listener-b

client ─▶ engine ─▶ listeners ─▶ trading servers ─▶ egress ─▶ effects queue ─▶ carrier ─▶ exchange
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import holdfast
from examples.free_port import free_port
from holdfast.continuity import register, roll_call
from holdfast.continuity.domain import Domain
from holdfast.errors import HoldfastError

DOMAIN = "trading"
NAMES = ("a", "b")
PARTS = ("holdfast", "exchange", "carrier", "engine", *(f"{part}-{name}" for name in NAMES for part in ("server", "listener")))
READY_SECONDS = 60
POLL_SECONDS = 0.02
CALL_SECONDS = 60


class Market:
    """Use it as `with`: it is open when an order could be executed."""

    def __init__(self, folder: Path, *, is_traced: bool = True) -> None:
        """`is_traced`: servers are told a `traceparent`, and hand it on; else effects are attributed by turn."""
        self._folder = folder
        self._ports = {part: free_port() for part in (*PARTS, "egress-a", "egress-b")}
        self._domain = Domain(name=DOMAIN, tell_server=is_traced, call_timeout=30)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Market:
        try:
            for part in PARTS:
                self.start(part)
                if part == "holdfast":
                    self.until(lambda: self._is_reachable("holdfast"), "Holdfast takes connections")
                    asyncio.run(self._create())
            self.until(lambda: self._is_reachable("exchange"), "the exchange takes orders")
            self.until(lambda: "carrying effects out" in self._said("carrier"), "the carrier runs")
            self.until(lambda: self._is_reachable("engine"), "the engine takes requests")
            self.until(self._is_complete, "both servers are current")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for part in reversed(list(self._processes)):
            self.kill(part)

    async def _create(self) -> None:
        async with holdfast.connect(self.url) as client:
            await register.create(client, self._domain)

    def _is_complete(self) -> bool:
        """Ask the roll: both servers are current."""

        async def ask() -> list[dict[str, Any]]:
            async with holdfast.connect(self.url) as client:
                return await roll_call.ask(client, DOMAIN, 0.3)

        try:
            states = [each.get("state") for each in asyncio.run(ask())]
            return states.count("current") == len(NAMES)
        except HoldfastError:
            return False

    # --- processes -----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self._ports['holdfast']}"

    def address(self, part: str) -> str:
        return f"http://127.0.0.1:{self._ports[part]}"

    def start(self, part: str) -> None:
        with (self._folder / f"{part}.log").open("ab") as log:
            self._processes[part] = subprocess.Popen([sys.executable, "-m", *self._command(part)], stdout=log, stderr=log)

    def kill(self, part: str) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._processes.pop(part)
        process.kill()
        process.wait()

    def _command(self, part: str) -> list[str]:
        port, name = str(self._ports[part]), part[-1]
        egress = self._ports.get(f"egress-{name}", 0)
        kind = part.partition("-")[0]
        if kind == "holdfast":
            sizes = ["--journal-size", "128M", "--segment-size", "4M", "--reserve", "2M", "--session-grace-ms", "1000"]
            return ["holdfast", "serve", "--data", str(self._folder / "data"), "--listen", f"127.0.0.1:{port}", *sizes]
        if kind == "exchange":
            return ["examples.stock_order.exchange", "--port", port]
        if kind == "carrier":
            far = ["--far", f"exchange={self.address('exchange')}", "--lookup", "exchange=/orders/{key}"]
            return ["holdfast", "effects", "--domain", DOMAIN, "--url", self.url, "--take-over", *far]
        if kind == "engine":
            return ["holdfast", "engine", "--domain", DOMAIN, "--url", self.url, "--listen", f"127.0.0.1:{port}"]
        if kind == "server":
            data = str(self._folder / f"{name}.sqlite")
            exchange = f"http://127.0.0.1:{egress}/exchange"
            return ["examples.stock_order.server", "--port", port, "--data", data, "--exchange", exchange]
        call, store = self.address(f"server-{name}"), str(self._folder / f"store-{name}")
        asks = ["--egress", f"127.0.0.1:{egress}", "--store", store]
        return ["holdfast", "listener", "--domain", DOMAIN, "--url", self.url, "--name", name, "--server", call, *asks]

    def _is_reachable(self, part: str) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._ports[part]), timeout=1).close()
        except OSError:
            return False
        return True

    def _said(self, part: str) -> str:
        return (self._folder / f"{part}.log").read_text()

    # --- what is seen --------------------------------------------------------------------------------------------------

    def buy(self, key: str, shares: int = 100) -> dict[str, Any]:
        """Send an order, again with its key until it is answered, as a client should."""
        order = json.dumps({"symbol": "ACME", "shares": shares}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                return _ask(urllib.request.Request(f"{self.address('engine')}/accounts/joe/buy", order, headers))
            except OSError as problem:
                if isinstance(problem, urllib.error.HTTPError):
                    problem.add_note(problem.read().decode())
                if time.monotonic() > until or (isinstance(problem, urllib.error.HTTPError) and problem.code < 500):
                    raise
                time.sleep(POLL_SECONDS)

    def orders(self) -> list[dict[str, Any]]:
        """The orders that the exchange has seen."""
        found: list[dict[str, Any]] = _ask(urllib.request.Request(f"{self.address('exchange')}/orders"))["orders"]
        return found

    def hold_answers(self, is_held: bool) -> None:
        """The exchange takes orders, and keeps its answers back."""
        _ask(urllib.request.Request(f"{self.address('exchange')}/{'hold' if is_held else 'go'}", b""))

    def account(self, name: str) -> dict[str, Any]:
        """The account, as one server has it."""
        return _ask(urllib.request.Request(f"{self.address(f'server-{name}')}/accounts/joe"))

    def until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"it never came about that {what}; the logs are in {self._folder}")
            time.sleep(POLL_SECONDS)

    def until_equal(self, count: int) -> None:
        """Wait until both servers have recorded so many orders."""

        def is_so() -> bool:
            try:
                return all(len(self.account(name)["confirmations"]) == count for name in NAMES)
            except OSError:
                return False

        self.until(is_so, f"both servers have {count} orders")


def _ask(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found
