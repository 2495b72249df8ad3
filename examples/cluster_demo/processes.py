"""The cluster of the demo: `holdfast cluster up` in a process of its own, and the kernel's word on which process is which."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import tomllib
import urllib.request
from pathlib import Path

import msgspec

import holdfast.blocking
from holdfast import ClusterStatus, HoldfastError

LOOK_S = 0.2
STOP_S_MAX = 60.0


class Cluster:
    """Three NATS servers and three nodes. Whoever is killed is started again, by `holdfast cluster up`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "up.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.nats: list[str] = []

    def start(self) -> None:
        """Start it, and wait until all of it is there."""
        command = [sys.executable, "-m", "holdfast", "cluster", "up", "--data", str(self._folder / "cluster"), "--json"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the cluster did not start: {Path(self._log.name).read_text()[-2000:]}")
        told = msgspec.json.decode(line)
        self.url = told["url"]
        self.nats = [row["program"] for row in told["programs"] if row["program"].startswith("nats")]

    def leading_nats(self) -> str:
        """The NATS server through which all events go now; the first one if none says so."""
        settings = tomllib.loads((self._folder / "cluster" / "cluster.toml").read_text())
        for monitor in settings["monitors"]:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{monitor}/jsz?streams=true", timeout=1) as answer:
                for account in msgspec.json.decode(answer.read()).get("account_details", ()):
                    for stream in account.get("stream_detail", ()):
                        if stream["name"] == f"holdfast-channel-{settings['name']}-m1":
                            return str(stream["cluster"]["leader"])
        return self.nats[0]

    def process_of(self, name: str) -> int | None:
        """The process of a node or NATS server, by the folder in its command; None while it is dead."""
        own = str(self._folder / "cluster" / name)
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes().decode(errors="replace").split("\0")
                if own in words or f"{own}/nats.conf" in words:
                    return int(file.parent.name)
        return None

    def kill(self, name: str) -> None:
        """SIGKILL: no goodbye, nothing flushed, nothing closed."""
        process = self.process_of(name)
        if process is not None:
            os.kill(process, signal.SIGKILL)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
        self._log.close()


class Watch:
    """Asks for the state of the cluster again and again, in a thread: the screen does not wait for the answer."""

    def __init__(self, url: str) -> None:
        self.last: ClusterStatus | None = None
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching the cluster", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with holdfast.blocking.connect(self._url, name="watch", timeout=60) as client:
            while not self._stop.wait(LOOK_S):
                try:
                    self.last = client.cluster_status(timeout=1)
                except HoldfastError:
                    self.last = None

    @property
    def primary(self) -> str | None:
        return None if self.last is None else self.last["managers"][0]["primary"]

    @property
    def is_whole(self) -> bool:
        """All nodes are heard, and each message manager has its primary and its copies."""
        last = self.last
        if last is None or last["silent"] or last["is_cut_off"]:
            return False
        return all(manager["primary"] and not manager["missing"] for manager in last["managers"])

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)
