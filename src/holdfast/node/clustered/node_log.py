"""The log of a node of a cluster in `_LOG`, which all nodes share (B19).

    lines of this node ──▶ LogTopic ──▶ channel of the first message manager ──▶ `_LOG`
    heartbeat of its primary: somebody subscribes to `_LOG` ──▶ listen, or stop

Each node appends its own lines, and each line names its node. While the channel does not answer, nothing is appended: the lines
gather here, and the oldest are dropped and counted past a limit. So a line about an append that failed never makes another
append that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.bus.message import Heartbeat
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.node.identity import Identity
from holdfast.node.logs.log_line import LogLine
from holdfast.node.logs.log_topic import LogTopic

# The channel tells its state each second: one that has not for so long does not answer.
UNANSWERED_S = 2.5


class NodeLog:
    def __init__(
        self, node: str, manager: str, channel: JetStreamChannel, identity: Identity, is_blocked: Callable[[], bool]
    ) -> None:
        """`manager` has `_LOG`, and `channel` is its channel. `is_blocked`: `_LOG` is at its high water."""
        self._manager = manager
        self._epoch = 0
        self._topic = LogTopic(node, channel, identity, is_blocked, lambda: not channel.unanswered(UNANSWERED_S))
        self._topic.begin()

    @property
    def dropped(self) -> int:
        """Lines that were dropped since the start."""
        return self._topic.dropped_ever

    def heard(self, heartbeat: Heartbeat) -> None:
        """The newest primary says whether somebody subscribes to `_LOG`. While there is none, it stays as it was."""
        for copy in heartbeat.copies:
            if copy.manager == self._manager and copy.is_primary and copy.epoch >= self._epoch:
                self._epoch = copy.epoch
                self._topic.listen(copy.is_log_read)

    def take(self, program: str, lines: Sequence[LogLine]) -> bool:
        """Take lines of a program that runs beside this node."""
        return self._topic.take(program, lines)

    async def stop(self) -> None:
        await self._topic.stop()
