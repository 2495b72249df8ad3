"""`holdfast listener`: call a server with the requests of a domain until told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import help_text
from holdfast.cli.continuity import packages
from holdfast.cli.continuity.engine import Domain
from holdfast.cli.options import URL_DEFAULT, Url, expanded
from holdfast.cli.program import opened, program

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from holdfast.continuity.listener.listener import Listener
    from holdfast.continuity.server_certificate import ServerCertificate

Server = Annotated[
    str,
    typer.Option(
        "--server", metavar="URL", help="The server: http://HOST:PORT, https://…, or http+unix:// and the path of a socket."
    ),
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the server in its domain.")]
Site = Annotated[str, typer.Option("--site", metavar="SITE", help="The site where it runs.")]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="The folder of its answers; listener-NAME if not said.", parser=expanded),
]
ServerRole = Annotated[
    Literal["server", "shadow"],
    typer.Option("--role", help="A shadow gets every request and is compared; its answers are never given."),
]
InDoubt = Annotated[
    Literal["resend", "ask", "rebuild"],
    typer.Option("--in-doubt", help="After a call without an answer: send it again with its key, ask the probe, or rebuild."),
]
Forgets = Annotated[bool, typer.Option("--forgets", help="The server keeps nothing: it is rebuilt after every restart.")]
Probe = Annotated[str, typer.Option("--probe", metavar="PATH", help="The path at which the server tells of a transaction.")]
Reset = Annotated[
    str | None,
    typer.Option("--reset", metavar="COMMAND",
                 help="Makes the server what the snapshot at $HOLDFAST_SNAPSHOT says, or empty if that is empty; then it can be "
                      "rebuilt."),
]  # fmt: skip
Snapshot = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="COMMAND", help="Writes the state of the server to the path $HOLDFAST_SNAPSHOT."),
]
SnapshotEvery = Annotated[
    str,
    typer.Option(
        "--snapshot-every", metavar="WHEN", help="Take a snapshot every so many seconds, as in 600s, or events, as in 10000."
    ),
]
Egress = Annotated[
    str,
    typer.Option(
        "--egress", metavar="HOST:PORT", help="Where the server asks for effects: http://HOST:PORT/exchange is far side exchange."
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option("--tls-ca", metavar="FILE", help="Speak TLS with engines: the authorities of their certificates, PEM.",
                 parser=expanded),
]  # fmt: skip
Certificate = Annotated[
    Path | None,
    typer.Option("--tls-certificate", metavar="FILE", help="The listener's own certificate, PEM.", parser=expanded),
]
ServerCa = Annotated[
    Path | None,
    typer.Option("--server-ca", metavar="FILE", help="The authorities of an https:// server, PEM; the system's if not said.",
                 parser=expanded),
]  # fmt: skip
ServerClientCertificate = Annotated[
    Path | None,
    typer.Option("--server-certificate", metavar="FILE", help="The certificate that an https:// server is shown, PEM.",
                 parser=expanded),
]  # fmt: skip
ServerClientKey = Annotated[
    Path | None, typer.Option("--server-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)
]
EgressCertificate = Annotated[
    Path | None,
    typer.Option("--egress-certificate", metavar="FILE", help="Speak TLS at the egress: its certificate, PEM.", parser=expanded),
]
EgressKey = Annotated[
    Path | None, typer.Option("--egress-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)
]
EgressClientCa = Annotated[
    Path | None,
    typer.Option("--egress-client-ca", metavar="FILE", help="Take effects only with a certificate of these authorities, PEM.",
                 parser=expanded),
]  # fmt: skip
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Run the listener of one server until SIGTERM or SIGINT; it prints a line when it has joined the domain.",
            [
                "holdfast listener --domain shop --server http://127.0.0.1:9001 --name a --store ./a",
                "holdfast listener --domain shop --server http://127.0.0.1:9001 --name a --store ./a --reset ./reset.sh "
                "--snapshot ./snapshot.sh --snapshot-every 3600s",
                "holdfast listener --domain shop --server http://127.0.0.1:9001 --name a --store ./a --egress 127.0.0.1:9901",
                "holdfast listener --domain shop --server http+unix:///run/shop.sock --name b --site north --role shadow",
            ],
            changed={
                0: "stopped in good order",
                1: "refused: its store is in use, or of another server",
                3: "Holdfast cannot be reached",
                5: "its store is damaged",
            },
        )
    )(listener)


@program
def listener(
    domain: Domain,
    server: Server,
    name: Name,
    site: Site = "",
    store: StoreFolder = None,
    role: ServerRole = "server",
    in_doubt: InDoubt = "resend",
    forgets: Forgets = False,
    probe: Probe = "",
    reset: Reset = None,
    snapshot: Snapshot = None,
    snapshot_every: SnapshotEvery = "",
    egress: Egress = "",
    egress_certificate: EgressCertificate = None,
    egress_key: EgressKey = None,
    egress_client_ca: EgressClientCa = None,
    server_ca: ServerCa = None,
    server_certificate: ServerClientCertificate = None,
    server_key: ServerClientKey = None,
    tls_ca: Ca = None,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    url: Url = URL_DEFAULT,
) -> None:
    import holdfast

    with packages.needed():
        from holdfast.continuity.listener.listener import Listener
        from holdfast.continuity.listener.server.http_caller import HttpCaller
    from holdfast.errors import BadSetting
    from holdfast.node.settings import parse_address
    from holdfast.wire.tls import client_context

    if in_doubt == "ask" and not probe:
        raise BadSetting("--in-doubt ask needs --probe: nobody else can be asked", setting="probe")
    tls = _answer_tls(tls_ca, tls_certificate, tls_key)
    server_tls = client_context(server_ca, server_certificate, server_key)
    egress_tls = _egress_tls(egress_certificate, egress_key, egress_client_ca)

    def made() -> Listener:
        return Listener(
            url, domain, name, call=HttpCaller(server, tls=server_tls), store=store or Path(f"listener-{name}"), site=site,
            role=role, in_doubt=in_doubt, forgets=forgets, probe=probe, reset=reset, snapshot=snapshot,
            snapshot_every=snapshot_every, tls=tls, egress=parse_address(egress, "--egress") if egress else None,
            egress_tls=egress_tls,
        )  # fmt: skip

    holdfast.run(_serve(made))


async def _serve(made: Callable[[], Listener]) -> None:
    """Listen until a signal comes."""
    import asyncio
    import gc
    import signal

    from holdfast.cli.output import print_line

    listener = await opened(lambda: made().open(), "the listener")
    gc.freeze()  # what is loaded by now stays for good: the collector need not visit it among requests
    try:
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, listener.stop)
        print_line(f"server {listener.server} has joined domain {listener.domain.name}")
        await listener.run()
    finally:
        await listener.close()


def _answer_tls(authority: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """The TLS of answer links: engines of these authorities, and the listener's own certificate if it has one."""
    from holdfast.errors import BadSetting
    from holdfast.wire import tls

    if authority is not None:
        return tls.client_context(authority, certificate, key)
    if certificate is not None or key is not None:
        raise BadSetting("--tls-certificate and --tls-key need --tls-ca", setting="tls_ca")
    return None


def _egress_tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> ServerCertificate | None:
    from holdfast.continuity.server_certificate import ServerCertificate
    from holdfast.errors import BadSetting

    if certificate is not None:
        return ServerCertificate(certificate, key or certificate, client_ca).checked()
    if key is not None or client_ca is not None:
        raise BadSetting("--egress-key and --egress-client-ca need --egress-certificate", setting="egress_certificate")
    return None
