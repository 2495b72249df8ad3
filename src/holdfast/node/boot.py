"""What a server needs of a boot Recorder: its events as ready commands, in order, and to be told how far they are safe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

Buffer = bytes | memoryview


class Recorded(NamedTuple):
    sequence: int
    destination: str
    kind: Literal["queue", "topic"]
    command: Buffer


class BootContents(Protocol):
    @property
    def producer(self) -> str: ...

    @property
    def first(self) -> int:
        """The least sequence it may still hold; what is below is durable elsewhere."""

    def commands(self) -> Iterator[Recorded]: ...

    def release(self, through: int) -> None:
        """Everything up to this sequence is durable elsewhere."""

    def close(self) -> None: ...
