"""Staging: the calls of a client that stage events and publish them (see `holdfast.client.assembly.stage`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from holdfast.client.assembly.stage import Published, Stage, Staged
from holdfast.client.connection.session import Session


class Staging(ABC):
    """The part of a client that stages and publishes."""

    @abstractmethod
    def _opened(self) -> Session:
        """The session of an open client; Closed when there is none."""

    def stage(self, name: str, *, timeout: float | None = None) -> Stage:
        """A new stage. The name is the caller's, new for each attempt; `timeout` is for everything in it that waits."""
        return self._opened().stages.new(name, timeout)

    async def publish(
        self, scope: str, number: int, stages: Iterable[Staged], *, timeout: float | None = None
    ) -> Published:  # fmt: skip
        """Let everything in these stages become visible, unless the scope has published this number, or a higher one, before.

        NotPublished: something is missing; nothing changed, and the stages are still there. LinkLost: no answer came in time;
        publish again, which does it once.
        """
        return await self._opened().stages.publish(scope, number, stages, timeout)

    async def drop_stages(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """Drop these stages: they will not be published. Those that are not there, or were published, are skipped."""
        await self._opened().stages.drop(names, timeout)
