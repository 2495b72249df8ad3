"""An attempt: one event, handed to its handler once, and the verdict that follows.

    returns                     confirmed; a value that is not None is the reply, where one is wanted
    raises an exception         released with back-off; after the last try rejected as failed, with the traceback's last lines
    ends its process            redelivered; after the last try rejected as failed, before the handler is called
    raises Retry(after)         released for so long, whatever the back-off says
    raises Reject(reason)       rejected at once
    raises what is not worth it rejected at once, with the traceback's last lines: `reject_on` and `retry_on` say what that is
    raises SystemExit           as an exception: a worker ends when it is told to, never because a handler calls sys.exit
    data does not fit           rejected at once: another try would find the same
    takes too long              as an exception; a plain function cannot be stopped: its event is kept until it returns
    commit is refused           as an exception

Where OpenTelemetry is used, a handler runs within a span of the trace of who sent the event (`client.tracing`).

A verdict that the handler gave itself counts. In a transaction, sends, reply and confirm are one: the confirm is added last, and
a handler that fails leaves nothing behind. The worker keeps the event of a transaction that was rolled back, and decides on it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

from holdfast.client.checks import milliseconds
from holdfast.client.client import Client
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.client.tracing import processing
from holdfast.client.transaction import Transaction
from holdfast.errors import HoldfastError, NoSuchDestination, OutcomeUnknown
from holdfast.worker.arguments import Misfit
from holdfast.worker.handler import Handler

log = logging.getLogger("holdfast.worker")

# (function, arguments) -> its result, from a thread.
InThread = Callable[[Callable[..., Any], list[Any]], asyncio.Future[Any]]


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


class Final(Exception):
    """A handler raised, as the cause of this, an exception after which its event is not tried again."""


class Fell(Exception):
    """A handler ended with something that is no Exception, such as SystemExit, or a CancelledError of its own."""


async def attempt(handler: Handler, event: ReceivedEvent, client: Client, in_thread: InThread) -> None:
    """Hand one event to its handler, outside of a transaction."""
    try:
        with processing(event, handler.destination):
            value = await _called(handler, event, handler.signature.bind(event, client, None), in_thread)
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
    transaction.keep_events()
    try:
        with processing(event, handler.destination):
            value = await _called(handler, event, handler.signature.bind(event, client, transaction), in_thread)
            if value is not None and event.reply_to and transaction.is_open:
                await _reply_in_transaction(handler, event, value, client, transaction)
    except BaseException as problem:
        await _roll_back(handler, transaction)
        if not isinstance(problem, Exception):
            raise
        fail(handler, event, problem)
        return
    if not transaction.is_open:  # the handler has ended it, although that is for the worker to do
        if not event.is_decided:
            fail(handler, event, Ended(f"{handler.title} ended its transaction, which the worker commits"))
        return
    try:
        if not event.is_decided:  # by the handler: there is nothing left to confirm
            await transaction.confirm(event)
        await transaction.commit()
    except OutcomeUnknown as problem:
        log.warning("%s: whether the transaction happened is not known; its event comes again if not: %s", handler.title, problem)
    except HoldfastError as problem:
        fail(handler, event, problem)


async def _roll_back(handler: Handler, transaction: Transaction) -> None:
    try:
        if transaction.is_open:
            await transaction.rollback()
    except HoldfastError as problem:
        log.warning(
            "%s: the transaction could not be rolled back yet; it is given up with its session: %s", handler.title, problem
        )


async def _called(handler: Handler, event: ReceivedEvent, arguments: list[Any], in_thread: InThread) -> Any:
    """Call the handler. Whatever it raises is its own failure; only an end of the worker, or of the program, goes further."""
    try:
        return await _result(handler, event, arguments, in_thread)
    except (TooSlow, Retry, Reject, GeneratorExit):
        raise
    except Exception as problem:
        if handler.retry.is_final(problem):
            raise Final from problem
        raise
    except BaseException as problem:
        task = asyncio.current_task()
        if isinstance(problem, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        if isinstance(problem, KeyboardInterrupt) and handler.is_async and _interrupts():
            raise
        raise Fell(f"{handler.title} ended with {problem!r}") from problem


def _interrupts() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in code of this loop. Elsewhere the signal is heard, and only code raises it."""
    hears = signal.getsignal(signal.SIGINT)
    is_asyncio = isinstance(hears, functools.partial)  # asyncio.Runner: the second Ctrl-C
    return threading.current_thread() is threading.main_thread() and (is_asyncio or hears is signal.default_int_handler)


