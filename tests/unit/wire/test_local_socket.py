"""Local sockets: found by their name, on this machine, if the other end is of the same user."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.wire import local_socket

NOBODY = 65534
LISTENING = (
    "import sys; from holdfast.wire import local_socket; made = local_socket.listen(); print(made[0], flush=True); input()"
)


def test_whoever_knows_the_name_is_connected() -> None:
    made = local_socket.listen()
    assert made is not None
    name, listening = made

    with listening:
        near = local_socket.dial(name)
        assert near is not None
        far, _ = listening.accept()
        with near, far:
            far.sendall(b"hello")
            near.setblocking(True)
            assert near.recv(5) == b"hello"


def test_a_name_that_nobody_has_any_more_is_not_connected() -> None:
    made = local_socket.listen()
    assert made is not None
    made[1].close()

    assert local_socket.dial(made[0]) is None
    assert local_socket.dial("") is None


def test_two_that_listen_have_two_names() -> None:
    one, other = local_socket.listen(), local_socket.listen()
    assert one is not None and other is not None

    with one[1], other[1]:
        assert one[0] != other[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as another user")
def test_a_name_that_another_user_has_taken_is_not_connected() -> None:
    source = str(Path(local_socket.__file__).parents[2])
    other = subprocess.Popen(
        [sys.executable, "-c", LISTENING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=NOBODY,
        env={**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert other.stdout is not None and other.stdin is not None
    try:
        name = other.stdout.readline().strip()
        with socket.socket(socket.AF_UNIX) as anyone:
            anyone.connect(f"\0{name}")  # it is there

        assert local_socket.dial(name) is None
    finally:
        other.stdin.close()
        other.wait(timeout=10)
        other.stdout.close()
