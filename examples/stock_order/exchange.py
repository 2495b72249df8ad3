"""A stock exchange for tests: plain HTTP. It takes every order that comes, counts them, and can look one up.

    POST /orders           {"symbol": "ACME", "shares": 100}     a new confirmation number, also for a key that came before
    GET  /orders/KEY                                             the answer to the order with this Idempotency-Key, or 404
    GET  /orders                                                 all orders: key and confirmation number
    POST /hold, POST /go                                         keep answers back, and let them go

    python -m examples.stock_order.exchange --port 7000

It does not know keys: an order that comes twice is two orders. `hold` lets a test kill whoever waits for an answer.
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Exchange:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: list[dict[str, Any]] = []
        self.is_open = threading.Event()
        self.is_open.set()

    def take(self, key: str, order: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            taken = {"confirmation": f"X{1001 + len(self._orders)}", "key": key, **order}
            self._orders.append(taken)
            return taken

    def find(self, key: str) -> dict[str, Any] | None:
        with self._lock:
            return next((each for each in self._orders if each["key"] == key), None)

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._orders)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write for head and body
    exchange: Exchange

    def do_GET(self) -> None:
        _, _, key = self.path.strip("/").partition("/")
        found = self.exchange.find(key) if key else {"orders": self.exchange.all()}
        self._answer(200 if found else 404, found or {"error": "there is no such order"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path in ("/hold", "/go"):
            (self.exchange.is_open.set if self.path == "/go" else self.exchange.is_open.clear)()
            return self._answer(200, {})
        taken = self.exchange.take(self.headers.get("Idempotency-Key", ""), json.loads(body or b"{}"))
        self.exchange.is_open.wait()
        return self._answer(201, taken)

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


def open_on(port: int) -> tuple[Server, Exchange]:
    """An exchange on a port; 0 takes a free one. The caller serves it, and closes it."""
    exchange = Exchange()
    handler = type("ExchangeHandler", (Handler,), {"exchange": exchange})
    return Server(("127.0.0.1", port), handler), exchange


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=0)
    server, _ = open_on(options.parse_args().port)
    print(f"the exchange is open on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
