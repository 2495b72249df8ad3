"""`holdfast serve`: a server, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Run a server on a folder until SIGTERM or SIGINT, printing 'listening on HOST:PORT' when it takes clients.",
            [
                "holdfast serve --data ./events",
                "holdfast serve --data ./small --listen 127.0.0.1:0 --journal-size 256M --reserve 8M --segment-size 4M",
                "holdfast serve --data ./booted --boot-recorder ./recorder --name orders",
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
    name: Name = "holdfast",
    boot_recorder: BootRecorder = None,
    session_grace_ms: SessionGrace = 5_000,
) -> None:
    import logging

    from holdfast.cli.running import run
    from holdfast.node.server import Server
    from holdfast.node.settings import NodeSettings, journal_settings, parse_address

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    host, port = parse_address(listen)
    settings = NodeSettings(
        name=name, journal=journal_settings(journal_size, reserve, segment_size), session_grace_ms=session_grace_ms
    )

    async def work() -> None:
        await Server(settings, data, host, port, _boot(boot_recorder)).run(lambda server: _announce(server, host))

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
