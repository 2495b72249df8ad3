"""The answers of a primary to the views of client managers of other processes (`node.remote.remote_view`).

    ViewAsked ──▶ when everything that is durable is applied ──▶ LocalView ──▶ ViewAnswered

An answer covers everything that was receipted before the question, whichever client manager it was receipted to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast.bus.bus import Bus, message_manager_subject
from holdfast.bus.message import ApplyNowAsked, ViewAnswered, ViewAsked
from holdfast.channel.channel import Buffer
from holdfast.errors import Refused
from holdfast.node import supervision
from holdfast.node.message_manager_view import MessageManagerView, RememberedSession

Answered = Callable[[Any], None]


class ViewAnswers:
    def __init__(self, view: MessageManagerView, bus: Bus) -> None:
        """`view` is that of the primary's own process."""
        self._view = view
        self._bus = bus
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_listening = bus.listen(message_manager_subject(view.name), self.hear)

    async def stop(self) -> None:
        self._stop_listening()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hear(self, message: object) -> None:
        if isinstance(message, ViewAsked):
            self._view.when_caught_up(partial(self._answer, message), message.durable)
        elif isinstance(message, ApplyNowAsked):
            self._view.apply_now()

    def _answer(self, asked: ViewAsked) -> None:
        try:
            self._begin(asked, partial(self._tell, asked))
        except Exception as problem:  # the asker gets it, whatever it is
            self._refuse(asked, problem)

    def _begin(self, asked: ViewAsked, answered: Answered) -> None:
        view, arguments = self._view, asked.arguments
        match asked.question:
            case "when_caught_up" | "when_told":
                answered(None)
            case "recall_session":
                (session,) = arguments
                view.recall_session(session, lambda found: answered(_travelling(found)))
            case "list_sessions":
                view.list_sessions(lambda found: answered(list(found)))
            case "list_destinations":
                (since,) = arguments
                view.list_destinations(since, lambda news: answered(list(news)))
            case "list_holders":
                destination, subscription = arguments
                view.list_holders(destination, subscription, lambda found: answered(list(found)))
            case "prepare_take_over":
                destination, subscription, session = arguments
                view.prepare_take_over(destination, subscription, session, lambda: answered(None))
            case "read_fragment":
                self._read(asked, view.read_fragment(*arguments))
            case "read_fragment_in":
                self._read(asked, view.read_fragment_in(*arguments))
            case _:
                raise Refused(f"a view cannot be asked for {asked.question!r:.40} here; upgrade this node")

    def _read(self, asked: ViewAsked, reading: Awaitable[Buffer]) -> None:
        task = supervision.start(self._tell_read(asked, reading), "reading a fragment")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_read(self, asked: ViewAsked, reading: Awaitable[Buffer]) -> None:
        try:
            self._tell(asked, await reading)
        except Exception as problem:  # the asker gets it, whatever it is
            self._refuse(asked, problem)

    def _tell(self, asked: ViewAsked, value: Any) -> None:
        self._bus.publish(asked.client_manager, ViewAnswered(self._view.name, asked.token, value, None))

    def _refuse(self, asked: ViewAsked, problem: Exception) -> None:
        refusal = supervision.as_refusal(problem)
        self._bus.publish(asked.client_manager, ViewAnswered(self._view.name, asked.token, None, refusal))


def _travelling(found: RememberedSession | None) -> Any:
    if found is None:
        return None
    return [[number, *place] for number, place in found.receivers.items()], list(found.producers), found.client_manager
