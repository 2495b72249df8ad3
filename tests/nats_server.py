"""Real NATS servers for tests, one or a cluster: own processes, free ports, JetStream in a folder of the test."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.certificates import Pem
from tests.server_process import free_port

BINARY = Path(sys.executable).parent / "nats-server"
START_TIMEOUT_S = 10.0


# Where a server is paused, nats-py forgets a connection that was accepted and never greeted, without closing it.
FORGOTTEN_SOCKETS = "ignore:unclosed:ResourceWarning"


@contextmanager
def forgotten_sockets() -> Iterator[None]:
    """Collect at the end what nats-py forgot, and not in a test that has nothing to do with it; for a fixture of a module."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class NatsServer:
    """Starts on entering, ends on leaving. `kill` and `start` again keep the port and what was stored."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "only",
        sync_interval: str = "always",
        max_payload: str = "2MB",
        cluster: str = "",
        tls: Pem | None = None,
    ) -> None:
        """`cluster`: more of its configuration. `tls`: it speaks TLS alone, to monitors too, with this certificate."""
        self.name = name
        self._folder = folder
        self._cluster = cluster
        self._tls = tls
        self._settings = {"sync_interval": sync_interval, "max_payload": max_payload}
        self._ports = {"nats": -1, "monitoring": -1}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._ports['nats']}"

    @property
    def monitor(self) -> str:
        return f"{self._monitoring}://127.0.0.1:{self._ports['monitoring']}"

    @property
    def _monitoring(self) -> str:
        return "http" if self._tls is None else "https"

    @property
    def store(self) -> Path:
        """Where it keeps its streams."""
        return self._folder / "store"

    def blocks(self, stream: str) -> list[Path]:
        """The files with the messages of a stream, oldest first."""
        return sorted(self.store.glob(f"jetstream/*/streams/{stream}/msgs/*.blk"), key=lambda path: int(path.stem))

    def start(self, **settings: str) -> None:
        """Start it, with some settings changed."""
        self._settings |= settings
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "nats.conf"
        configuration.write_text(self._configuration())
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([BINARY, "-c", configuration], stdout=log, stderr=log)
        self._ports = self._wait_for_ports(self._process)

    def _configuration(self) -> str:
        tls = "" if self._tls is None else f'tls {{ cert_file: "{self._tls.certificate}", key_file: "{self._tls.key}" }}'
        return f"""
            listen: "127.0.0.1:{self._ports["nats"]}"
            {self._monitoring}: "127.0.0.1:{self._ports["monitoring"]}"
            {tls}
            ports_file_dir: "{self._folder}"
            server_name: "{self.name}"
            max_payload: {self._settings["max_payload"]}
            jetstream {{
                store_dir: "{self._folder}/store"
                sync_interval: "{self._settings["sync_interval"]}"
                max_file: 64GB
            }}
            {self._cluster}
        """

    def _wait_for_ports(self, process: subprocess.Popen[bytes]) -> dict[str, int]:
        """The server writes its ports when it listens; waiting for the file is waiting for the server."""
        found = self._folder / f"nats-server_{process.pid}.ports"
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                ports = json.loads(found.read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.01)
                continue
            return {name: int(ports[name][0].rpartition(":")[2]) for name in ("nats", "monitoring")}
        log = (self._folder / "nats.log").read_text()
        raise RuntimeError(f"nats-server did not start within {START_TIMEOUT_S} s:\n{log[-2000:]}")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """It lives, and says nothing from now on: the signal is not enough, its threads end what they have begun."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)  # one that a failed test left paused would never end
            process.wait(timeout=START_TIMEOUT_S)


class NatsCluster:
    """Three servers that know each other. Ready when they have agreed on who leads."""

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in range(3)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.servers = [
            NatsServer(
                folder / f"n{number}",
                name=f"n{number}",
                cluster=f'cluster {{ name: "test", listen: "127.0.0.1:{port}", routes: [{routes}] }}',
            )
            for number, port in enumerate(ports, 1)
        ]
        self._running = ExitStack()

    def __enter__(self) -> Self:
        for server in self.servers:
            self._running.enter_context(server)
        try:
            self.wait_until_ready()
        except RuntimeError:
            self._running.close()
            raise
        return self

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 3 * START_TIMEOUT_S
        while not all(self._is_ready(server) for server in self.servers):
            if time.monotonic() > deadline:
                raise RuntimeError("the cluster did not agree on who leads")
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _is_ready(self, server: NatsServer) -> bool:
        try:
            with urllib.request.urlopen(f"{server.monitor}/healthz", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def server(self, name: str) -> NatsServer:
        return next(server for server in self.servers if server.name == name)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(server.url for server in self.servers)

    @property
    def monitors(self) -> tuple[str, ...]:
        return tuple(server.monitor for server in self.servers)
