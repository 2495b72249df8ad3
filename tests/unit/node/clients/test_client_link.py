"""Receipts of a link: before the deliveries of their events, or after them for a sender that does not wait."""

from __future__ import annotations

import pytest

from holdfast.channel.memory_channel import MemoryChannel
from holdfast.node.identity import Identity
from holdfast.node.node import Node
from holdfast.wire.frame import Deliver, Receipted, Send
from tests.raw_client import RawClient, batch_command
from tests.running_server import SETTINGS


@pytest.mark.parametrize(("is_patient", "heard"), [(False, [Receipted, Deliver]), (True, [Deliver, Receipted])])
async def test_a_patient_sender_has_its_receipt_after_the_delivery_and_any_other_before(
    is_patient: bool, heard: list[type]
) -> None:
    node = await Node.over(MemoryChannel(), Identity.in_memory(), SETTINGS)
    await node.messages.wait_until_primary()
    client = RawClient(node)
    await client.greet()
    producer = await client.open_producer()
    await client.receive()

    client.say(Send(1, "queue", is_patient), batch_command(producer, 1))
    await client.hear(Receipted)
    await client.hear(Deliver)

    assert [type(each) for each in client.heard if isinstance(each, Receipted | Deliver)] == heard
    await node.close()
