from __future__ import annotations

from collections.abc import Callable

from holdfast.bus.bus import InProcessBus, message_manager_subject
from holdfast.bus.message import ApplyNowAsked, ViewAnswered, ViewAsked
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.errors import Refused
from holdfast.node.clock import SystemClock
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.local_view import LocalView
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.remote.appended_commands import AppendedCommands
from holdfast.node.remote.remote_view import RemoteView
from holdfast.node.remote.view_answers import ViewAnswers
from tests.running_server import SETTINGS
from tests.waiting import turn_loop, until

CLIENT, SUBJECT = "client_manager.a1", message_manager_subject("m1")


class Lagging(LocalView):
    """A view of a primary that has not applied everything yet."""

    def __init__(self, manager: MessageManager) -> None:
        super().__init__(manager)
        self.held: list[Callable[[], None]] = []

    def when_caught_up(self, then: Callable[[], None], known: int = 0) -> None:
        self.held.append(then)


async def opened(bus: InProcessBus) -> MessageManager:
    channel = MemoryChannel()
    manager = await MessageManager.open("m1", channel, bus, SystemClock(), SETTINGS, OperatorLog(channel))
    await manager.wait_until_primary()
    return manager


async def test_nothing_is_answered_before_everything_that_is_durable_is_applied() -> None:
    bus, heard = InProcessBus(), list[object]()
    manager = await opened(bus)
    view = Lagging(manager)
    answers = ViewAnswers(view, bus)
    bus.listen(CLIENT, heard.append)

    bus.publish(SUBJECT, ViewAsked(CLIENT, 1, "list_sessions", []))
    await until(lambda: view.held, "it is asked")
    await turn_loop(5)
    assert heard == []

    view.held.pop()()
    await until(lambda: heard, "it is answered")
    assert heard == [ViewAnswered("m1", 1, [], None)]
    await answers.stop()
    await manager.stop()


async def test_a_question_that_is_not_known_here_is_refused_with_what_to_do() -> None:
    bus, heard = InProcessBus(), list[ViewAnswered]()
    manager = await opened(bus)
    answers = ViewAnswers(LocalView(manager), bus)
    bus.listen(CLIENT, heard.append)

    bus.publish(SUBJECT, ViewAsked(CLIENT, 1, "of a newer release", []))
    await until(lambda: heard, "it is answered")

    error = heard[0].error
    assert isinstance(error, Refused) and "upgrade this node" in error.sentence
    await answers.stop()
    await manager.stop()


async def test_an_answer_of_another_manager_under_the_same_number_is_not_taken() -> None:
    bus, told = InProcessBus(), list[object]()
    view = RemoteView("m1", CLIENT, bus, AppendedCommands())
    view.list_sessions(told.append)

    bus.publish(CLIENT, ViewAnswered("m2", 1, ["of m2"], None))
    bus.publish(CLIENT, ViewAnswered("m1", 1, ["of m1"], None))
    await until(lambda: told, "it is answered")

    assert told == [{"of m1"}]


async def test_whoever_waits_for_what_is_applied_next_says_so_once_a_turn() -> None:
    bus, heard = InProcessBus(), list[object]()
    view = RemoteView("m1", CLIENT, bus, AppendedCommands())
    bus.listen(SUBJECT, heard.append)

    for _ in range(10):
        view.apply_now()
    await until(lambda: heard, "it is heard")
    await turn_loop(5)
    assert heard == [ApplyNowAsked()]

    view.apply_now()
    await until(lambda: len(heard) == 2, "it is heard again")
