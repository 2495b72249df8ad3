"""`holdfast domain compare learn`: propose rules for comparison from answers that differed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.continuity import domain as domains
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url
from holdfast.cli.question import ask

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.continuity.learned_rules import Learned

Servers = Annotated[
    str, typer.Option("--servers", metavar="NAMES", help="Only answers of these, which run one version, such as a,b.")
]
Since = Annotated[str | None, typer.Option("--since", metavar="DURATION", help="Only disagreements of the last 1h, 90s, 2d …")]
Count = Annotated[int, typer.Option("--count", metavar="N", min=1, max=1_000, help="Look at the newest N disagreements.")]
Apply = Annotated[bool, typer.Option("--apply", help="Put the proposed rules into the definition of the domain.")]

DIFFERENCE_COLUMNS = ("where", "count", "one", "other")

group = typer.Typer(help="Learn what may differ between answers.", no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    domains.group.add_typer(group, name="compare")


@group.command(
    "learn",
    **help_text.described(
        "Propose rules for comparison from answers in which servers of one version differed. Read them: a balance that differs "
        "is a defect, and needs no rule.",
        [
            "holdfast domain compare learn shop",
            "holdfast domain compare learn shop --servers a,b --since 1h --json",
            "holdfast domain compare learn shop --apply",
        ],
    ),
)
def learn(
    name: domains.DomainName,
    servers: Servers = "",
    since: Since = None,
    count: Count = 100,
    apply: Apply = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.continuity import learned_rules
    from holdfast.destination.settings import duration_ms

    wanted = tuple(each.strip() for each in servers.split(",") if each.strip())
    since_s = duration_ms(since, "since") / 1_000 if since is not None else 0.0

    async def question(client: Client) -> Learned:
        learned = await learned_rules.learn(client, name, wanted, since_s, count)
        if apply and learned.is_new:
            await learned_rules.apply(client, learned)
        return learned

    _show(ask(url, timeout, question), is_applied=apply, as_json=json)


def _show(learned: Learned, *, is_applied: bool, as_json: bool) -> None:
    import msgspec

    from holdfast.cli.output import print_line, show, show_rows
    from holdfast.continuity.learned_rules import as_toml

    proposal = learned.proposal
    if as_json:
        told = {
            "domain": learned.domain.name, "servers": learned.servers, "disagreements": learned.disagreements,
            "not_kept": learned.not_kept, "requests": proposal.requests, "unequal": proposal.unequal,
            "differences": msgspec.to_builtins(proposal.differences), "compare": msgspec.to_builtins(proposal.rules),
            "applied": is_applied and learned.is_new,
        }  # fmt: skip
        show(told, as_json=True)
        return
    print_line(_sentence(learned))
    if proposal.differences:
        rows = [
            {
                "where": each.where,
                "count": f"{each.count} of {proposal.requests}",
                "one": each.example[0],
                "other": each.example[1],
            }
            for each in proposal.differences
        ]
        show_rows(rows, DIFFERENCE_COLUMNS, as_json=False)
    if proposal.unequal:
        print_line(f"{proposal.unequal} of {proposal.requests} would still differ: no rule hides what differs there")
    if learned.is_new:
        print_line(
            "the definition has these rules now; start listeners and engines again:"
            if is_applied
            else "for the definition, after you have read each line (--apply puts it there):"
        )
        print_line(as_toml(proposal.rules))


def _sentence(learned: Learned) -> str:
    if not learned.disagreements:
        return f"servers of domain {learned.domain.name!r} have not disagreed: there is nothing to learn"
    compared = (
        f"compared {learned.proposal.requests} of {learned.disagreements} disagreements, between {', '.join(learned.servers)}"
    )
    return f"{compared}; of {learned.not_kept} the answers are kept no more" if learned.not_kept else compared
