"""`holdfast serve`: run a server until it is told to stop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import help_text
from holdfast.cli.options import expanded
from holdfast.cli.program import program

if TYPE_CHECKING:
    from holdfast.cli.programs.child import Children
    from holdfast.node.clustered.cluster_settings import ClusterSettings
    from holdfast.node.login.security import Security
    from holdfast.node.server import Server
    from holdfast.recorder.recorder_contents import RecorderContents

LISTEN_DEFAULT = "127.0.0.1:7400"
# On one core the sender that is polled for waits until the server stops polling.
VIGIL_US_DEFAULT = 300 if len(os.sched_getaffinity(0)) > 1 else 0

Data = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="The folder of the journal; created if it is missing.", parser=expanded)
]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        envvar="HOLDFAST_LISTEN",
        metavar="HOST:PORT",
        help="The address for clients; port 0 takes a free one, HOST alone 7400.",
    ),
]
JournalSize = Annotated[
    str, typer.Option("--journal-size", metavar="SIZE", help="The journal grows to this and no further, such as 4G.")
]
Reserve = Annotated[
    str,
    typer.Option(
        "--reserve",
        metavar="SIZE",
        help="Space set aside for events that arrive when the journal or the disk is full, such as 16M.",
    ),
]
SegmentSize = Annotated[
    str, typer.Option("--segment-size", metavar="SIZE", help="The size of one file of a new journal, such as 8M.")
]
LargeMax = Annotated[
    str, typer.Option("--large-max", metavar="SIZE", help="The largest event or transaction; 0 for half of the journal.")
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of this server, for people.")]
BootRecorder = Annotated[
    Path | None,
    typer.Option(
        "--boot-recorder",
        metavar="DIR",
        help="The folder of a Recorder: its events are accepted before anything is delivered.",
        parser=expanded,
    ),
]
CreateOnUse = Annotated[
    bool,
    typer.Option(
        "--create-on-use/--no-create-on-use",
        help="Create queues and topics at first use, or refuse those that were not created.",
    ),
]
SessionGrace = Annotated[
    int,
    typer.Option("--session-grace-ms", metavar="MS", min=1, help="How long a client without a link keeps the events it holds."),
]
Vigil = Annotated[
    int,
    typer.Option(
        "--vigil-us",
        metavar="US",
        min=0,
        max=10_000,
        help="After a receipt, poll this long for the sender's next event: lower latency, more CPU; 0 for not at all, which is "
        "the default where there is one core.",
    ),
]
AssemblyIdle = Annotated[
    int,
    typer.Option("--assembly-idle-ms", metavar="MS", min=1, help="How long a transaction may be idle before it is given up."),
]
StageIdle = Annotated[
    int,
    typer.Option("--stage-idle-ms", metavar="MS", min=1, help="How long a stage may be idle before it is given up."),
]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users",
        metavar="FILE",
        help="Users and access rules; made by `holdfast user add`. Read again on SIGHUP.",
        parser=expanded,
    ),
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option("--tls-certificate", metavar="FILE", help="Speak TLS: the certificate of this server, PEM.", parser=expanded),
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate, PEM.", parser=expanded)
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        metavar="FILE",
        help="Authorities whose client certificates log users in, PEM.",
        parser=expanded,
    ),
]
RequireCertificate = Annotated[
    bool, typer.Option("--require-certificate", help="Refuse clients without a certificate, whatever their password.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen for other machines without users or without TLS; they can read everything.")
]
Http = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Answer /metrics, /healthz, /readyz and /status there, for monitoring."),
]
HttpTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--http-token-file",
        metavar="FILE",
        help="A token that must be shown for /metrics and /status; required with --users.",
        parser=expanded,
    ),
]
ActionsFile = Annotated[
    Path | None,
    typer.Option(
        "--actions",
        metavar="FILE",
        help="Run the rules of this file beside the server, as `holdfast actions` does.",
        parser=expanded,
    ),
]
RelayFile = Annotated[
    Path | None,
    typer.Option(
        "--relay", metavar="FILE", help="Run the relay of this file beside the server, as `holdfast relay` does.", parser=expanded
    ),
]
ClusterFile = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="The file of the cluster that this server is a node of; --name says which. Events are then kept by NATS.",
        parser=expanded,
    ),
]

ReplaceEssential = Annotated[
    bool,
    typer.Option(
        "--replace-essential",
        help="With --cluster: give the cluster the essential settings of this node's file. Stop all other nodes first.",
    ),
]
NodeRole = Annotated[
    Literal["client-manager", "message-manager", "both"],
    typer.Option(
        "--role",
        help="Of a node of a cluster: serve clients alone, have copies of message managers alone, or both, as its file says.",
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Run a server on a folder until SIGTERM or SIGINT; it prints 'listening on HOST:PORT' when clients can connect.",
            [
                "holdfast serve --data ./events",
                "holdfast serve --data ./small --listen 127.0.0.1:0 --journal-size 256M --reserve 8M --segment-size 4M",
                "holdfast serve --data ./booted --boot-recorder ./recorder --name orders",
                "holdfast serve --config ./holdfast.toml --journal-size 256M",
                "holdfast serve --data ./watched --listen 127.0.0.1:0 --http 127.0.0.1:0",
                "holdfast serve --data ./alerting --listen 127.0.0.1:0 --actions ./alerting.toml",
                "holdfast serve --data ./safe --users ./users.toml --tls-certificate ./server.pem --tls-key ./server.key",
            ],
            help_text.LOCAL,
            {0: "stopped in good order", 3: "it cannot listen there, or the disk failed"},
        )
    )(serve)


@program
def serve(
    data: Data,
    listen: Listen = LISTEN_DEFAULT,
    journal_size: JournalSize = "4G",
    reserve: Reserve = "16M",
    segment_size: SegmentSize = "8M",
    large_max: LargeMax = "0",
    name: Name = "holdfast",
    boot_recorder: BootRecorder = None,
    create_on_use: CreateOnUse = True,
    session_grace_ms: SessionGrace = 5_000,
    vigil_us: Vigil = VIGIL_US_DEFAULT,
    assembly_idle_ms: AssemblyIdle = 300_000,
    stage_idle_ms: StageIdle = 3_600_000,
    users: UsersFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    require_certificate: RequireCertificate = False,
    insecure: Insecure = False,
    http: Http = None,
    http_token_file: HttpTokenFile = None,
    actions: ActionsFile = None,
    relay: RelayFile = None,
    cluster: ClusterFile = None,
    replace_essential: ReplaceEssential = False,
    role: NodeRole = "both",
) -> None:
    import holdfast
    from holdfast.errors import BadSetting
    from holdfast.node.login.security import Security
    from holdfast.node.server import Server, run_until_signal
    from holdfast.node.settings import PORT_DEFAULT, NodeSettings, journal_settings, parse_address, parse_size

    host, port = parse_address(listen, "--listen", port_default=PORT_DEFAULT)
    settings = NodeSettings(
        name=name,
        role=role,
        journal=journal_settings(journal_size, reserve, segment_size),
        is_create_on_first_use=create_on_use,
        session_grace_ms=session_grace_ms,
        vigil_us=vigil_us,
        assembly_idle_ms=assembly_idle_ms,
        stage_idle_ms=stage_idle_ms,
        large_bytes_max=parse_size(large_max, "large_max"),
    )
    settings.check_large()
    _check_rules(actions)
    security = Security(users, tls_certificate, tls_key, tls_client_ca, require_certificate, insecure)

    if replace_essential and cluster is None:
        raise BadSetting("--replace-essential is for a node of a cluster; give --cluster as well", setting="replace-essential")
    _check_role(role, {"--cluster": cluster}, {"--actions": actions, "--relay": relay})
    joined = _cluster(cluster, {"--boot-recorder": boot_recorder}) if cluster is not None else None
    show = _show_over_http(http, http_token_file, security) if http is not None else None

    async def opened() -> Server:
        beside = (_boot(boot_recorder), security, holdfast.__version__, joined)
        server = await Server.open(settings, data, host, port, *beside, is_essential_replaced=replace_essential)
        if show is not None:
            await show(server, data)
        children = _children(actions, relay, server, host)
        server.close_before(children)
        children.start(server.node.clients.programs)
        return server

    async def work() -> None:
        await run_until_signal(opened(), lambda server: _announce(server, host))
        _tell_service_manager("STOPPING=1")

    holdfast.run(work())


def _check_role(role: str, needed: dict[str, object], of_clients: dict[str, object]) -> None:
    """BadSetting for a role of a server that is alone, and for programs that would be clients of one that takes none."""
    from holdfast.errors import BadSetting

    if role != "both" and needed["--cluster"] is None:
        raise BadSetting("--role is for a node of a cluster; name its file with --cluster", setting="role")
    for option, value in of_clients.items():
        if role == "message-manager" and value is not None:
            raise BadSetting(
                f"{option} runs a client of this node, and --role message-manager takes none; run it beside another node",
                setting=option.lstrip("-"),
            )


def _cluster(file: Path, alone: dict[str, object]) -> ClusterSettings:
    """The settings of a cluster; BadSetting for options that only a server alone has."""
    from holdfast.errors import BadSetting
    from holdfast.node.clustered import cluster_settings

    for option, value in alone.items():
        if value is not None:
            raise BadSetting(f"{option} is for a server that is alone; leave it out with --cluster", setting=option.lstrip("-"))
    return cluster_settings.read(file)


def _show_over_http(address: str, token_file: Path | None, security: Security) -> Callable[[Server, Path], Awaitable[None]]:
    """Check everything that can be checked before the server opens; how to show it over HTTP afterwards."""
    import holdfast
    from holdfast.errors import BadSetting
    from holdfast.http import protection
    from holdfast.node.settings import parse_address

    try:
        from holdfast.http.endpoint import Endpoint
    except ImportError as problem:
        raise BadSetting(
            f"--http needs packages that are not installed ({problem.name}); install them: pip install 'holdfast[http]'"
        ) from problem
    host, port = parse_address(address, "--http")
    protection.check(host, token_file, security)
    token = protection.read_token(token_file) if token_file is not None else None

    async def show(server: Server, data: Path) -> None:
        from holdfast.cli.output import print_line

        try:
            protection.check(host, token_file, security, has_users=server.node.clients.login is not None)
            endpoint = await Endpoint.open(server.node, data, host, port, token, server.tls, holdfast.__version__)
        except BaseException:
            await server.close()
            raise
        server.close_before(endpoint)
        print_line(f"answering {'https' if server.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{endpoint.port}")

    return show


def _check_rules(file: Path | None) -> None:
    """Refuse rules with mistakes before the server starts."""
    if file is not None:
        from holdfast.actions.rules_file import load

        load(file)


def _children(actions: Path | None, relay: Path | None, server: Server, host: str) -> Children:
    """The programs that run beside the server."""
    from holdfast.cli.programs.child import ChildProgram, Children, environment_of, holdfast_command

    near = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host
    scheme = "holdfasts" if server.tls else "holdfast"
    environment = environment_of(f"{scheme}://{f'[{near}]' if ':' in near else near}:{server.port}")
    children = []
    if actions is not None:
        children.append(ChildProgram("actions", holdfast_command("actions", "run", str(actions)), environment))
    if relay is not None:
        children.append(ChildProgram("relay", holdfast_command("relay", "--config", str(relay)), environment))
    return Children(children)


def _boot(folder: Path | None) -> Callable[[], RecorderContents] | None:
    """How to open the boot Recorder; None when nothing was ever recorded there: the server starts without it."""
    import logging

    from holdfast.recorder.recorder_contents import RecorderContents

    if folder is None:
        return None
    if not RecorderContents.is_in(folder):
        logging.getLogger("holdfast.server").warning("there is no recorder in %s; the server starts without it", folder)
        return None
    return lambda: RecorderContents.open(folder)


def _announce(server: Server, host: str) -> None:
    from holdfast.cli.output import print_line
    from holdfast.errors import Unavailable

    shown = f"[{host}]" if ":" in host else host
    said = f"listening on {shown}:{server.port}" if server.port else "following its message managers; it takes no clients"
    with contextlib.suppress(Unavailable):  # its output may be on the disk that is full: it serves all the same
        print_line(said)
    _tell_service_manager(f"READY=1\nSTATUS={said}")


def _tell_service_manager(state: str) -> None:
    """Tell systemd, where it has started this server (`Type=notify`); it does no harm where nobody listens."""
    import os
    import socket

    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.connect("\0" + address[1:] if address[0] == "@" else address)
        notices.sendall(state.encode())
