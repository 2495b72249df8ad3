"""Large events pass a relay in pieces: its memory does not grow with them, and what was read is what was sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from tests import effort
from tests.relay_process import RelayProcess
from tests.server_process import ServerProcess

pytestmark = pytest.mark.faults

MIB = 1 << 20
SIZE_MIB = effort.rounds(short=48, long=200)
OPTIONS = ("--journal-size", f"{8 * SIZE_MIB}M")


def _pieces(digest: object) -> Iterator[bytes]:
    for number in range(SIZE_MIB):
        piece = hashlib.sha256(number.to_bytes(8, "big")).digest() * (MIB // 32)
        digest.update(piece)  # type: ignore[attr-defined]
        yield piece


def test_a_large_event_passes_and_the_relay_never_holds_it(tmp_path: Path) -> None:
    definition = """
name = "berlin"
local = "{local}"
[upstreams.head]
url = "{head}"
[routes.films]
from = "head"
queue = "films"
to = "films"
mode = "end-to-end"
add = {{ site = "berlin" }}
"""
    with ServerProcess(tmp_path / "head", *OPTIONS) as head, ServerProcess(tmp_path / "berlin", *OPTIONS) as berlin:
        text = definition.format(local=berlin.url, head=head.url)
        with RelayProcess(tmp_path / "relay.toml", text) as relay, holdfast.blocking.connect(head.url) as at_head:
            relay.until_started()
            at_head.queue("films").send("before")
            with holdfast.blocking.connect(berlin.url) as at_berlin, at_berlin.queue("films").receive() as incoming:
                incoming.next(60).confirm()
                before_mb = relay.memory_mb("VmHWM")
                sent = hashlib.sha256()
                at_head.queue("films").send_stream(_pieces(sent), type="film", properties={"title": "x"})
                event = incoming.next(120)
                found = hashlib.sha256()
                with event.open_stream() as stream:
                    for chunk in stream:
                        found.update(chunk)
                event.confirm()

            assert found.digest() == sent.digest()
            assert (event.type, event.properties) == ("film", {"title": "x", "site": "berlin"})
            assert relay.memory_mb("VmHWM") - before_mb < SIZE_MIB / 3
