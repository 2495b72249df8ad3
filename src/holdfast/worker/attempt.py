"""An attempt: one event, handed to its handler once, and the verdict that follows.

    returns                     confirmed; a value that is not None is the reply, where one is wanted
    raises an exception         released with back-off; after the last try rejected, with the traceback's last lines
    raises Retry(after)         released for so long, whatever the back-off says
    raises Reject(reason)       rejected at once
    data does not fit           rejected at once: another try would find the same
    takes too long              as an exception; a plain function cannot be stopped: its event waits until it has returned

Where OpenTelemetry is used, a handler runs within a span of the trace of who sent the event (`client.tracing`).

A verdict that the handler gave itself counts. In a transaction, sends, reply and confirm are one: the confirm is added last, and
a handler that fails leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.client import Client
from holdfast.client.receiving.received_event import ReceivedEvent, milliseconds
from holdfast.client.tracing import processing
from holdfast.client.transaction import Transaction
from holdfast.errors import HoldfastError, NoSuchDestination, OutcomeUnknown
from holdfast.worker.arguments import Misfit
from holdfast.worker.handler import Handler

log = logging.getLogger("holdfast.worker")

# (function, arguments) -> its result, from a thread.
InThread = Callable[[Callable[..., Any], list[Any]], Awaitable[Any]]


class Retry(Exception):
    """Raised by a handler: try this event again, after so many seconds. Without them, as the back-off says."""

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        super().__init__(reason or "the handler asked for another try")
        if after is not None:
            milliseconds(after)  # said where it is raised
        self.after = after


class Reject(Exception):
    """Raised by a handler: this event is refused for good, with the reason."""


class TooSlow(Exception):
    """A handler took longer than its time limit."""


class Ended(Exception):
    """A handler committed or rolled back the transaction that it was given."""


class Fell(Exception):
    """A handler ended with something that is no Exception, such as a CancelledError of its own."""


async def attempt(handler: Handler, event: ReceivedEvent, client: Client, in_thread: InThread) -> None:
    """Hand one event to its handler, outside of a transaction."""
    try:
        with processing(event, handler.destination):
            value = await _called(handler, handler.signature.bind(event, client, None), in_thread)
            if value is not None and event.reply_to and not event.is_decided:
                await _reply(handler, event, value)
    except Exception as problem:
        fail(handler, event, problem)
    else:
        if not event.is_decided:
            event.confirm()


async def attempt_in_transaction(
    handler: Handler, event: ReceivedEvent, client: Client, in_thread: InThread, transaction: Transaction
) -> None:
    """Hand one event to its handler; everything it sends with the transaction, and the confirm, happen together or not at all."""
    try:
        with processing(event, handler.destination):
            value = await _called(handler, handler.signature.bind(event, client, transaction), in_thread)
            if value is not None and event.reply_to:
                correlation_id = event.correlation_id or event.id
                await transaction.queue(event.reply_to).send(value, correlation_id=correlation_id)
    except BaseException as problem:
        await _roll_back(handler, transaction)
        if not isinstance(problem, Exception):
            raise
        is_given_back = event.is_decided  # with the transaction, at once: only this slot can wait
        fail(handler, event, problem)
        if is_given_back:
            await _pause(handler, event)
        return
    try:
        if not event.is_decided:  # by the handler: there is nothing left to confirm
            await transaction.confirm(event)
        await transaction.commit()
    except OutcomeUnknown as problem:
        log.warning("%s: whether the transaction happened is not known; its event comes again if not: %s", handler.title, problem)
    except HoldfastError as problem:
        if event.is_decided:
            log.warning("%s: the transaction was rolled back, and its event comes again: %s", handler.title, problem)
            await _pause(handler, event)
        else:
            fail(handler, event, Ended(f"{handler.title} ended its transaction, which the worker commits: {problem}"))


async def _pause(handler: Handler, event: ReceivedEvent) -> None:
    """Wait as the back-off says, where the event could not be given back with a pause."""
    pause_s = handler.retry.pause_s(event.deliveries)
    await asyncio.sleep(handler.retry.longest_s if pause_s is None else pause_s)


async def _roll_back(handler: Handler, transaction: Transaction) -> None:
    try:
        await transaction.rollback()
    except HoldfastError as problem:
        log.warning(
            "%s: the transaction could not be rolled back yet; it is given up with its session: %s", handler.title, problem
        )


async def _called(handler: Handler, arguments: list[Any], in_thread: InThread) -> Any:
    """Call the handler. Whatever it raises is its own failure; only an end of the worker, or of the program, goes further."""
    try:
        return await _result(handler, arguments, in_thread)
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as problem:
        task = asyncio.current_task()
        if isinstance(problem, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise Fell(f"{handler.title} ended with {problem!r}") from problem


async def _result(handler: Handler, arguments: list[Any], in_thread: InThread) -> Any:
    if handler.is_async:
        work = handler.function(*arguments)
    else:
        work = await _called_in_thread(handler, arguments, in_thread)
        if not inspect.isawaitable(work):  # a plain function around an `async def` leaves the work to be done
            return work
    try:
        async with asyncio.timeout(handler.timeout_s) as limit:
            return await work
    except TimeoutError as problem:
        if limit.expired():
            raise TooSlow(f"{handler.title} took longer than {handler.timeout_s:g} s and was cancelled") from problem
        raise


async def _called_in_thread(handler: Handler, arguments: list[Any], in_thread: InThread) -> Any:
    """Wait for a plain function to return, however long that takes: while it runs, nobody else may have its event."""
    running = asyncio.ensure_future(in_thread(handler.function, arguments))
    done, _ = await asyncio.wait({running}, timeout=handler.timeout_s)
    if not done:
        log.warning("%s runs for more than %g s; its event is kept until it returns", handler.title, handler.timeout_s)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


async def _reply(handler: Handler, event: ReceivedEvent, value: Any) -> None:
    try:
        await event.reply(value)
    except NoSuchDestination:
        log.info("%s: nobody waits for the reply to event %s any more", handler.title, event.id)


def fail(handler: Handler, event: ReceivedEvent, problem: Exception) -> None:
    """Give the verdict on an event whose handler raised this."""
    if event.is_decided:
        log.error("%s failed after it had decided on event %s", handler.title, event.id, exc_info=problem)
        return
    if isinstance(problem, Misfit | Reject):
        log.warning("%s rejects event %s: %s", handler.title, event.id, problem)
        event.reject(str(problem) or "rejected by its handler")
        return
    pause_s = handler.retry.pause_s(event.deliveries)
    if isinstance(problem, Retry) and pause_s is not None and problem.after is not None:
        pause_s = problem.after
    if pause_s is None:
        log.error(
            "%s failed on event %s for the last time; it goes to the dead events", handler.title, event.id, exc_info=problem
        )
        event.reject(problem)
        return
    log.warning(
        "%s failed on event %s, delivery %d; it is tried again in %g s: %r",
        handler.title, event.id, event.deliveries + 1, pause_s, problem,
    )  # fmt: skip
    event.release(pause_s, reason=problem)
