"""A bank's server: plain HTTP, an SQLite file, and no word of Holdfast.

    POST /accounts/joe/deposit   {"amount": 250}      the new balance
    POST /accounts/joe/withdraw  {"amount": 100}      the new balance, or 409
    GET  /accounts/joe                                the balance
    GET  /digest                                      a digest of all accounts, to compare servers
    GET  /start                                       an id that changes when the server is started again

    python -m examples.bank.server --port 9001 --data a.sqlite [--slow 0.2] [--lie]

It syncs before it answers. A change with an `Idempotency-Key` that it has seen before is answered as it was then, and not made
again: the key and its answer are written with the change. `--slow` and `--lie` make it a bad one, for those who want to see what
happens then.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

START = secrets.token_hex(8)


class Bank:
    def __init__(self, file: str) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER, changes INTEGER)")
        self._database.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, balance INTEGER)")

    def change(self, name: str, amount: int, key: str = "") -> int | None:
        """Add an amount to an account; its new balance, or None if that would be below zero. The same key: the same answer."""
        with self._lock:
            known = self._database.execute("SELECT balance FROM answers WHERE key = ?", (key,)).fetchone() if key else None
            return known[0] if known else self._change(name, amount, key)

    def _change(self, name: str, amount: int, key: str) -> int | None:
        balance = self.balance(name) + amount
        is_made = balance >= 0
        self._database.execute("BEGIN IMMEDIATE")
        if is_made:
            self._database.execute(
                "INSERT INTO accounts VALUES (?, ?, 1) ON CONFLICT (name) DO UPDATE SET balance = ?, changes = changes + 1",
                (name, balance, balance),
            )
        if key:
            self._database.execute("INSERT INTO answers VALUES (?, ?)", (key, balance if is_made else None))
        self._database.execute("COMMIT")
        return balance if is_made else None

    def balance(self, name: str) -> int:
        found = self._database.execute("SELECT balance FROM accounts WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else 0

    def digest(self) -> str:
        with self._lock:
            rows = self._database.execute("SELECT name, balance, changes FROM accounts ORDER BY name").fetchall()
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bank: Bank
    slow: float = 0.0
    is_lying: bool = False

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        if self.path == "/digest":
            self._answer(200, {"digest": self.bank.digest()})
        elif self.path == "/start":
            self._answer(200, {"start": START})
        elif len(parts) == 2 and parts[0] == "accounts":
            self._answer(200, {"account": parts[1], "balance": self.bank.balance(parts[1])})
        else:
            self._answer(404, {"error": "there are /accounts/NAME and /digest"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(self.slow)
        parts = self.path.strip("/").split("/")
        if len(parts) != 3 or parts[0] != "accounts" or parts[2] not in ("deposit", "withdraw"):
            return self._answer(404, {"error": "there are /accounts/NAME/deposit and /accounts/NAME/withdraw"})
        try:
            amount = int(json.loads(body)["amount"])
        except (ValueError, KeyError, TypeError):
            return self._answer(400, {"error": 'send {"amount": 250}'})
        balance = self.bank.change(
            parts[1], amount if parts[2] == "deposit" else -amount, self.headers.get("Idempotency-Key") or ""
        )
        if balance is None:
            return self._answer(409, {"error": "there is not so much in the account"})
        return self._answer(200, {"account": parts[1], "balance": balance + (1_000_000 if self.is_lying else 0)})

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--data", required=True)
    options.add_argument("--slow", type=float, default=0.0)
    options.add_argument("--lie", action="store_true")
    given = options.parse_args()
    Handler.bank, Handler.slow, Handler.is_lying = Bank(given.data), given.slow, given.lie
    Handler.wbufsize = -1  # one write for head and body
    server = Server(("127.0.0.1", given.port), Handler)
    print(f"the bank is open on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
