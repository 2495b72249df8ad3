"""Reading large events without a loop: `with event.open_stream() as stream: stream.save("order.pdf")`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from holdfast.blocking.background import Background
from holdfast.client.large import EventStream as AsyncEventStream
from holdfast.client.large import Progress


class EventStream:
    """The data of one event, large or not, read from its beginning once."""

    def __init__(self, background: Background, stream: AsyncEventStream) -> None:
        self.size = stream.size
        self._background = background
        self._stream = stream

    def __enter__(self) -> Self:
        self._background.run(self._stream.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._stream.close())

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._background.run(self._stream.next_chunk()):
            yield chunk

    def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, fewer only at the end; without a count, all the rest."""
        return self._background.run(self._stream.read(count))

    def save(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Write all of it to a file, which has its name only when it is whole and on disk."""
        self._background.run(self._stream.save(path, progress=progress))
