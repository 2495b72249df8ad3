"""A real NATS server for tests: its own process, a free port, JetStream in a folder of the test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

BINARY = Path(sys.executable).parent / "nats-server"
START_TIMEOUT_S = 10.0


class NatsServer:
    """Starts on entering, ends on leaving. `kill` and `start` again keep the port and what was stored."""

    def __init__(self, folder: Path, *, name: str = "only", sync_interval: str = "always", max_payload: str = "2MB") -> None:
        self._folder = folder
        self._settings = {"name": name, "sync_interval": sync_interval, "max_payload": max_payload}
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
        return f"http://127.0.0.1:{self._ports['monitoring']}"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "nats.conf"
        configuration.write_text(self._configuration())
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([BINARY, "-c", configuration], stdout=log, stderr=log)
        self._ports = self._wait_for_ports(self._process)

    def _configuration(self) -> str:
        return f"""
            listen: "127.0.0.1:{self._ports["nats"]}"
            http: "127.0.0.1:{self._ports["monitoring"]}"
            ports_file_dir: "{self._folder}"
            server_name: "{self._settings["name"]}"
            max_payload: {self._settings["max_payload"]}
            jetstream {{
                store_dir: "{self._folder}/store"
                sync_interval: "{self._settings["sync_interval"]}"
                max_file: 64GB
            }}
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

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(timeout=START_TIMEOUT_S)
