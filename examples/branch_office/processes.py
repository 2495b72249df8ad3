"""The processes of the example: the head office, the branch, and the relay between them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from examples.free_port import free_port

RELAY = Path(__file__).parent / "relay.toml"
START_S_MAX = 30.0
SMALL = ("--journal-size", "128M", "--segment-size", "4M", "--reserve", "2M", "--session-grace-ms", "1000")


class Office:
    """Two servers and a relay, each a process, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.head, self.berlin = free_port(), free_port()
        text = RELAY.read_text().replace("7400", str(self.head)).replace("7401", str(self.berlin))
        self._relay_file = folder / "relay.toml"
        self._relay_file.write_text(text)
        self._log = (folder / "log").open("ab")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name, port in (("head", self.head), ("berlin", self.berlin)):
            self._start(name, "serve", "--data", str(folder / name), "--listen", f"127.0.0.1:{port}", *SMALL)
            _until_listening(port)

    @property
    def head_url(self) -> str:
        return f"holdfast://127.0.0.1:{self.head}"

    @property
    def berlin_url(self) -> str:
        return f"holdfast://127.0.0.1:{self.berlin}"

    def start_relay(self) -> None:
        self._start("relay", "relay", "--config", str(self._relay_file))

    def kill_relay(self) -> None:
        self._processes["relay"].kill()
        self._processes["relay"].wait()

    def stop_line(self, is_stopped: bool) -> None:
        """Let the relay stand still, as if the line were cut; or go on."""
        os.kill(self._processes["relay"].pid, signal.SIGSTOP if is_stopped else signal.SIGCONT)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._log.close()

    def _start(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "holdfast", *arguments]
        self._processes[name] = subprocess.Popen(command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL)


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
