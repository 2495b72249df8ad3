"""A program: a command that runs until it is told to stop. It logs on stderr, takes options from a file, and can show them all.

    @program
    def engine(domain: Domain, url: Url = URL_DEFAULT) -> None: …

adds --log-level, --config and --print-config at the end. The command is called when the log has begun, unless --print-config
was all that was asked for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer

from holdfast.cli import config_file
from holdfast.cli.config_file import Config, PrintConfig
from holdfast.cli.options import LogLevel, keyword

START_TRIES = 5
START_PAUSE_SECONDS = 1.0

Opened = TypeVar("Opened")


def program(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def call(context: typer.Context, log_level: str, config: Path | None, print_config: bool, **own: Any) -> None:
        from holdfast.cli.operations import server_log
        from holdfast.cli.output import print_line

        if print_config:
            print_line(config_file.as_toml(context))
            return
        server_log.begin(log_level)
        command(**own)

    hints = get_type_hints(command, include_extras=True)
    parameters = [
        keyword("context", typer.Context, inspect.Parameter.empty),
        *(keyword(name, hints[name], each.default) for name, each in inspect.signature(command).parameters.items()),
        keyword("log_level", LogLevel, "info"),
        keyword("config", Config, None),
        keyword("print_config", PrintConfig, False),
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


async def opened(open: Callable[[], Awaitable[Opened]], what: str) -> Opened:
    """Open a part of a program. A start that fails because Holdfast is not there yet is tried again, then reported (29)."""
    import asyncio
    import logging

    from holdfast.errors import Unavailable

    for _ in range(START_TRIES - 1):
        try:
            return await open()
        except Unavailable as problem:
            logging.getLogger("holdfast.continuity").warning("%s cannot start yet, and tries again: %s", what, problem)
            await asyncio.sleep(START_PAUSE_SECONDS)
    return await open()
