"""The channel of a message manager as a client manager of another process appends to it: what goes in is noted for its view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.channel.channel import Buffer, Channel, OnOutcome, Pressure, Purpose, Receipt
from holdfast.node.remote.appended_commands import AppendedCommands


class NotedChannel:
    def __init__(self, channel: Channel, appended: AppendedCommands) -> None:
        self._channel = channel
        self._appended = appended

    @property
    def id(self) -> str:
        return self._channel.id

    @property
    def durable(self) -> int:
        return self._channel.durable

    @property
    def pressure(self) -> Pressure:
        return self._channel.pressure

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        self._channel.watch_pressure(changed)

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        self._appended.note(command)
        return self._channel.append(command, purpose)

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self._appended.note(command)
        self._channel.submit(command, purpose, on_outcome)
