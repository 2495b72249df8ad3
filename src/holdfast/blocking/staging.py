"""Stages without a loop: `stage = client.stage(name); stage.send("orders", …); client.publish(scope, number, [stage.seal()])`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.blocking.background import Background
from holdfast.client.gathering import Kind
from holdfast.client.outgoing import EventFields
from holdfast.client.staging import Bytes, Published, Staged
from holdfast.client.staging import Stage as AsyncStage
from holdfast.event.identifier import Counter

if TYPE_CHECKING:
    from holdfast.client.client import Client as AsyncClient


class Stage:
    """Made by `client.stage(name)`. One thread uses it at a time."""

    def __init__(self, background: Background, stage: AsyncStage) -> None:
        self.name = stage.name
        self._background = background
        self._stage = stage

    @property
    def source(self) -> str:
        return self._stage.source

    @property
    def ids(self) -> Counter:
        return self._stage.ids

    def send(self, destination: str, data: Any = None, *, kind: Kind = "queue", **fields: Unpack[EventFields]) -> None:
        """Stage one event."""
        self._background.run(self._stage.send(destination, data, kind=kind, **fields))

    def send_batch(self, destination: str, kind: Kind, batch: Bytes, events: int) -> None:
        """Stage a batch that is made already."""
        self._background.run(self._stage.send_batch(destination, kind, batch, events))

    def seal(self) -> Staged:
        """Wait until everything is durable."""
        return self._background.run(self._stage.seal())


class Staging:
    """The part of a client that stages and publishes; each call is told of at its twin."""

    _background: Background
    _client: AsyncClient

    def stage(self, name: str, *, timeout: float | None = None) -> Stage:
        return Stage(self._background, self._client.stage(name, timeout=timeout))

    def publish(self, scope: str, number: int, stages: Iterable[Staged], *, timeout: float | None = None) -> Published:
        return self._background.run(self._client.publish(scope, number, stages, timeout=timeout))

    def drop_stages(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        self._background.run(self._client.drop_stages(names, timeout=timeout))
