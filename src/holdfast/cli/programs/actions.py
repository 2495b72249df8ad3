"""`holdfast actions`: run the rules of a file, check them, try them on events, and see how they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, LogLevel, Timeout, Url, expanded
from holdfast.cli.question import ask

if TYPE_CHECKING:
    from holdfast.actions.dry_run import Outcome
    from holdfast.actions.report import Report
    from holdfast.actions.rules_file import RuleSet
    from holdfast.client.client import Client

RUN = "run"

File = Annotated[Path, typer.Argument(metavar="FILE", help="The rules, TOML.", parser=expanded)]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event",
        metavar="JSON|@FILE",
        help="An event to try, with its topic; may be repeated. @FILE has one a line; - is stdin.",
    ),
]
Later = Annotated[
    str,
    typer.Option("--later", metavar="TIME", help="Then let so much time pass, such as 10m: absences and gathered alerts show."),
]
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of a set of rules; without it, all.")]

STATUS_COLUMNS = ("rules", "running", "rule", "events_waiting", "shared_with", "action", "alerts_waiting", "dead")


class _RunByDefault(TyperGroup):
    """`holdfast actions rules.toml` is `holdfast actions run rules.toml`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = [RUN, *args]
        return super().resolve_command(ctx, args)


group = typer.Typer(
    help="Run rules over events: notify, log, count, send, call or run when a condition holds. `actions FILE` runs them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    cls=_RunByDefault,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="actions")


@group.command(
    "check",
    **help_text.described(
        "Check a rules file: every mistake with its line and column, templates tried on a sample; no server is needed.",
        ["holdfast actions check alerting.toml", "holdfast actions check alerting.toml --json"],
        (0, 1, 2),
        {0: "the rules can be used", 1: "refused: there are mistakes"},
    ),
)
def check(file: File, json: Json = False) -> None:
    from holdfast.actions.errors import BadRules
    from holdfast.cli.output import json_line, print_line, show

    try:
        rules = _load(file)
    except BadRules as problem:
        for each in problem.mistakes:
            row = {"line": each.line, "column": each.column, "setting": each.where, "mistake": each.sentence}
            print_line(json_line(row) if json else f"{file}:{each.line}:{each.column}: {each.where}: {each.sentence}")
        raise
    show(
        {"name": rules.name, "rules": sorted(rules.rules)},
        as_json=json,
        sentence=f"{file}: {_counted(len(rules.rules))} can be used: {', '.join(sorted(rules.rules))}",
    )


@group.command(
    "test",
    **help_text.described(
        "Try events on a rules file: which rules count them, why, and what would be done; nothing is sent.",
        [
            """holdfast actions test alerting.toml --event '{"topic": "metrics.disk", "properties": {"percent": 97}}'""",
            """holdfast actions test alerting.toml --later 1h --event '{"topic": "jobs.backup"}'""",
        ],
        (0, 1, 2),
    ),
)
def test(file: File, event: Events = None, later: Later = "0", json: Json = False) -> None:
    import msgspec

    from holdfast.actions.dry_run import dry_run
    from holdfast.cli.output import json_line, print_line
    from holdfast.destination.settings import duration_ms

    outcomes = dry_run(_load(file), _events(event or []), duration_ms(later, "later") * 1_000)
    for outcome in outcomes:
        print_line(json_line(msgspec.to_builtins(outcome)) if json else _in_words(outcome))


@group.command(
    "status",
    **help_text.described(
        "Show how rules are: whether they run, the events and alerts that wait, and the alerts that are dead.",
        ["holdfast actions status", "holdfast actions status --json"],
    ),
)
def status(name: Name = None, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.actions import report
    from holdfast.cli.output import json_line, print_line, show_rows

    async def look(client: Client) -> list[Report]:
        wanted = [name] if name is not None else await report.sets(client)
        return [await report.report(client, each) for each in wanted]

    reports: list[Report] = ask(url, timeout, look)
    if json:
        for each in reports:
            print_line(json_line(each))
        return
    show_rows([row for each in reports for row in _rows(each)], STATUS_COLUMNS, as_json=False)


@group.command(
    RUN,
    **help_text.described(
        "Run the rules of a file until SIGTERM or SIGINT; SIGHUP, or a change of the file, has them read again.",
        ["holdfast actions run alerting.toml"],
        changed={
            0: "stopped in good order",
            1: "refused: the rules have mistakes, or another program runs rules of this name",
            3: "Holdfast cannot be reached",
        },
    ),
)
def run(file: File, url: Url = URL_DEFAULT, timeout: Timeout = None, log_level: LogLevel = "info") -> None:
    import holdfast
    from holdfast.cli.operations import server_log

    server_log.begin(log_level)
    rules = _load(file)
    holdfast.run(_work(rules, file, url, timeout))


async def _work(rules: RuleSet, file: Path, url: str, timeout: float | None) -> None:
    import asyncio
    import signal

    from holdfast.actions.program import Actions
    from holdfast.cli.output import print_line

    actions = Actions(url, rule_set=rules, timeout=timeout)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, actions.stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: actions.reload(file) and None)
    async with actions:
        print_line(f"{_counted(len(rules.rules))} of {rules.name} at work")
        watching = asyncio.create_task(actions.watch(file))
        try:
            await actions.run()
        finally:
            watching.cancel()


def _load(file: Path) -> RuleSet:
    from holdfast.actions.rules_file import load

    return load(file)


def _counted(rules: int) -> str:
    return "1 rule" if rules == 1 else f"{rules:,} rules"


def _events(given: list[str]) -> list[Any]:
    """The events of --event: JSON each, or a file with one a line."""
    import sys

    import msgspec

    from holdfast.errors import BadEvent

    lines: list[str] = []
    for each in given:
        try:
            if each == "-":
                lines += sys.stdin.read().splitlines()
            else:
                lines += Path(each[1:]).expanduser().read_text().splitlines() if each.startswith("@") else [each]
        except (OSError, UnicodeDecodeError) as problem:
            raise BadEvent(f"the events of {each} cannot be read: {problem}") from problem
    try:
        return [msgspec.json.decode(line) for line in lines if line.strip()]
    except msgspec.DecodeError as problem:
        raise BadEvent(f"an event of --event is not JSON: {problem}") from problem


def _in_words(outcome: Outcome) -> str:
    begin = f"event {outcome.event}" if outcome.event else "time"
    verb = "counts" if outcome.is_counted else "tells" if outcome.alerts else "does not count"
    lines = [f"{begin}: rule {outcome.rule} {verb}: {outcome.why}"]
    for alert in outcome.alerts:
        lines.append(f"  alert {alert['id']} at {alert['at']}: {alert['summary']}")
        lines += [f"    {each['action']} would {_indented(each['would'])}" for each in alert["actions"]]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n      ")


def _rows(report: Report) -> list[dict[str, Any]]:
    rows = []
    for rule in report["rules"]:
        for place, action in enumerate(rule["actions"]):
            first = {
                "rules": report["name"], "running": report["is_running"], "rule": rule["rule"],
                "events_waiting": rule["events_waiting"], "shared_with": rule["shared_with"],
            }  # fmt: skip
            rest = {"action": action["action"], "alerts_waiting": action["waiting"], "dead": action["dead"]}
            rows.append({**(first if place == 0 else {}), **rest})
    return rows
