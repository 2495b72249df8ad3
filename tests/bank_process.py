"""A real bank server for tests of continuity, with the commands by which a listener resets it and takes its snapshots."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.server_process import free_port
from tests.waiting import wait_until

TOP = Path(__file__).resolve().parents[1]


class BankProcess:
    """`examples/bank/server.py` on a port and a file of its own. Its process id is in a file, because commands start it, too."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder / name
        self._folder.mkdir()
        (self._folder / "start").write_text(self._start_script(options))
        (self._folder / "stop").write_text(f"cd {self._folder}\nif [ -s pid ]; then kill -9 $(cat pid) 2>/dev/null; fi; true\n")
        self._add("clear", f"cd {self._folder}\nsh stop; rm -f bank.sqlite*\n")

    def _start_script(self, options: tuple[str, ...]) -> str:
        command = f"{sys.executable} -m examples.bank.server --port {self.port} --data {self._folder}/bank.sqlite"
        return f"cd {TOP}\n{command} {' '.join(options)} >{self._folder}/log 2>&1 & echo $! >{self._folder}/pid\n"

    def _add(self, name: str, script: str) -> None:
        (self._folder / name).write_text(script)

    def __enter__(self) -> BankProcess:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        self._run("start")
        wait_until(self._is_open, "the bank is open")

    def kill(self) -> None:
        self._run("stop")

    def kill_and_lose_everything(self) -> None:
        self._run("clear")

    def make_unwritable(self) -> None:
        """From now on it ends the connection at every write: its table is gone."""
        with sqlite3.connect(self._folder / "bank.sqlite") as database:
            database.execute("DROP TABLE accounts")

    def stop_answering(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    @property
    def _pid(self) -> int:
        return int((self._folder / "pid").read_text())

    def _run(self, script: str) -> None:
        subprocess.run(["sh", str(self._folder / script)], check=True)

    def _is_open(self) -> bool:
        try:
            return bool(self.digest())
        except OSError:
            return False

    def digest(self) -> str:
        """The digest of all its accounts."""
        with urllib.request.urlopen(f"{self.url}/digest", timeout=5) as answer:
            return str(json.load(answer)["digest"])

    # --- commands of its listener --------------------------------------------------------------------------------------

    @property
    def reset(self) -> str:
        """Start it anew: empty, or with the file in the snapshot."""
        copy = f'if [ -n "$HOLDFAST_SNAPSHOT" ]; then cp "$HOLDFAST_SNAPSHOT" {self._folder}/bank.sqlite; fi'
        count = f'echo "from:$HOLDFAST_SNAPSHOT" >>{self._folder}/resets'
        return f"sh {self._folder}/clear && {copy} && {count} && sh {self._folder}/start"

    @property
    def snapshot(self) -> str:
        program = (
            "import os, sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', (os.environ['HOLDFAST_SNAPSHOT'],))"
        )
        return f'{sys.executable} -c "{program}" {self._folder}/bank.sqlite'

    @property
    def resets(self) -> list[str]:
        """The snapshot of each reset, "" for one from the beginning."""
        told = self._folder / "resets"
        return [line.removeprefix("from:") for line in told.read_text().splitlines()] if told.exists() else []
