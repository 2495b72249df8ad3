"""The command line: `holdfast COMMAND …`, or `python -m holdfast`.

Each command, or group of commands, has a module. This module puts them together, and turns every error into one sentence and
an exit code. Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from holdfast.cli.cluster import commands as cluster
from holdfast.cli.cluster import simulate, transaction
from holdfast.cli.continuity import compare, domain, effects, engine, listener, store
from holdfast.cli.events import browse, dead, receive, recorder, relay, send, work
from holdfast.cli.failure import FAULT, INTERRUPTED, USAGE, exit_code_of, report
from holdfast.cli.operations import (
    admin,
    backup,
    bench,
    destination,
    journal,
    lake,
    pipeline,
    serve,
    status,
    subscription,
    top,
    user,
)
from holdfast.cli.programs import actions
from holdfast.cli.programs.child import die_with_parent
from holdfast.errors import HoldfastError

START_HERE = """\b
Start here:
  holdfast serve --data ./events
  holdfast send orders --data '{"sku": 7}'
  holdfast receive orders --count 1"""

app = typer.Typer(
    name="holdfast",
    help="Persistent events: what was accepted is on disk, and is held until everyone it is meant for has confirmed it.",
    epilog=START_HERE,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the release.", is_eager=True, callback=status.print_version)
    ] = False,
) -> None:
    """Options of `holdfast` itself, before any command."""


for part in (
    serve,
    send,
    receive,
    work,
    browse,
    destination,
    subscription,
    dead,
    admin,
    journal,
    backup,
    recorder,
    status,
    top,
    user,
    bench,
    pipeline,
    lake,
    domain,
    compare,
    effects,
    engine,
    listener,
    actions,
    store,
    relay,
    cluster,
    transaction,
    simulate,
):
    part.add_to(app)


def main() -> None:
    die_with_parent()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; its exit code."""
    as_json = "--json" in arguments
    try:
        return app(args=arguments, prog_name="holdfast", standalone_mode=False) or 0
    except HoldfastError as problem:
        report(problem.code, problem.sentence, as_json=as_json)
        return exit_code_of(problem)
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as ended:
        # typer makes an exit code of its own of a closed pipe.
        if isinstance(ended.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as problem:
        if hasattr(problem, "format_message"):
            _report_usage(problem, as_json=as_json)
            return USAGE
        if "HOLDFAST_TRACEBACK" in os.environ:
            raise
        report(
            "fault",
            f"this is a fault of Holdfast itself ({problem!r}); run it with HOLDFAST_TRACEBACK=1 and report it",
            as_json=as_json,
        )
        return FAULT


def _reader_gone() -> int:
    """Nobody reads our output any more: stop."""
    from holdfast.cli.output import forget_output

    forget_output()
    return INTERRUPTED


def _report_usage(problem: Exception, *, as_json: bool) -> None:
    """Print the sentence of typer and where to look; the whole help where no command was named."""
    message: str = problem.format_message().strip().rstrip(".")  # type: ignore[attr-defined]
    if message.startswith("Usage:"):
        print(message, file=sys.stderr)
        return
    context = getattr(problem, "ctx", None)
    where = context.command_path if context is not None else "holdfast"
    report("usage", f"{message}; see '{where} --help'", as_json=as_json)


if __name__ == "__main__":
    main()
