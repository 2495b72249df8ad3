"""`holdfast engine`: take requests for a domain over HTTP until told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.continuity import packages
from holdfast.cli.options import URL_DEFAULT, Url, expanded
from holdfast.cli.program import program

if TYPE_CHECKING:
    import ssl

    from holdfast.continuity.server_certificate import ServerCertificate

Domain = Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="The domain whose requests it takes.")]
Listen = Annotated[
    str,
    typer.Option(
        "--listen", envvar="HOLDFAST_ENGINE_LISTEN", metavar="HOST:PORT", help="The address for clients; port 0 takes a free one."
    ),
]
Answers = Annotated[
    str, typer.Option("--answers", metavar="HOST:PORT", help="The address at which listeners answer; port 0 takes a free one.")
]
Advertise = Annotated[
    str, typer.Option("--advertise", metavar="HOST:PORT", help="That address as listeners on other machines see it.")
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of this engine, for people.")]
Site = Annotated[str, typer.Option("--site", metavar="SITE", help="The site where it runs.")]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--tls-certificate", metavar="FILE", help="Speak TLS with clients and listeners: the certificate, PEM.", parser=expanded
    ),
]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)]
ListenerCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-listener-ca",
        metavar="FILE",
        help="Take only listeners with a certificate of these authorities, PEM.",
        parser=expanded,
    ),
]
ClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        metavar="FILE",
        help="Take only clients with a certificate of these authorities, PEM.",
        parser=expanded,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Run an engine until SIGTERM or SIGINT; it prints 'taking requests on URL' when clients can connect.",
            [
                "holdfast engine --domain shop",
                "holdfast engine --domain shop --listen 127.0.0.1:0 --site north --name north-1",
            ],
            changed={0: "stopped in good order", 3: "it cannot listen there, or Holdfast cannot be reached"},
        )
    )(engine)


@program
def engine(
    domain: Domain,
    listen: Listen = "127.0.0.1:8080",
    answers: Answers = "127.0.0.1:0",
    advertise: Advertise = "",
    name: Name = "",
    site: Site = "",
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    tls_listener_ca: ListenerCa = None,
    tls_client_ca: ClientCa = None,
    url: Url = URL_DEFAULT,
) -> None:
    import holdfast
    from holdfast.cli.output import print_line
    from holdfast.node.settings import parse_address

    with packages.needed():
        from holdfast.continuity.engine.engine import Engine
        from holdfast.continuity.engine.front import serve

    certificate = _certificate(tls_certificate, tls_key, tls_client_ca, tls_listener_ca)
    host, port = parse_address(listen, "--listen")
    made = Engine(
        url, domain, name=name, site=site, answers=parse_address(answers, "--answers"), advertise=advertise,
        tls=_answer_tls(certificate, tls_listener_ca),
    )  # fmt: skip
    announce = "https" if certificate else "http"
    holdfast.run(
        serve(made, host, port, certificate, lambda bound: print_line(f"taking requests on {announce}://{host}:{bound}"))
    )  # fmt: skip


def _certificate(
    certificate: Path | None, key: Path | None, client_ca: Path | None, listener_ca: Path | None
) -> ServerCertificate | None:
    from holdfast.continuity.server_certificate import ServerCertificate
    from holdfast.errors import BadSetting

    if certificate is not None:
        return ServerCertificate(certificate, key or certificate, client_ca).checked()
    if key is not None or client_ca is not None or listener_ca is not None:
        raise BadSetting(
            "--tls-key, --tls-client-ca and --tls-listener-ca need --tls-certificate", setting="tls_certificate"
        )  # fmt: skip
    return None


def _answer_tls(certificate: ServerCertificate | None, authority: Path | None) -> ssl.SSLContext | None:
    """The TLS of answer links: with the engine's certificate, and listeners' certificates if an authority is named."""
    from holdfast.wire import tls

    if certificate is None:
        return None
    required = authority is not None
    return tls.server_context(certificate.certificate, certificate.key, authority, is_certificate_required=required)
