"""The command line: `holdfast COMMAND …`, or `python -m holdfast`.

Every command has a file or shares one with its group; this one puts them together, and turns whatever goes wrong into one
sentence and an exit code. Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys

import typer

from holdfast.cli import (
    admin,
    bench,
    browse,
    dead,
    destination,
    journal,
    lake,
    pipeline,
    receive,
    recorder,
    send,
    serve,
    status,
    subscription,
    user,
)
from holdfast.cli.failure import FAULT, INTERRUPTED, USAGE, exit_code_of, report
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
for part in (
    serve,
    send,
    receive,
    browse,
    destination,
    subscription,
    dead,
    admin,
    journal,
    recorder,
    status,
    user,
    bench,
    pipeline,
    lake,
):
    part.add_to(app)


def main() -> None:
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
        # Whoever read our output has gone, and with them the reason to go on; the interpreter must not flush into the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
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


def _report_usage(problem: Exception, *, as_json: bool) -> None:
    """What typer has to say of wrong usage, and where to look; the whole help where no command was named."""
    message: str = problem.format_message().strip().rstrip(".")  # type: ignore[attr-defined]
    if message.startswith("Usage:"):
        print(message, file=sys.stderr)
        return
    context = getattr(problem, "ctx", None)
    where = context.command_path if context is not None else "holdfast"
    report("usage", f"{message}; see '{where} --help'", as_json=as_json)


if __name__ == "__main__":
    main()
