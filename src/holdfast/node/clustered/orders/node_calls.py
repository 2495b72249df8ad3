"""Calls between nodes: a question with an answer, over the bus.

    asker ── NodeAsked (again every half second) ──▶ node.NAME ──▶ served once ──▶ NodeAnswered ──▶ node.START of the asker

The bus loses messages. A call is repeated until it is answered; a call that comes again is answered again, and served once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdfast.bus.bus import Bus, node_subject
from holdfast.bus.message import NodeAnswered, NodeAsked
from holdfast.errors import Refused, Unavailable
from holdfast.node import supervision
from holdfast.node.messages.start import Backup

AGAIN_S = 0.5
# Calls whose answers are remembered, to be said again.
REMEMBERED_MAX = 256

Serve = Callable[[dict[str, Any]], Awaitable[Any]]


class NodeCalls:
    def __init__(self, whose: Backup, bus: Bus, served: Mapping[str, Serve]) -> None:
        """`served` carries out the calls of others, by action."""
        self._node = whose.node
        self._own = node_subject(whose.start)
        self._bus = bus
        self._served = served
        self._token = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._answers: dict[tuple[str, int], NodeAnswered] = {}
        self._stop_listening = [bus.listen(subject, self._hear) for subject in (node_subject(whose.node), self._own)]

    async def ask(self, node: str, action: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Ask a node, by its name; return its answer. Unavailable when it does not answer in time."""
        self._token += 1
        token = self._token
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        asked = NodeAsked(self._own, token, action, arguments)
        try:
            async with asyncio.timeout(timeout_s):
                while not answer.done():
                    self._bus.publish(node_subject(node), asked)
                    await asyncio.wait([answer], timeout=AGAIN_S)
                return answer.result()
        except TimeoutError as problem:
            raise Unavailable(
                f"node {node} did not answer within {timeout_s:g} s; look at `holdfast cluster status`"
            ) from problem
        finally:
            del self._waiting[token]

    def _hear(self, message: object) -> None:
        if isinstance(message, NodeAnswered):
            waiting = self._waiting.get(message.token)
            if waiting is None or waiting.done():
                return
            if message.error is not None:
                waiting.set_exception(message.error)
            else:
                waiting.set_result(message.value)
        elif isinstance(message, NodeAsked):
            key = message.asker, message.token
            if key in self._answers:
                self._bus.publish(message.asker, self._answers[key])
            elif key not in self._running:
                self._running[key] = supervision.start(self._answer(message), f"{message.action} for {message.asker}")

    async def _answer(self, asked: NodeAsked) -> None:
        key = asked.asker, asked.token
        try:
            serve = self._served.get(asked.action)
            if serve is None:
                raise Refused(f"node {self._node} cannot {asked.action!r:.40}; upgrade it")
            answer = NodeAnswered(self._node, asked.token, await serve(asked.arguments), None)
        except Exception as problem:  # the asker gets it, whatever it is
            answer = NodeAnswered(self._node, asked.token, None, supervision.as_refusal(problem))
        finally:
            del self._running[key]
        self._answers[key] = answer
        if len(self._answers) > REMEMBERED_MAX:
            del self._answers[next(iter(self._answers))]
        self._bus.publish(asked.asker, answer)

    async def stop(self) -> None:
        for stop in self._stop_listening:
            stop()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
