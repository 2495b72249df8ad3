"""Events from before the server runs: recorded while the machine starts, and delivered first when the server is there.

    python examples/boot_recorder.py

1. A recorder records events without a server, a network or an event loop. Each is on disk when `record` returns.
2. A server starts on that machine with `--boot-recorder`: it accepts them before anything else.
3. A recipient gets them in order, each once; then it gets the events that were sent later.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        try:  # from the first line on, so that Ctrl-C leaves no server behind
            assert process.stdout is not None
            line = process.stdout.readline()
            print(f"server: {line.strip()}")
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
    with suppress(KeyboardInterrupt):  # Ctrl-C: everything above is closed in good order, without a traceback
        main()
