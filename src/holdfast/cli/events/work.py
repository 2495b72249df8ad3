"""`holdfast work`: run the handlers of a worker, in this process or in several."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, Literal

import typer

from holdfast.cli import help_text

# How long the interpreter may take to end, before a thread that a handler left behind is not waited for any more.
EXIT_S = 10.0

Target = Annotated[
    str, typer.Argument(metavar="MODULE:WORKER", help="A module and the Worker in it, such as orders.tasks:worker.")
]
Processes = Annotated[int, typer.Option("--processes", metavar="N", min=1, max=1_000, help="Run it in so many processes.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for a server that does not answer yet, or exit with 3.")]
Reload = Annotated[bool, typer.Option("--reload", help="Start it again when a Python file below this folder changes.")]
WorkerUrl = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="HOLDFAST_URL", metavar="URL", help="The server or folder; without it, the URL of the worker itself."
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="The least level that is logged on stderr.")
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Run the handlers of a worker until SIGTERM or Ctrl-C, then finish what is in hand and give back the rest.",
            [
                "holdfast work tasks:worker",
                "holdfast work tasks:worker --processes 4",
                "holdfast work tasks:worker --reload --log-level debug",
            ],
            changed={
                0: "told to stop, and everything in hand was finished or given back",
                6: "told to stop, and a handler was still at work after the grace: the log names its event, which comes again",
            },
        )
    )(work)


def work(
    target: Target, processes: Processes = 1, reload: Reload = False, wait: Wait = True, url: WorkerUrl = None,
    log_level: LogLevel = "info",
) -> None:  # fmt: skip
    from holdfast.cli.operations import server_log
    from holdfast.errors import BadSetting, HoldfastError

    server_log.begin(log_level)
    try:
        code = _work(target, processes, reload, wait, url, log_level)
    except HoldfastError:
        raise
    except Exception as problem:  # of the program: its module, or a hook
        traceback.print_exception(problem)
        raise BadSetting(f"{target} failed: {type(problem).__name__}: {problem}", setting="worker") from problem
    if code:
        raise typer.Exit(code)


def _work(target: str, processes: int, reload: bool, wait: bool, url: str | None, log_level: str) -> int:
    from holdfast.client.program import source_of
    from holdfast.worker.processes import end_with_parent, tell_parent
    from holdfast.worker.signals import LEFT, Backstop
    from holdfast.worker.target import load

    if processes > 1 or reload:
        return _work_in_children(target, processes, reload, wait, url, log_level)
    worker = load(target)
    worker.url, worker.wait = url or worker.url, worker.wait and wait
    worker.name = worker.name or source_of(target.partition(":")[0])  # otherwise all workers of a host had one source
    end_with_parent()
    worker.run(ready=tell_parent)
    Backstop(EXIT_S, lambda: "a thread still runs").arm()
    return LEFT if worker.left else 0


def _work_in_children(target: str, processes: int, reload: bool, wait: bool, url: str | None, log_level: str) -> int:
    from holdfast.worker.processes import Processes
    from holdfast.worker.target import load

    try:
        loaded = load(target)  # report an import error once, before anything is started
    except Exception:
        if not reload:  # otherwise the children report it, and again after each change
            raise
    else:
        _check_shared(url or loaded.url, processes)
    command = [sys.executable, "-m", "holdfast", "work", target, "--log-level", log_level, "--wait" if wait else "--no-wait"]
    return Processes([*command, *(["--url", url] if url else [])], processes, Path.cwd() if reload else None).run()


def _check_shared(url: str | None, processes: int) -> None:
    """BadSetting where several processes cannot share the events: a journal has one owner."""
    from holdfast.client.url import FileUrl, parse
    from holdfast.errors import BadSetting

    place = parse(url) if url else None
    if processes > 1 and isinstance(place, FileUrl):
        raise BadSetting(
            f"{url!r} is a journal, which one process owns; run 'holdfast serve --data {place.folder}' and give its URL "
            "(--url holdfast://localhost), or leave out --processes",
            setting="processes",
        )