async def _result(handler: Handler, event: ReceivedEvent, arguments: list[Any], in_thread: InThread) -> Any:
    if handler.is_async:
        work = handler.function(*arguments)
    else:
        work = await _called_in_thread(handler, event, arguments, in_thread)
        if not inspect.isawaitable(work):  # a plain function around an `async def` leaves the work to be done
            return work
    try:
        async with asyncio.timeout(handler.timeout_s) as limit:
            return await work
    except TimeoutError as problem:
        if limit.expired():
            raise TooSlow(f"{handler.title} took longer than {handler.timeout_s:g} s and was cancelled") from problem
        raise


async def _called_in_thread(handler: Handler, event: ReceivedEvent, arguments: list[Any], in_thread: InThread) -> Any:
    """Wait for a plain function to return, however long that takes: while it runs, nobody else may have its event."""
    running = in_thread(handler.function, arguments)
    done, _ = await asyncio.wait({running}, timeout=handler.timeout_s)
    if not done:
        log.warning(
            "%s runs for more than %g s on event %s, which is kept until it returns", handler.title, handler.timeout_s, event.id
        )
        await asyncio.wait({running})
    return running.result()


async def _reply(handler: Handler, event: ReceivedEvent, value: Any) -> None:
    try:
        await event.reply(value)
    except NoSuchDestination:
        log.info("%s: nobody waits for the reply to event %s any more", handler.title, event.id)


async def _reply_in_transaction(
    handler: Handler, event: ReceivedEvent, value: Any, client: Client, transaction: Transaction
) -> None:
    """Send the reply with the transaction. Where nobody waits for it the commit was refused: then the next try leaves it out."""
    assert event.reply_to
    if event.redelivered:
        try:
            await client.describe(event.reply_to)
        except NoSuchDestination:
            log.info("%s: nobody waits for the reply to event %s any more", handler.title, event.id)
            return
        except HoldfastError:
            pass  # nobody can tell; the commit will
    await transaction.queue(event.reply_to).send(value, correlation_id=event.correlation_id or event.id)


def give_up_if_used_up(handler: Handler, event: ReceivedEvent) -> bool:
    """Reject an event all of whose tries were begun, and the last ended with its process; whether it was so."""
    if not handler.retry.is_used_up(event.deliveries):
        return False
    reason = (
        f"delivered {event.deliveries} times, and not tried again (retries={handler.retry.retries} of {handler.title}); the last "
        "time it got no verdict: its process ended, or its handler was cancelled"
    )
    log.error("%s does not take event %s; it goes to the dead events: %s", handler.title, event.id, reason)
    event.reject(reason, code="failed")
    return True


def fail(handler: Handler, event: ReceivedEvent, problem: Exception) -> None:
    """Give the verdict on an event whose handler raised this."""
    if event.is_decided:
        log.error("%s failed after it had decided on event %s", handler.title, event.id, exc_info=problem)
        return
    if isinstance(problem, Misfit | Reject):
        log.warning("%s rejects event %s: %s", handler.title, event.id, problem)
        event.reject(str(problem) or "rejected by its handler")
        return
    if isinstance(problem, Final):
        cause = problem.__cause__
        assert isinstance(cause, Exception)
        log.warning("%s rejects event %s, after what is not tried again: %r", handler.title, event.id, cause)
        event.reject(cause)
        return
    pause_s = handler.retry.pause_s(event.deliveries, handler.dice())
    if isinstance(problem, Retry) and pause_s is not None and problem.after is not None:
        pause_s = problem.after
    if pause_s is None:
        log.error(
            "%s failed on event %s for the last time; it goes to the dead events", handler.title, event.id, exc_info=problem
        )
        event.reject(problem, code="failed")
        return
    log.warning(
        "%s failed on event %s, delivery %d; it is tried again in %g s: %r",
        handler.title, event.id, event.deliveries + 1, pause_s, problem,
    )  # fmt: skip
    event.release(pause_s, reason=problem)
