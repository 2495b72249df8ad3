"""`holdfast effects`: carry the external effects of a domain out until told to stop; and `holdfast domain settle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.continuity import domain as domains
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url, expanded
from holdfast.cli.program import program
from holdfast.cli.question import ask

Domain = Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="The domain whose effects it carries out.")]
Far = Annotated[
    list[str] | None,
    typer.Option("--far", metavar="NAME=URL", help="A far side, as in exchange=http://127.0.0.1:7000; may be repeated."),
]
Lookup = Annotated[
    list[str] | None,
    typer.Option(
        "--lookup", metavar="NAME=PATH", help="Where a far side tells whether an effect was done, as in exchange=/orders/{key}."
    ),
]
KnowsKeys = Annotated[
    list[str] | None,
    typer.Option("--knows-keys", metavar="NAME", help="A far side that does nothing twice for the same Idempotency-Key."),
]
FarCa = Annotated[
    Path | None,
    typer.Option("--far-ca", metavar="FILE", help="The authorities of https:// far sides, PEM; the system's if not said.",
                 parser=expanded),
]  # fmt: skip
FarCertificate = Annotated[
    Path | None,
    typer.Option("--far-certificate", metavar="FILE", help="The certificate that far sides are shown, PEM.", parser=expanded),
]
FarKey = Annotated[
    Path | None, typer.Option("--far-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)
]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="The carrier before is certainly dead: take its place at once, without waiting.")
]
EffectKey = Annotated[str, typer.Argument(metavar="KEY", help="The key of an effect, as the log of the carrier names it.")]
NotDone = Annotated[bool, typer.Option("--not-done", help="It was certainly not done, and may be carried out.")]
Status = Annotated[int, typer.Option("--status", metavar="N", min=200, max=599, help="The status that the far side answered.")]
Body = Annotated[str, typer.Option("--body", metavar="TEXT", help="The body that the far side answered.")]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Carry the effects of a domain out until SIGTERM or SIGINT; it prints 'carrying effects out' when it has the turn.",
            [
                "holdfast effects --domain shop --far exchange=http://127.0.0.1:7000 --lookup 'exchange=/orders/{key}'",
                "holdfast effects --domain shop --far bank=https://bank.example --knows-keys bank",
            ],
            changed={0: "stopped in good order", 3: "Holdfast cannot be reached"},
        )
    )(effects)
    domains.group.command(
        "settle",
        **help_text.described(
            "Say what became of an effect of which nobody can tell: its result, or that it was not done.",
            [
                "holdfast domain settle shop 9f2c-1a.6a09e667f3bcc908b2fb1366ea957d3e.1 --not-done",
                "holdfast domain settle shop 9f2c-1a.6a09e667f3bcc908b2fb1366ea957d3e.1 --status 201 --body '{\"number\": 7}'",
            ],
        ),
    )(settle)


@program
def effects(
    domain: Domain,
    far: Far = None,
    lookup: Lookup = None,
    knows_keys: KnowsKeys = None,
    far_ca: FarCa = None,
    far_certificate: FarCertificate = None,
    far_key: FarKey = None,
    take_over: TakeOver = False,
    url: Url = URL_DEFAULT,
) -> None:
    import holdfast
    from holdfast.cli.output import print_line
    from holdfast.continuity.effects.carrier import EffectCarrier, run_until_signal
    from holdfast.continuity.effects.far_side import far_sides
    from holdfast.wire.tls import client_context

    fars = far_sides(far or [], lookup or [], knows_keys or [], client_context(far_ca, far_certificate, far_key))
    carrier = EffectCarrier(url, domain, fars, take_over=take_over)
    holdfast.run(run_until_signal(carrier, lambda: print_line(f"carrying effects out for domain {domain}")))


def settle(
    name: domains.DomainName,
    key: EffectKey,
    not_done: NotDone = False,
    status: Status = 200,
    body: Body = "",
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity.effects import settlement
    from holdfast.continuity.machines.effects import Result

    result = None if not_done else Result(status, [], body.encode())
    ask(url, timeout, lambda client: settlement.settle(client, name, key, result))
    said = "was not done" if not_done else f"has a result of status {status}"
    show({"domain": name, "effect": key, "done": not not_done}, as_json=json, sentence=f"effect {key} {said}")
