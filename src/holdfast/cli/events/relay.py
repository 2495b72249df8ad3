"""`holdfast relay`: receive on behalf of many recipients, keep what came, and tell upstream as the mode says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json, LogLevel, Timeout, expanded

if TYPE_CHECKING:
    from holdfast.relay.definition import RelayDefinition

DefinitionFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The TOML file of the relay: its journal, upstreams and routes.", parser=expanded
    ),
]
RelayFile = Annotated[Path, typer.Option("--config", metavar="FILE", help="The TOML file of the relay.", parser=expanded)]
GoneName = Annotated[str | None, typer.Argument(metavar="[ROUTE]", help="A route that is gone; without it, all of them.")]
ForceLoss = Annotated[bool, typer.Option("--force", help="Also while events wait upstream that are not here: they are lost.")]
Everything = Annotated[
    bool, typer.Option("--all", help="All routes, also those in the file, and the relay itself: it is taken out of service.")
]
Metrics = Annotated[
    str, typer.Option("--metrics", metavar="HOST:PORT", help="Show metrics for Prometheus there; needs holdfast[http].")
]

COLUMNS = ("route", "mode", "from", "waiting_upstream", "waiting_here", "rate", "appended", "confirmed", "rejected", "held_back")

_HELP = help_text.described(
    "Run a relay until SIGTERM or SIGINT; it prints a line when its journal is open.",
    ["holdfast relay --config relay.toml", "holdfast relay status --config relay.toml"],
    changed={
        0: "stopped in good order",
        1: "refused: a mistake in the file, each of which is named, or another relay of this name runs",
        3: "the relay's own journal cannot be reached",
    },
)
group = typer.Typer(
    help=_HELP["help"], short_help=_HELP["short_help"], epilog=_HELP["epilog"], invoke_without_command=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="relay")


@group.callback()
def relay(context: typer.Context, config: DefinitionFile = None, metrics: Metrics = "", log_level: LogLevel = "info") -> None:
    if context.invoked_subcommand is not None:
        return
    import holdfast
    from holdfast.cli.operations import server_log
    from holdfast.errors import BadSetting
    from holdfast.relay import definition_file

    if config is None:
        raise BadSetting("say which relay: holdfast relay --config FILE", setting="config")
    server_log.begin(log_level)
    holdfast.run(_run(definition_file.read(config), metrics))


async def _run(definition: RelayDefinition, metrics: str) -> None:
    import asyncio
    import signal

    from holdfast.cli.output import print_line
    from holdfast.relay import Relay

    relay = Relay(definition)
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, relay.stop)
    if metrics:
        from holdfast.relay.metrics import serve

        serve(relay, metrics)
    async with relay:
        print_line(f"relay {definition.name} has its journal at {relay.status()['local']}, and {len(definition.routes)} routes")
        await relay.run()


@group.command(
    "status",
    **help_text.described(
        "Show how a relay fares: for each route its mode, lag, rate and counts, and what holds it back.",
        ["holdfast relay status --config relay.toml", "holdfast relay status --config relay.toml --json"],
        changed={3: "the relay does not run, or its journal cannot be reached"},
    ),
)
def status(config: RelayFile, timeout: Timeout = None, json: Json = False) -> None:
    import holdfast
    from holdfast.cli.output import print_line, show, show_rows
    from holdfast.relay import definition_file

    found = holdfast.run(_ask(definition_file.read(config), timeout))
    if json:
        show(found, as_json=True, sentence="")
        return
    show_rows(found["routes"], COLUMNS, as_json=False)
    print_line(f"relay {found['relay']} at {found['local']}; replies passed: {found['replies_passed']:,}")
    for each in found["gone_routes"]:
        print_line(
            f"route {each['route']} is gone, and {each['waiting_upstream']:,} events wait for it at {each['from']}: "
            f"holdfast relay forget {each['route']} --config {config}"
        )


async def _ask(definition: RelayDefinition, timeout: float | None) -> dict[str, Any]:
    from holdfast.relay import report
    from holdfast.relay.clients import local_client

    async with local_client(definition, timeout) as client:
        return await report.ask_status(client, definition.name, timeout or report.ANSWER_S)


@group.command(
    "forget",
    **help_text.described(
        "Delete what is left upstream and here of routes that are not in the file any more. While events wait upstream that are "
        "not here, that is refused; with --force they are lost.",
        ["holdfast relay forget --config relay.toml", "holdfast relay forget alerts --config relay.toml --force"],
        changed={1: "refused: events would be lost, the route is in the file, or the relay still runs it"},
    ),
)
def forget(
    config: RelayFile, route: GoneName = None, force: ForceLoss = False, everything: Everything = False, timeout: Timeout = None,
    json: Json = False,
) -> None:  # fmt: skip
    import holdfast
    from holdfast.cli.output import print_line, show_rows
    from holdfast.relay import definition_file, gone_routes

    definition = definition_file.read(config)
    found = holdfast.run(gone_routes.forget(definition, route, everything=everything, force=force, timeout=timeout))
    if json:
        show_rows([{"route": each.route, "lost": each.lost} for each in found], (), as_json=True)
        return
    for each in found:
        print_line(f"nothing is left of route {each.route}" + (f"; {each.lost:,} events were lost" if each.lost else ""))
    if everything:
        print_line(f"nothing is left of relay {definition.name}")
    elif not found:
        print_line("nothing is left of routes that are gone")
