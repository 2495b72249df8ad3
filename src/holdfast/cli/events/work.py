"""`holdfast work`: run the handlers of a worker, in this process or in several."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, Literal

import typer

from holdfast.cli import help_text

Target = Annotated[
    str, typer.Argument(metavar="MODULE:WORKER", help="A module and the Worker in it, such as orders.tasks:worker.")
]
Processes = Annotated[int, typer.Option("--processes", metavar="N", min=1, max=1_000, help="Run it in so many processes.")]
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
            changed={0: "told to stop, and everything in hand was finished or given back"},
        )
    )(work)


def work(
    target: Target, processes: Processes = 1, reload: Reload = False, url: WorkerUrl = None, log_level: LogLevel = "info"
) -> None:
    from holdfast.cli.operations import server_log
    from holdfast.errors import BadSetting, HoldfastError

    server_log.begin(log_level)
    try:
        _work(target, processes, reload, url, log_level)
    except HoldfastError:
        raise
    except Exception as problem:  # of the program: its module, or a hook
        traceback.print_exception(problem)
        raise BadSetting(f"{target} failed: {type(problem).__name__}: {problem}", setting="worker") from problem


def _work(target: str, processes: int, reload: bool, url: str | None, log_level: str) -> None:
    from holdfast.worker.processes import Processes, end_with_parent
    from holdfast.worker.target import load

    if processes > 1 or reload:
        if not reload:
            load(target)  # report an import error once, before anything is started
        command = [sys.executable, "-m", "holdfast", "work", target, "--log-level", log_level]
        Processes([*command, *(["--url", url] if url else [])], processes, Path.cwd() if reload else None).run()
        return
    worker = load(target)
    worker.url = url or worker.url
    end_with_parent()
    worker.run()
