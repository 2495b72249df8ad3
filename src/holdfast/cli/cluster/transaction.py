"""`holdfast transaction`: show transactions over several message managers that are in doubt, and what became of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.description import TransactionInDoubt, TransactionsInDoubt

LIST_COLUMNS = ("id", "managers", "decision", "since", "locked")
SHOW_COLUMNS = ("manager", "state", "session", "assembly", "entry", "locked", "destinations")

Id = Annotated[str, typer.Argument(metavar="ID", help="As `holdfast transaction list` shows it.")]

group = typer.Typer(
    help="Show transactions over several message managers that are in doubt.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="transaction")


@group.command(
    "list",
    **help_text.described(
        "List the transactions over several message managers that are in doubt: prepared and not decided, or decided and not "
        "carried out everywhere. They end by themselves within seconds, once their message managers answer. Events that they "
        "lock are delivered to nobody until then.",
        ["holdfast transaction list", "holdfast transaction list --json"],
    ),
)
def list_all(url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import print_line, show, show_rows
    from holdfast.cli.question import ask

    told: TransactionsInDoubt = ask(url, timeout, lambda client: client.transactions())
    if json:
        show(told, as_json=True)
        return
    if told["transactions"]:
        show_rows([_row(each) for each in told["transactions"]], LIST_COLUMNS, as_json=False)
    else:
        print_line("no transaction is in doubt")
    _show_missing(told)


@group.command(
    "show",
    **help_text.described(
        "Show what each message manager knows of a transaction: in doubt, or what became of it, as long as that is remembered.",
        ["holdfast transaction show 06F3V0C1-7:12", "holdfast transaction show 06F3V0C1-7:12 --json"],
    ),
)
def show_one(id: Id, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import print_line, show, show_rows
    from holdfast.cli.question import ask

    told: TransactionsInDoubt = ask(url, timeout, lambda client: client.transactions(id))
    if json:
        show(told, as_json=True)
        return
    if not told["transactions"]:
        print_line(f"transaction {id} is not in doubt, and what became of it is not remembered")
        _show_missing(told)
        return
    found = told["transactions"][0]
    reason = f" ({found['reason']})" if found["reason"] else ""
    print_line(f"transaction {id}: {found['decision'] or 'not decided'}{reason}")
    rows = [{**each, "destinations": ", ".join(each["destinations"]) or "none"} for each in found["managers"]]
    show_rows(rows, SHOW_COLUMNS, as_json=False)
    _show_missing(told)


def _row(found: TransactionInDoubt) -> dict[str, Any]:
    from datetime import UTC, datetime

    since = datetime.fromtimestamp(found["since_ms"] / 1000, UTC)
    return {
        "id": found["id"],
        "managers": ", ".join(found["participants"]),
        "decision": found["decision"] or "none yet",
        "since": f"{since:%Y-%m-%d %H:%M:%S} UTC" if found["since_ms"] else "not known",
        "locked": sum(each["locked"] for each in found["managers"]),
    }


def _show_missing(told: TransactionsInDoubt) -> None:
    from holdfast.cli.output import print_line

    if told["did_not_answer"]:
        print_line(f"did not answer: {', '.join(told['did_not_answer'])}")
