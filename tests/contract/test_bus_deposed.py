"""A primary that is deposed, and does not know it yet, beside a client manager of its own process (rule 3)."""

from __future__ import annotations

from holdfast.bus.bus import NODES, message_manager_subject
from holdfast.bus.message import CopyState, Heartbeat, LinkDown, LinkMade
from tests.contract.buses import EPOCH, MANAGER, OnNats, new_name
from tests.nats_server import NatsServer
from tests.waiting import until

SUBJECT = message_manager_subject(MANAGER)


async def test_a_deposed_primary_is_not_heard_by_the_client_manager_of_its_own_process_either(nats_server: NatsServer) -> None:
    kind, cluster = OnNats(nats_server), new_name()
    node, new = [await kind.bus(cluster) for _ in range(2)]
    heard = list[object]()
    node.listen(node.subject, heard.append)
    former = node.manager(MANAGER)
    former.lead(EPOCH)
    former.publish(node.subject, LinkDown("while it leads"))
    await until(lambda: LinkDown("while it leads") in heard, "its own client manager hears it")

    new.manager(MANAGER).lead(EPOCH + 1)
    await new.flush()
    new.publish(NODES, Heartbeat("n2", "start2", "", [CopyState(MANAGER, EPOCH + 1, True, 5, 5)]))
    await until(lambda: LinkMade(SUBJECT, EPOCH + 1) in heard, "the client manager has a link with the new one")
    former.publish(node.subject, LinkDown("of the deposed one"))
    new.manager(MANAGER).publish(node.subject, LinkDown("of the new one"))
    await until(lambda: LinkDown("of the new one") in heard, "the new one is heard")

    assert [each for each in heard if isinstance(each, LinkDown)] == [LinkDown("while it leads"), LinkDown("of the new one")]
    assert former.unsaid == 1
    for bus in (node, new):
        await bus.close()
