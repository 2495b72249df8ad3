"""What a client manager hears of a primary of another process: whether it is there, and what was missed of its watermarks."""

from __future__ import annotations

from holdfast.bus.bus import CLIENT_MANAGERS, NODES, InProcessBus, message_manager_subject
from holdfast.bus.message import CopyState, Heartbeat, Watermark, WatermarksAsked, WatermarksTold
from holdfast.node.clients.client_flow import ClientFlow
from holdfast.node.remote.appended_commands import AppendedCommands
from holdfast.node.remote.remote_view import FRESH_MS_MAX, RemoteView
from tests.waiting import turn_loop

CLIENT = "client_manager.c1"


class Company:
    """A view and the flow of its client manager, and a primary that is only a voice on the bus."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.bus = InProcessBus()
        self.view = RemoteView("m1", CLIENT, self.bus, AppendedCommands(), steady_ms=lambda: self.now_ms)
        self.flow = ClientFlow(self.bus, lambda session, level: None)
        self.asked: list[object] = []
        self.bus.listen(message_manager_subject("m1"), self.asked.append)
        self.bus.listen(CLIENT, lambda message: self.flow.hear_all(message) if isinstance(message, WatermarksTold) else None)

    async def beat(self, flow_version: int, epoch: int = 1, is_primary: bool = True) -> None:
        copy = CopyState("m1", epoch, is_primary, 0, 0, flow_version=flow_version)
        self.bus.publish(NODES, Heartbeat("a", "a1", CLIENT, [copy]))
        await turn_loop(3)

    async def say(self, subject: str, message: object) -> None:
        self.bus.publish(subject, message)
        await turn_loop(3)

    @property
    def watermarks_asked(self) -> int:
        return sum(isinstance(each, WatermarksAsked) for each in self.asked)


def _full(name: str, version: int, epoch: int = 1) -> Watermark:
    return Watermark(name, True, True, False, "full", "m1", epoch, version)


async def test_a_primary_is_fresh_while_it_is_heard_and_a_backup_does_not_count() -> None:
    company = Company()
    await company.beat(0, is_primary=False)
    fresh = [company.view.is_fresh]
    await company.beat(0)
    for company.now_ms in (FRESH_MS_MAX, FRESH_MS_MAX + 1):
        fresh.append(company.view.is_fresh)
    assert fresh == [False, True, False]


async def test_a_watermark_that_was_lost_is_asked_for_with_the_next_heartbeat() -> None:
    company = Company()
    await company.say(CLIENT, WatermarksTold("m1", 1, 0, []))
    await company.beat(0)
    await company.say(CLIENT_MANAGERS, _full("orders", 1))
    await company.beat(1)
    assert company.watermarks_asked == 0

    await company.beat(3)  # two were lost: another queue is full, and this one has no high water any more
    assert company.watermarks_asked == 1
    await company.say(CLIENT, WatermarksTold("m1", 1, 3, [_full("invoices", 3)]))
    await company.beat(3)

    assert company.watermarks_asked == 1
    assert company.flow.is_blocked("invoices") and not company.flow.is_blocked("orders")


async def test_what_a_deposed_primary_says_of_full_destinations_is_not_heard() -> None:
    company = Company()
    await company.say(CLIENT, WatermarksTold("m1", 2, 1, []))
    await company.say(CLIENT_MANAGERS, _full("orders", 9, epoch=1))
    await company.say(CLIENT, WatermarksTold("m1", 1, 9, [_full("orders", 9, epoch=1)]))

    assert not company.flow.is_blocked("orders")
