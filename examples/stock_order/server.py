"""A trading server: plain HTTP, an SQLite file, and no word of Holdfast. It executes orders at an exchange, whose URL it is told.

    POST /accounts/joe/buy   {"symbol": "ACME", "shares": 100}   the exchange's confirmation number, and the shares held now
    GET  /accounts/joe                                           the shares held, and all confirmation numbers
    GET  /digest                                                 a digest of all orders, to compare servers

    python -m examples.stock_order.server --port 9001 --data a.sqlite --exchange http://127.0.0.1:9901/exchange

It knows keys: a request whose Idempotency-Key came before gets the answer of then. It hands `traceparent` on, as libraries for
tracing do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EXCHANGE_SECONDS = 60


class Accounts:
    def __init__(self, file: str, exchange: str) -> None:
        self._lock = threading.Lock()
        self._exchange = exchange
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS orders"
            " (key TEXT PRIMARY KEY, account TEXT, shares INTEGER, confirmation TEXT, held INTEGER)"
        )

    def buy(self, account: str, order: dict[str, Any], key: str, trace: str) -> tuple[int, dict[str, Any]]:
        """Execute an order and record it; once for each key."""
        with self._lock:
            known = self._database.execute("SELECT confirmation, held FROM orders WHERE key = ?", (key,)).fetchone()
            if known is None:
                status, confirmation = self._execute(order, trace)
                if status >= 400:
                    return 502, {"error": confirmation}
                known = (confirmation, self._held(account) + int(order["shares"]))
                row = (key, account, int(order["shares"]), *known)
                self._database.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)
            return 200, {"account": account, "confirmation": known[0], "held": known[1]}

    def _execute(self, order: dict[str, Any], trace: str) -> tuple[int, str]:
        """Send an order to the exchange; its confirmation number, or what went wrong."""
        headers = {"Content-Type": "application/json"} | ({"traceparent": trace} if trace else {})
        request = urllib.request.Request(f"{self._exchange}/orders", json.dumps(order).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=EXCHANGE_SECONDS) as answer:
                return 200, str(json.loads(answer.read())["confirmation"])
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode(errors="replace")
        except OSError as problem:
            return 502, str(problem)

    def _held(self, account: str) -> int:
        found = self._database.execute("SELECT COALESCE(SUM(shares), 0) FROM orders WHERE account = ?", (account,)).fetchone()
        return int(found[0])

    def account(self, name: str) -> dict[str, Any]:
        with self._lock:
            rows = self._database.execute("SELECT confirmation FROM orders WHERE account = ? ORDER BY held", (name,)).fetchall()
            return {"account": name, "held": self._held(name), "confirmations": [row[0] for row in rows]}

    def digest(self) -> str:
        with self._lock:
            rows = self._database.execute(
                "SELECT account, shares, confirmation, held FROM orders ORDER BY account, held"
            ).fetchall()
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write for head and body
    accounts: Accounts

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        if self.path == "/digest":
            self._answer(200, {"digest": self.accounts.digest()})
        elif len(parts) == 2 and parts[0] == "accounts":
            self._answer(200, self.accounts.account(parts[1]))
        else:
            self._answer(404, {"error": "there are /accounts/NAME and /digest"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.strip("/").split("/")
        if len(parts) != 3 or parts[0] != "accounts" or parts[2] != "buy":
            return self._answer(404, {"error": "there is /accounts/NAME/buy"})
        try:
            order = {"symbol": str(json.loads(body)["symbol"]), "shares": int(json.loads(body)["shares"])}
        except (ValueError, KeyError, TypeError):
            return self._answer(400, {"error": 'send {"symbol": "ACME", "shares": 100}'})
        key, trace = self.headers.get("Idempotency-Key", ""), self.headers.get("traceparent", "")
        return self._answer(*self.accounts.buy(parts[1], order, key, trace))

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

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news."""


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--data", required=True)
    options.add_argument("--exchange", required=True)
    given = options.parse_args()
    Handler.accounts = Accounts(given.data, given.exchange)
    server = Server(("127.0.0.1", given.port), Handler)
    print(f"trading on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
