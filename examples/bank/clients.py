"""Clients of the bank: each deposits 1 again and again, and repeats a deposit with the same key until it has an answer."""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from typing import Any, NamedTuple

TIMEOUT_S = 30.0
AGAIN_S = 0.05
# What may be repeated with the same key: refused for the moment, and no answer in time.
REPEATED = (502, 503, 504)


class Deposit(NamedTuple):
    at: float  # when it was answered
    seconds: float  # from the first try to the answer
    tries: int


class Failed(Exception):
    """A deposit that a client had to give up."""


class Client:
    """One connection to the engine, made again when it is lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def deposit(self, name: str, amount: int) -> Deposit:
        key = uuid.uuid4().hex
        began = time.time()
        for tries in range(1, 1_000):
            status, _ = self._ask("POST", f"/accounts/{name}/deposit", json.dumps({"amount": amount}), {"Idempotency-Key": key})
            if status == 200:
                return Deposit(time.time(), time.time() - began, tries)
            if status not in (0, *REPEATED):
                raise Failed(f"the bank answered {status}")
            time.sleep(AGAIN_S)
        raise Failed(f"the deposit with key {key} got no answer")

    def balance(self, name: str) -> int | None:
        """The balance; None if there is no answer."""
        status, told = self._ask("GET", f"/accounts/{name}", "", {})
        return int(told["balance"]) if status == 200 else None

    def _ask(self, method: str, path: str, body: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Status and answer; status 0 for a lost connection."""
        self._connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if response.status == 200 else {}
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            return 0, {}


class Load:
    """So many clients, depositing until `stop`."""

    def __init__(self, port: int, name: str, clients: int) -> None:
        self.deposits: list[Deposit] = []
        self.failed: list[Failed] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._deposit, args=(Client(port), name)) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _deposit(self, client: Client, name: str) -> None:
        while not self._ends.is_set():
            try:
                self.deposits.append(client.deposit(name, 1))
            except Failed as failure:
                self.failed.append(failure)

    def stop(self) -> None:
        """Let each client finish the deposit in hand."""
        self._ends.set()
        for thread in self._threads:
            thread.join()


class Observer:
    """Reads the balance of an account at a server itself, past the engine, as often as it can be seen."""

    def __init__(self, port: int, name: str) -> None:
        self.seen: list[tuple[float, int]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(Client(port), name))
        self._thread.start()

    def _look(self, client: Client, name: str) -> None:
        while not self._ends.wait(AGAIN_S):
            balance = client.balance(name)
            if balance is not None:
                self.seen.append((time.time(), balance))

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
