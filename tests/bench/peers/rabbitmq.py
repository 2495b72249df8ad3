"""RabbitMQ: a durable classic queue, persistent messages, publisher confirms; pika."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from examples.free_port import free_port
from tests.bench.child import Child, program
from tests.bench.peer import PREFETCH, WAIT_SECONDS, WINDOW, CannotRun

QUEUE = "events"
COPY = "copy"
PERSISTENT = pika.BasicProperties(delivery_mode=2)
CONFIRM_EVERY = 100
SILENCE_SECONDS = 5
# The usual places of the scripts that do not change the user they run as.
SCRIPTS = "/usr/lib/rabbitmq/bin"


class Pipeline:
    """Publishes with at most WINDOW unconfirmed, on a connection of its own: pika's blocking channel waits for each confirm."""

    def __init__(self, parameters: pika.ConnectionParameters, body: bytes, count: int) -> None:
        self._body, self._count = body, count
        self._sent = self._confirmed = 0
        self._ahead: set[int] = set()  # confirmed out of turn
        self._problem: object = None
        self._channel: Any = None
        self._connection: Any = pika.SelectConnection(
            parameters, self._opened, on_open_error_callback=self._lost, on_close_callback=self._lost
        )

    def run(self) -> None:
        self._connection.ioloop.call_later(WAIT_SECONDS, lambda: self._lost(None, "too slow"))
        self._connection.ioloop.start()
        if self._confirmed < self._count:
            raise RuntimeError(f"{self._confirmed} of {self._count} events were confirmed: {self._problem}")

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._publish())

    def _publish(self) -> None:
        while self._sent < self._count and self._sent - self._confirmed < WINDOW:
            self._channel.basic_publish("", QUEUE, self._body, PERSISTENT)
            self._sent += 1

    def _on_confirm(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        if frame.method.NAME != "Basic.Ack":
            self._lost(None, "an event was refused")
        elif frame.method.multiple:
            self._confirmed = max(self._confirmed, tag)
            self._ahead = {other for other in self._ahead if other > tag}
        else:
            self._ahead.add(tag)
        while self._confirmed + 1 in self._ahead:
            self._confirmed += 1
            self._ahead.discard(self._confirmed)
        if self._confirmed == self._count and not self._connection.is_closing:
            self._connection.close()
        else:
            self._publish()

    def _lost(self, _: object, problem: object) -> None:
        self._problem = problem
        self._connection.ioloop.stop()


class RabbitClient:
    def __init__(self, port: int) -> None:
        self._parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0, blocked_connection_timeout=WAIT_SECONDS)
        self._connection: Any = pika.BlockingConnection(self._parameters)
        self._channel: Any = self._connection.channel()
        self._channel.queue_declare(QUEUE, durable=True)
        self._channel.basic_qos(prefetch_count=PREFETCH)
        self._channel.confirm_delivery()

    @property
    def channel(self) -> Any:
        return self._channel

    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            self._channel.basic_publish("", QUEUE, body, PERSISTENT)

    def send_pipelined(self, body: bytes, count: int) -> None:
        Pipeline(self._parameters, body, count).run()

    def send_in_transactions(self, body: bytes, events: int, count: int) -> None:
        channel = self._connection.channel()  # one that confirms cannot have transactions
        channel.tx_select()
        for _ in range(count):
            for _ in range(events):
                channel.basic_publish("", QUEUE, body, PERSISTENT)
            channel.tx_commit()
        channel.close()

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        incoming = self._channel.consume(QUEUE, inactivity_timeout=SILENCE_SECONDS)
        for received, (method, _, body) in enumerate(incoming, start=1):
            if method is None:
                raise RuntimeError(f"{count} events were to be received, and {received - 1} came")
            seen(body)
            if received == count or received % CONFIRM_EVERY == 0:
                self._channel.basic_ack(method.delivery_tag, multiple=True)
            if received == count:
                break
        self._channel.cancel()  # a round trip behind the confirmations: they are with the server

    def close(self) -> None:
        self._connection.close()


class RabbitMq:
    name = "RabbitMQ"
    one_by_one_count = 200
    pipelined_count = 5_000
    is_broker = True
    plugins = "[].\n"

    def __init__(self) -> None:
        self._child: Child | None = None

    def start(self, folder: Path) -> None:
        self._port, distribution, self._names = free_port(), free_port(), free_port()
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self._port}\nlog.file.level = warning\n")
        (folder / "plugins").write_text(self.plugins)
        self._environment = {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"bench{self._port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self._child = Child([program("rabbitmq-server", SCRIPTS)], folder, self._environment)
        self._child.wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pika.exceptions.AMQPError:
            return False
        return True

    @property
    def connect(self) -> Callable[[], RabbitClient]:
        return partial(RabbitClient, self._port)

    def stop(self) -> None:
        if self._child is None:
            return
        self._child.stop()
        try:  # Erlang's name server is a daemon of its own; this one is only ours
            subprocess.run([program("epmd"), "-port", str(self._names), "-kill"], capture_output=True, timeout=10, check=False)
        except (CannotRun, subprocess.TimeoutExpired):
            pass


class Shovelling(RabbitMq):
    """The same server with its shovel, which moves events from one queue to another, each confirmed there first."""

    name = "RabbitMQ, shovel"
    plugins = "[rabbitmq_shovel].\n"

    def moved(self, body: bytes, count: int) -> float:
        """Fill the queue, and let a shovel move it: events a second, from the first that was seen there to the last."""
        client = self.connect()
        client.send_pipelined(body, count)
        channel = client.channel
        channel.queue_declare(COPY, durable=True)
        uri = f"amqp://127.0.0.1:{self._port}"
        told = {"src-protocol": "amqp091", "src-uri": uri, "src-queue": QUEUE, "dest-protocol": "amqp091", "dest-uri": uri}
        self._control("set_parameter", "shovel", "bench", json.dumps({**told, "dest-queue": COPY, "ack-mode": "on-confirm"}))

        def arrived(least: int) -> int:
            while (found := int(channel.queue_declare(COPY, durable=True, passive=True).method.message_count)) < least:
                time.sleep(0.001)
            return found

        first, begun = arrived(1), time.perf_counter()
        arrived(count)
        rate = (count - first) / (time.perf_counter() - begun)
        self._control("clear_parameter", "shovel", "bench")
        channel.queue_purge(COPY)
        client.close()
        return rate

    def _control(self, *arguments: str) -> None:
        command = [program("rabbitmqctl", SCRIPTS), "--node", self._environment["RABBITMQ_NODENAME"], *arguments]
        done = subprocess.run(command, env={**os.environ, **self._environment}, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise CannotRun(f"the shovel cannot be set up: {done.stderr or done.stdout}")
