"""The channel of a message manager as a client manager of another process appends to it: what goes in is noted for its view, and
events wait while the primary is not heard (`held_events`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.channel.channel import Buffer, Channel, OnOutcome, Pressure, Purpose, Receipt
from holdfast.errors import HoldfastError
from holdfast.node.clock import Clock
from holdfast.node.remote.appended_commands import AppendedCommands
from holdfast.node.remote.held_events import HeldEvents


class NotedChannel:
    def __init__(
        self, manager: str, channel: Channel, appended: AppendedCommands, is_fresh: Callable[[], bool], clock: Clock
    ) -> None:
        """`is_fresh` says whether the primary of the message manager was heard a moment ago."""
        self._channel = channel
        self._appended = appended
        self.held = HeldEvents(manager, is_fresh, self._submit, clock)

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
        if purpose is Purpose.UPKEEP:
            self._appended.note(command)
            return self._channel.append(command, purpose)
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()

        def told(outcome: Receipt | HoldfastError) -> None:
            if future.done():
                return
            if isinstance(outcome, HoldfastError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.held.submit(command, purpose, told)
        return future

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        if purpose is Purpose.UPKEEP:
            self._submit(command, purpose, on_outcome)
        else:
            self.held.submit(command, purpose, on_outcome)

    def _submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self._appended.note(command)
        self._channel.submit(command, purpose, on_outcome)
