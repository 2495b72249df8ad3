"""Machines of a test network: network namespaces, joined by a bridge, that can be cut off from the others and healed.

    bridge ─┬─ machine 1
            ├─ machine 2      cut: its cable is down, and packets are lost, not refused
            └─ machine 3

The whole network is in namespaces of its own: nothing of it can be reached from outside, nor reaches anything there. Only root
may make one; `is_permitted` says whether it is so here. A process belongs to the machine in whose `inside()` it is started.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Self

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@cache
def is_permitted() -> bool:
    name = f"hf-{secrets.token_hex(3)}"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _enter(namespace: Path) -> None:
    with namespace.open() as file:
        if _libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"{namespace} cannot be entered")


@contextmanager
def _inside(name: str) -> Iterator[None]:
    """This thread, and the processes that it starts, are in a namespace."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _enter(Path("/run/netns") / name)
        yield
    finally:
        _libc.setns(here, CLONE_NEWNET)
        os.close(here)


class Machine:
    def __init__(self, network: str, number: int) -> None:
        self.address = f"10.77.0.{number}"
        self._namespace = f"{network}-{number}"
        self._cable = f"v{number}"  # its end at the bridge
        self._hub = network

    def plug_in(self) -> None:
        _run("ip", "netns", "add", self._namespace)
        with _inside(self._hub):
            _run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._namespace)
            _run("ip", "link", "set", self._cable, "master", "bridge", "up")
        with self.inside():
            _run("ip", "link", "set", "lo", "up")
            _run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
            _run("ip", "link", "set", "eth0", "up")

    def inside(self) -> AbstractContextManager[None]:
        return _inside(self._namespace)

    def cut(self) -> None:
        """Nothing that it sends arrives, and nothing arrives at it; nobody is told."""
        self._set("down")

    def heal(self) -> None:
        self._set("up")

    def _set(self, state: str) -> None:
        with _inside(self._hub):
            _run("ip", "link", "set", self._cable, state)

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self._namespace], check=False, capture_output=True)


class Network:
    """A context with so many machines."""

    def __init__(self, machines: int) -> None:
        self._name = f"hf{secrets.token_hex(3)}"
        self.machines: Sequence[Machine] = [Machine(self._name, number) for number in range(1, machines + 1)]

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        _run("ip", "netns", "add", self._name)
        with _inside(self._name):
            _run("ip", "link", "add", "bridge", "type", "bridge")
            _run("ip", "link", "set", "bridge", "up")
        for machine in self.machines:
            machine.plug_in()

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            machine.remove()
        subprocess.run(["ip", "netns", "del", self._name], check=False, capture_output=True)
