"""Events from before there was a server: recorded by what starts the machine, delivered first by the server that comes later.

    python examples/boot_recorder.py

1. A recorder takes events. No server, no network, no event loop; each is on disk when `record` returns.
2. A server starts on that machine with `--boot-recorder`: it takes them before anything else.
3. A recipient gets them, in order, each once; then what was sent later.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import holdfast.blocking


def record_while_booting(folder: Path) -> None:
    with holdfast.Recorder(folder) as recorder:
        for step in ("firmware checked", "disks mounted", "network is down"):
            made = recorder.record({"step": step}, "boot", type="boot.step")
            print(f"recorded number {made.sequence}: {step}")


@contextmanager
def server(data: Path, boot_recorder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "holdfast", "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--boot-recorder", str(boot_recorder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        print(f"server: {line.strip()}")
        try:
            yield "holdfast://" + line.removeprefix("listening on ").strip()
        finally:
            process.terminate()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-boot-") as folder:
        record_while_booting(Path(folder) / "recorder")
        with server(Path(folder) / "data", Path(folder) / "recorder") as url, holdfast.blocking.connect(url) as client:
            boot = client.queue("boot")
            boot.send({"step": "sent when the server was up"}, type="boot.step")
            with boot.receive(timeout=10) as incoming:
                for _ in range(4):
                    event = incoming.next()
                    print(f"delivered: {event.data['step']}")
                    event.confirm()


if __name__ == "__main__":
    main()
