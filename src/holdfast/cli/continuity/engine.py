"""`holdfast engine`: take requests for a domain over HTTP until told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import config_file, help_text
from holdfast.cli.config_file import Config, PrintConfig
from holdfast.cli.options import URL_DEFAULT, Url, expanded

if TYPE_CHECKING:
    import ssl

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
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="The least level that is logged on stderr.")
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


def engine(
    context: typer.Context,
    domain: Domain,
    listen: Listen = "127.0.0.1:8080",
    answers: Answers = "127.0.0.1:0",
    advertise: Advertise = "",
    name: Name = "",
    site: Site = "",
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    tls_listener_ca: ListenerCa = None,
    url: Url = URL_DEFAULT,
    log_level: LogLevel = "info",
    config: Config = None,
    print_config: PrintConfig = False,
) -> None:
    import holdfast
    from holdfast.cli.operations import server_log
    from holdfast.cli.output import print_line
    from holdfast.node.settings import parse_address

    if print_config:
        print_line(config_file.as_toml(context))
        return
    from holdfast.continuity.engine.engine import Engine
    from holdfast.continuity.engine.front import serve

    server_log.begin(log_level)
    answer_tls = _answer_tls(tls_certificate, tls_key, tls_listener_ca)
    host, port = parse_address(listen)
    made = Engine(url, domain, name=name, site=site, answers=parse_address(answers), advertise=advertise, tls=answer_tls)
    announce = "https" if tls_certificate else "http"
    holdfast.run(
        serve(
            made, host, port, tls_certificate, tls_key,
            lambda bound: print_line(f"taking requests on {announce}://{host}:{bound}"),
        )
    )  # fmt: skip


def _answer_tls(certificate: Path | None, key: Path | None, authority: Path | None) -> ssl.SSLContext | None:
    """The TLS of answer links: with the engine's certificate, and listeners' certificates if an authority is named."""
    import ssl

    from holdfast.errors import BadSetting

    if certificate is None:
        if authority is not None or key is not None:
            raise BadSetting("--tls-key and --tls-listener-ca need --tls-certificate", setting="tls_certificate")
        return None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        if authority is not None:
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as problem:
        raise BadSetting(f"the certificate, its key or the authority cannot be read: {problem}", setting="tls") from problem
    return context
