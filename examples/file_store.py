"""Files at three places. One is killed and loses its disk while files are written; at the end all places are equal.

    python -m examples.file_store

Everything is a process of its own: Holdfast, three places, a front. A writer puts files through the front and reads each back.
Meanwhile place c is killed with SIGKILL, its folder is deleted, and it is started again; and one byte on the disk of place a is
flipped. At the end every place is asked for what it has.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLACES = ("a", "b", "c")
# A journal is written with zeros when it is made: a small one is made at once.
SMALL = ("--journal-size", "128M", "--segment-size", "4M", "--reserve", "2M")
PATIENCE_S = 60.0


class Store:
    """All processes, in one folder. None is left behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.addresses: dict[str, str] = {}

    def open(self) -> None:
        served = self._start("holdfast", "serve", "--data", "events", "--listen", "127.0.0.1:0", *SMALL)
        os.environ["HOLDFAST_URL"] = f"holdfast://127.0.0.1:{served.rpartition(':')[2]}"
        places = [option for place in PLACES for option in ("--place", place)]
        self._start("create", "store", "create", "files", *places)
        for place in PLACES:
            self.start(place)
        self.front = self._start("front", "store", "serve", "files", "--listen", "127.0.0.1:0").rpartition("/")[2]

    def start(self, place: str) -> None:
        said = self._start(place, "store", "place", "files", place, "--at", place)
        self.addresses[place] = said.split()[-1]

    def _start(self, name: str, *arguments: str) -> str:
        """Start a program; the line with which it says that it is ready."""
        process = self._running[name] = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments], cwd=self._folder, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"{name} did not start")
        return line

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.communicate()

    def close(self) -> None:
        for name in reversed(list(self._running)):
            self.kill(name)

    def place(self, name: str, target: str) -> dict[str, object]:
        status, body = ask(self.addresses[name], "GET", target)
        found: dict[str, object] = json.loads(body)
        return found | {"status": status}

    def until_equal(self) -> None:
        """Wait until all places are current, at one number, and lack nothing."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            told = [self.place(each, "/state") for each in PLACES]
            if (
                all(each.get("state") == "current" and not each["lacking"] for each in told)
                and len({each["number"] for each in told}) == 1
            ):
                return
            time.sleep(0.1)
        raise SystemExit("the places did not become equal")


def ask(address: str, method: str, target: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, target, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Writer:
    """Puts files and reads them back. What gets 503 was not done, and is repeated."""

    def __init__(self, front: str) -> None:
        self._front = front
        self._dice = random.Random(7)
        self.written: dict[str, bytes] = {}
        self.count = self.failed = self.repeated = 0
        self.worst_s = 0.0

    def write(self) -> None:
        name = f"reports/{self._dice.randrange(20)}"
        body = self._dice.randbytes(self._dice.choice((100, 20_000, 300_000)))
        began = time.monotonic()
        while (status := ask(self._front, "PUT", f"/{name}", body)[0]) == 503:
            self.repeated += 1
            time.sleep(0.05)
        got = ask(self._front, "GET", f"/{name}")
        self.worst_s = max(self.worst_s, time.monotonic() - began)
        self.count += 1
        self.failed += status not in (201, 204) or got != (200, body)
        self.written[name] = body


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def run(folder: Path, rounds: int) -> int:
    store = Store(folder)
    try:
        store.open()
        writer = Writer(store.front)
        for _ in range(rounds):
            writer.write()
        print(f"{writer.count} files written and read back through the front")

        store.kill("c")
        shutil.rmtree(folder / "c")
        print("place c is killed, and its disk is lost")
        for _ in range(rounds):
            writer.write()
        store.start("c")
        name, body = next(iter(writer.written.items()))
        harmed = folder / "a" / "objects" / digest(body)[:2] / digest(body)
        harmed.write_bytes(bytes([body[0] ^ 1]) + body[1:])
        print(f"place c comes back empty; a byte of {name} is flipped on the disk of place a")
        for _ in range(rounds):
            writer.write()
        whole = all(ask(store.front, "GET", f"/{name}") == (200, body) for name, body in writer.written.items())

        store.until_equal()
        wanted = {name: digest(body) for name, body in writer.written.items()}
        for place in PLACES:
            entries: list[list[object]] = store.place(place, "/list")["entries"]  # type: ignore[assignment]
            has = {name: entry[0] for name, entry in entries}  # type: ignore[index]
            print(f"place {place}: {len(has)} files, {'as written' if has == wanted else 'NOT as written'}")
            whole = whole and has == wanted
        print(f"written and read: {writer.count}, failed: {writer.failed}, repeated: {writer.repeated}")
        print(f"the longest took {writer.worst_s:.2f} s")
        print("All places have the same files." if whole and not writer.failed else "Something is wrong.")
        return 0 if whole and not writer.failed else 1
    finally:
        store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="write fewer files")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), rounds=15 if told.quick else 100)


if __name__ == "__main__":
    sys.exit(main())
