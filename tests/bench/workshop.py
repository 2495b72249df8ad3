"""The workshop: a folder on a real disk, the peers started in it, and where progress is told. Leaving it stops everything."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from tests.bench.peer import CannotRun, Client, Peer
from tests.bench.results import Results
from tests.bench.scale import Scale

EVENT_BYTES = 256


class Workshop:
    def __init__(self, scale: Scale, results: Results, folder: Path, tell: Callable[[str], None]) -> None:
        self.scale = scale
        self.results = results
        self.tell = tell
        self._folder = folder
        self._running: dict[str, Peer] = {}
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Workshop:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._work = Path(tempfile.mkdtemp(prefix="work-", dir=self._folder)).resolve()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.stop_all()
        shutil.rmtree(self._work, ignore_errors=True)

    def folder(self, name: str) -> Path:
        """A new, empty folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._work))

    def start(self, peers: Iterable[Peer]) -> None:
        """Start and connect to each that is not running yet. What cannot run is left out, with the reason."""
        for peer in peers:
            if peer.name in self._running or peer.name in self.results.left_out:
                continue
            self.tell(f"starting {peer.name}")
            self._running[peer.name] = peer
            try:
                peer.start(self.folder(peer.name.lower().replace(",", "").replace(" ", "-")))
                self._clients[peer.name] = peer.connect()
            except CannotRun as reason:
                self.results.left_out[peer.name] = str(reason)
                self._running.pop(peer.name).stop()

    @property
    def peers(self) -> dict[str, Peer]:
        return self._running

    def client(self, who: str) -> Client:
        return self._clients[who]

    def stop(self, who: str) -> None:
        """Stop one of them, if it runs."""
        if who in self._clients:
            try:
                self._clients.pop(who).close()
            except Exception as problem:  # whatever a foreign client says at its end, its server is still to be stopped
                self.results.remarks.append(f"closing a client: {problem!r}")
        if who in self._running:
            self._running.pop(who).stop()

    def stop_all(self) -> None:
        for who in reversed([*self._running]):
            self.stop(who)


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
