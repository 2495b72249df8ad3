"""`holdfast serve`: a server, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import help_text

if TYPE_CHECKING:
    from holdfast.node.server import Server
    from holdfast.recorder.contents import RecorderContents

LISTEN_DEFAULT = "127.0.0.1:7400"
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder of its journal; created if it is missing.")]
Listen = Annotated[
    str,
    typer.Option(
        "--listen", envvar="HOLDFAST_LISTEN", metavar="HOST:PORT", help="Where clients connect; port 0 takes a free one."
    ),
]
JournalSize = Annotated[
    str, typer.Option("--journal-size", metavar="SIZE", help="The journal grows to this and no further, such as 4G.")
]
Reserve = Annotated[
    str,
    typer.Option(
        "--reserve", metavar="SIZE", help="Set aside for events that arrive when no more space can be had, such as 16M."
    ),
]
SegmentSize = Annotated[
    str, typer.Option("--segment-size", metavar="SIZE", help="Size of one file of a new journal, such as 8M.")
]
LargeMax = Annotated[
    str, typer.Option("--large-max", metavar="SIZE", help="The largest event or transaction; 0 for half of the journal.")
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of this server, for people.")]
BootRecorder = Annotated[
    Path | None,
    typer.Option(
        "--boot-recorder", metavar="DIR", help="A Recorder's folder: its events are taken first, before anything is delivered."
    ),
]
SessionGrace = Annotated[
    int, typer.Option("--session-grace-ms", metavar="MS", min=1, help="How long a client that lost its link keeps what it holds.")
]
Vigil = Annotated[
    int,
    typer.Option(
        "--vigil-us",
        metavar="US",
        min=0,
        max=10_000,
        help="How long to stay awake for a sender that comes back at once after its receipt; 0 saves processor time.",
    ),
]
AssemblyIdle = Annotated[
    int,
    typer.Option("--assembly-idle-ms", metavar="MS", min=1, help="How long a transaction may stand still before it is given up."),
]
StageIdle = Annotated[
    int,
    typer.Option("--stage-idle-ms", metavar="MS", min=1, help="How long a stage in which nothing comes waits to be published."),
]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users", metavar="FILE", help="Who may log in and do what; made by `holdfast user add`. Read again on SIGHUP."
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Speak TLS: the certificate of this server, PEM.")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate, PEM.")]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca", metavar="FILE", help="Whose client certificates log users in: certificates of authorities, PEM."
    ),
]
RequireCertificate = Annotated[
    bool, typer.Option("--require-certificate", help="Take no client without a certificate, whatever its password.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen for other machines without users or without TLS; they can read everything.")
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="How much is said on stderr.")
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Run a server on a folder until SIGTERM or SIGINT, printing 'listening on HOST:PORT' when it takes clients.",
            [
                "holdfast serve --data ./events",
                "holdfast serve --data ./small --listen 127.0.0.1:0 --journal-size 256M --reserve 8M --segment-size 4M",
                "holdfast serve --data ./booted --boot-recorder ./recorder --name orders",
                "holdfast serve --data ./safe --users ./users.toml --tls-certificate ./server.pem --tls-key ./server.key",
            ],
            help_text.LOCAL,
            {0: "stopped in good order", 3: "it cannot listen there, or the disk failed"},
        )
    )(serve)


def serve(
    data: Data,
    listen: Listen = LISTEN_DEFAULT,
    journal_size: JournalSize = "4G",
    reserve: Reserve = "16M",
    segment_size: SegmentSize = "8M",
    large_max: LargeMax = "0",
    name: Name = "holdfast",
    boot_recorder: BootRecorder = None,
    session_grace_ms: SessionGrace = 5_000,
    vigil_us: Vigil = 300,
    assembly_idle_ms: AssemblyIdle = 300_000,
    stage_idle_ms: StageIdle = 3_600_000,
    users: UsersFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    require_certificate: RequireCertificate = False,
    insecure: Insecure = False,
    log_level: LogLevel = "info",
) -> None:
    import logging

    from holdfast.cli.running import run
    from holdfast.node.security import Security
    from holdfast.node.server import Server
    from holdfast.node.settings import NodeSettings, journal_settings, parse_address, parse_size

    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT)
    host, port = parse_address(listen)
    settings = NodeSettings(
        name=name,
        journal=journal_settings(journal_size, reserve, segment_size),
        session_grace_ms=session_grace_ms,
        vigil_us=vigil_us,
        assembly_idle_ms=assembly_idle_ms,
        stage_idle_ms=stage_idle_ms,
        large_bytes_max=parse_size(large_max, "large_max"),
    )
    security = Security(users, tls_certificate, tls_key, tls_client_ca, require_certificate, insecure)

    async def work() -> None:
        await Server(settings, data, host, port, _boot(boot_recorder), security).run(lambda server: _announce(server, host))

    run(work())


def _boot(folder: Path | None) -> Callable[[], RecorderContents] | None:
    """How to open the boot Recorder; none when nothing was ever recorded there, which is as good a start as any."""
    import logging

    from holdfast.recorder.contents import RecorderContents

    if folder is None:
        return None
    if not RecorderContents.is_in(folder):
        logging.getLogger("holdfast.server").warning("there is no recorder in %s; the server starts without it", folder)
        return None
    return lambda: RecorderContents.open(folder)


def _announce(server: Server, host: str) -> None:
    from holdfast.cli.output import print_line

    shown = f"[{host}]" if ":" in host else host
    print_line(f"listening on {shown}:{server.port}")
