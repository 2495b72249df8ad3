"""Supervision: no task and no callback of a node ends unseen.

    start       a task that nobody waits for; an exception becomes one line of the log, and `failed` is called, to let the work
                go on
    awaited     a task that somebody waits for
    bounded     work that somebody waits for, but not longer than this
    guarded     a callback that cannot raise
    report      that line of the log

The code that meets an unreadable entry sets it aside: the entry goes to `_DMQ` with the code "unreadable". The exceptions met
here are unexpected, faults of ours; each must cost no more than the piece of work that met it.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

from holdfast.errors import Closed, HoldfastError, Refused

log = logging.getLogger("holdfast.supervision")

Result = TypeVar("Result")


def start(work: Coroutine[Any, Any, None], what: str, failed: Callable[[Exception], None] | None = None) -> asyncio.Task[None]:
    """Begin a piece of work; `what` names it in the log. The caller keeps the task for as long as it runs."""
    task = asyncio.create_task(work, name=what)
    task.add_done_callback(guarded(partial(_ended, what, failed), what))
    return task


def awaited(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Begin a piece of work that somebody waits for: its exception is raised to the waiter."""
    return asyncio.create_task(work)


async def bounded(seconds: float, work: Coroutine[Any, Any, None], what: str) -> None:
    """Wait for a piece of work. If it takes too long, the log says where it stands, and it is left behind, cancelled: work that
    takes a cancellation for another's goes on, and would be waited for without an end."""
    task = awaited(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        task.result()
        return
    log.error("%s did not end within %g s, and is left behind; it waits at %s", what, seconds, " > ".join(_places(task)))
    task.cancel()


def _places(task: asyncio.Task[None]) -> Iterator[str]:
    """Where a task waits: a line of each coroutine, the outermost first."""
    at: Any = task.get_coro()
    while (frame := getattr(at, "cr_frame", None)) is not None:
        yield f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        at = at.cr_await


def _ended(what: str, failed: Callable[[Exception], None] | None, task: asyncio.Task[None]) -> None:
    problem = None if task.cancelled() else task.exception()
    if not isinstance(problem, Exception) or isinstance(problem, Closed):
        return  # it is done, or the node closes
    report(what, problem)
    if failed is not None:
        failed(problem)


def guarded(function: Callable[..., object], what: str) -> Callable[..., None]:
    """The same function, but an exception is reported and not raised."""

    def call(*arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as problem:
            report(what, problem)

    return call


def report(what: str, problem: Exception) -> None:
    """Log a failure in one line, with the place where it arose; with its traceback at level debug."""
    log.error("%s failed, the rest goes on: %s", what, described(problem))
    log.debug("%s failed", what, exc_info=problem)


def described(problem: Exception) -> str:
    """The kind of an exception, its text, and where it was raised, in one short line."""
    if isinstance(problem, HoldfastError):
        return problem.sentence
    frames = traceback.extract_tb(problem.__traceback__, limit=-1)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    said = " ".join(str(problem).split())
    return f"{type(problem).__name__}{where}{f': {said:.200}' if said else ''}"


def as_refusal(problem: Exception) -> HoldfastError:
    """The error that is answered to the asker."""
    if isinstance(problem, HoldfastError):
        return problem
    return Refused(f"this could not be carried out: {described(problem)}; change what was asked for, or report it with the log")
