"""File stores of real processes (C11), whose places, fronts and server are killed or stopped.

Nothing acknowledged is lost, and at the end all places are equal, byte for byte.
"""

from __future__ import annotations

import hashlib
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.continuity.storage.place.catalog import Catalog
from holdfast.continuity.storage.place.shelf import key_of
from tests import effort
from tests.domain_processes import Processes, holdfast
from tests.server_process import SMALL_QUERY, ServerProcess, free_port
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.faults

MIB = 1 << 20


class StoreProcesses(Processes):
    """Places and a front, each a process; the front always has the same port."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        self.port = free_port()
        self.places: dict[str, str] = {}

    def create(self, *places: str, **settings: Any) -> None:
        options = [each for name, value in settings.items() for each in (f"--{name.replace('_', '-')}", str(value))]
        told = [each for place in places for each in ("--place", place)]
        self.start("create", *holdfast("store", "create", "files", *told, *options), ready="created")
        for place in places:
            self.place(place)

    def place(self, name: str) -> None:
        said = self.start(name, *holdfast("store", "place", "files", name, "--at", str(self.folder / name)), ready="is open on")
        self.places[name] = said.split()[-1]

    def front(self) -> None:
        self.start("front", *holdfast("store", "serve", "files", "--listen", f"127.0.0.1:{self.port}"), ready="taking requests")

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def states(self) -> dict[str, str]:
        return {name: self._state(address)["state"] for name, address in self.places.items()}

    def _state(self, address: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = httpx.get(f"http://{address}/state", timeout=5).json()
            return found
        except httpx.HTTPError:
            return {"state": "gone"}

    def are_equal(self, *folders: Path) -> bool:
        """The places in these folders have the same number, and lack nothing."""
        found = [Catalog(each / "catalog.sqlite") for each in folders]
        try:
            return len({each.number for each in found}) == 1 and not any(each.lacking(1) for each in found)
        finally:
            for each in found:
                each.close()

    def until_equal(self) -> None:
        """All places are current, at one number, and lack nothing."""

        def is_so() -> bool:
            told = [self._state(each) for each in self.places.values()]
            return (
                all(each["state"] == "current" and not each["lacking"] for each in told)
                and len({each["number"] for each in told}) == 1
            )

        wait_until(is_so, "all places are current and equal")


class Client:
    """Puts and gets, and repeats what was not done."""

    def __init__(self, port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        self.repeated = 0

    def put(self, name: str, body: bytes) -> int:
        return self._until_done(lambda: self._http.put(f"/{name}", content=body), (201, 204)).status_code

    def get(self, name: str) -> bytes:
        return self._until_done(lambda: self._http.get(f"/{name}"), (200,)).content

    def _until_done(self, ask: Any, wanted: tuple[int, ...]) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                answer: httpx.Response = ask()
                if answer.status_code in wanted:
                    return answer
                assert answer.status_code in (503, 504), answer.text
            except httpx.TransportError:
                pass
            self.repeated += 1
            time.sleep(0.05)
        pytest.fail("it was not done within a minute")

    def close(self) -> None:
        self._http.close()


@contextmanager
def running(folder: Path, *places: str, **settings: Any) -> Iterator[tuple[StoreProcesses, Client, ServerProcess]]:
    with ServerProcess(folder / "data") as server, StoreProcesses(folder, server.url) as files:
        files.create(*places, **settings)
        files.front()
        client = Client(files.port)
        wait_until(lambda: set(files.states().values()) == {"current"}, "all places are current")
        try:
            yield files, client, server
        finally:
            client.close()


def contents(folder: Path) -> dict[str, str]:
    """The files of a place whose process is gone: each name with the digest of the bytes that are on its disk."""
    catalog = Catalog(folder / "catalog.sqlite")
    try:
        found = catalog.page("", "", 100_000)
        digests = {name: hashlib.sha256((folder / key_of(entry.digest)).read_bytes()).hexdigest() for name, entry in found}
        assert digests == {name: entry.digest for name, entry in found}
        return digests
    finally:
        catalog.close()


def digests(written: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(body).hexdigest() for name, body in written.items()}


def test_a_place_killed_while_it_writes_catches_up_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_118))
    written: dict[str, bytes] = {}
    with running(tmp_path, "a", "b", "c") as (files, client, _):
        for turn in range(effort.rounds(short=2, long=40)):
            victim = dice.choice("abc")
            for each in range(12):
                if each == 4:
                    files.kill(victim)
                name = f"n/{dice.randrange(10)}"
                written[name] = dice.randbytes(dice.choice((10, 5_000, 200_000, 2 * MIB)))
                client.put(name, written[name])
                assert client.get(name) == written[name], f"round {turn}"
            files.place(victim)
        files.until_equal()
        for name, body in written.items():
            assert client.get(name) == body

    assert contents(tmp_path / "a") == contents(tmp_path / "b") == contents(tmp_path / "c") == digests(written)


def test_a_front_killed_in_large_writes_leaves_whole_files_or_none_and_no_bytes_behind(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_119))
    bodies = {f"large/{each}": dice.randbytes(3 * MIB) for each in range(effort.rounds(short=2, long=30))}
    with running(tmp_path, "a", "b", loose_seconds=1) as (files, client, _):
        for name, body in bodies.items():

            def parts(body: bytes = body, cut: int = dice.randrange(len(body))) -> Iterator[bytes]:
                yield body[:cut]
                files.kill("front")
                yield body[cut:]

            with pytest.raises(httpx.TransportError):
                httpx.put(f"http://127.0.0.1:{files.port}/{name}", content=parts())
            files.front()
        client.put("end", b"1")
        files.until_equal()
        wait_until(lambda: not any(files._state(each)["loose"] for each in files.places.values()), "nothing is loose")

    found = contents(tmp_path / "a")
    assert found == contents(tmp_path / "b")
    assert found.items() <= (digests(bodies) | digests({"end": b"1"})).items()
    on_disk = {file.name for each in "ab" for file in (tmp_path / each / "objects").rglob("*") if file.is_file()}
    assert on_disk == set(found.values())


def test_a_store_in_one_process_that_is_killed_has_everything_when_it_starts_again(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_121))
    written: dict[str, bytes] = {}
    with StoreProcesses(tmp_path, f"file:{tmp_path}/events{SMALL_QUERY}") as files:
        client = Client(files.port)
        options = ["--listen", f"127.0.0.1:{files.port}", *(f"--place={each}={tmp_path / each}" for each in "ab")]
        for _ in range(effort.rounds(short=2, long=25)):
            files.start("all", *holdfast("store", "serve", "files", *options), ready="taking requests")
            for name, body in written.items():
                assert client.get(name) == body
            for _ in range(10):
                name = f"n/{dice.randrange(8)}"
                written[name] = dice.randbytes(dice.choice((10, 300_000)))
                client.put(name, written[name])
            files.kill("all")
        client.close()
        files.start("all", *holdfast("store", "serve", "files", *options), ready="taking requests")
        wait_until(lambda: files.are_equal(tmp_path / "a", tmp_path / "b"), "both have applied everything")

    assert contents(tmp_path / "a") == contents(tmp_path / "b") == digests(written)


def test_holdfast_killed_and_started_again_loses_no_write(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_120))
    written: dict[str, bytes] = {}
    with running(tmp_path, "a", "b") as (files, client, server):
        for _ in range(effort.rounds(short=1, long=15)):
            for each in range(20):
                if each == 10:
                    server.kill()
                    server.start()
                name = f"n/{dice.randrange(8)}"
                written[name] = dice.randbytes(dice.choice((10, 300_000)))
                client.put(name, written[name])
        files.until_equal()

    assert contents(tmp_path / "a") == contents(tmp_path / "b") == digests(written)


def test_a_place_that_was_stopped_answers_nothing_old_when_it_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, "a", "c", places_min=1) as (files, client, _):
        client.put("x", b"0")
        files.until_equal()
        process, address = files._running["c"], files.places["c"]
        process.send_signal(signal.SIGSTOP)
        stopped_at, newest = time.monotonic(), 0
        while time.monotonic() < stopped_at + 4:  # longer than its contact counts as fresh
            newest += 1
            client.put("x", b"%d" % newest)
            assert client.get("x") == b"%d" % newest

        process.send_signal(signal.SIGCONT)
        seen: list[str] = []

        def answers() -> bool:
            told = straight.get("/entry/x")  # asked by one who knows of no number
            seen.extend([told.json()["entry"][0]] if told.status_code == 200 else [])
            return len(seen) > 10

        with httpx.Client(base_url=f"http://{address}", timeout=10) as straight:
            wait_until(answers, "it is current again")

        assert set(seen) == {hashlib.sha256(b"%d" % newest).hexdigest()}


def test_a_large_file_is_in_no_process_as_a_whole(tmp_path: Path) -> None:
    size = effort.rounds(short=64, long=512)
    body = random.Random(1).randbytes(MIB)
    with running(tmp_path, "a", "b", "c") as (files, _, _):
        before = {name: _peak(files.pid(name)) for name in ("a", "b", "c", "front")}

        answer = httpx.put(f"http://127.0.0.1:{files.port}/big", content=(body for _ in range(size)), timeout=120)
        assert answer.status_code == 201
        got = hashlib.sha256()
        with httpx.stream("GET", f"http://127.0.0.1:{files.port}/big", timeout=120) as stream:
            for chunk in stream.iter_raw():
                got.update(chunk)
        files.until_equal()

        assert f'"{got.hexdigest()}"' == answer.headers["etag"]
        grown = {name: _peak(files.pid(name)) - peak for name, peak in before.items()}
        assert max(grown.values()) < 24 * MIB, grown


def _peak(pid: int) -> int:
    """The most memory that a process had, in bytes."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) << 10
