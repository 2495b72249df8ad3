"""Event streams without a loop: `with event.open_stream() as stream: for chunk in stream: …`."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from holdfast.blocking.hand_over import waiting_for
from holdfast.client.receiving.large_event import EventStream as AsyncEventStream
from holdfast.node.background import Background


class EventStream:
    """The data of one event, large or not, read from its beginning once."""

    def __init__(self, background: Background, stream: AsyncEventStream) -> None:
        self.size = stream.size
        self._background = background
        self._twin = stream

    def __enter__(self) -> Self:
        self._background.run(self._twin.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._twin.close())

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._background.run(self._twin.next_chunk()):
            yield chunk

    read = waiting_for(AsyncEventStream.read)
    save = waiting_for(AsyncEventStream.save)
