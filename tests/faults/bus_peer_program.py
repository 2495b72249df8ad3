"""A client manager's side of the bus as a process of its own: it sends the number of each delivery back to the manager.

python -m tests.faults.bus_peer_program SERVER CLUSTER START MANAGER
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.bus.bus import message_manager_subject
from holdfast.bus.message import Delivered, LinkDown
from holdfast.bus.message_codec import MessageCodec
from holdfast.bus.nats.connection import NatsConnection
from holdfast.bus.nats.nats_bus import NatsBus


async def answer(server: str, cluster: str, start: str, manager: str) -> None:
    bus = NatsBus(await NatsConnection.open([server]), cluster, start, MessageCodec())

    def heard(message: object) -> None:
        if isinstance(message, Delivered):
            bus.publish(message_manager_subject(manager), LinkDown(message.session))

    bus.listen(bus.subject, heard)
    bus.reach(manager)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(answer(*sys.argv[1:]))
