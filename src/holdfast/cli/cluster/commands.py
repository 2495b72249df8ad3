"""`holdfast cluster`: start a cluster on this machine, end it, and show the state of any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.cluster import check, configure, drain, nodes, takeover
from holdfast.cli.cluster.cluster_options import Of, url_of
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url, expanded

if TYPE_CHECKING:
    from holdfast.cli.cluster.layout import Layout
    from holdfast.client.description import ClusterStatus

DATA_DEFAULT = Path("cluster")
# Nodes stop in 15 s at most, and NATS servers after them.
DOWN_S_MAX = 60.0
COPY_COLUMNS = ("manager", "node", "role", "epoch", "applied", "lag")
NODE_COLUMNS = ("node", "state", "copies", "links")

Data = Annotated[
    Path,
    typer.Option(
        "--data", metavar="DIR", help="The folder of the cluster; created if it is missing.", parser=expanded, show_default=True
    ),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", metavar="N", min=1, max=32, help="How many nodes; without it, 3 in a new cluster.")
]
Backups = Annotated[
    int | None,
    typer.Option(
        "--backups",
        metavar="N",
        min=0,
        max=31,
        help="How many nodes have a copy beside the primary; without it, 1 in a new cluster.",
    ),
]
Managers = Annotated[
    int | None,
    typer.Option(
        "--managers",
        metavar="N",
        min=1,
        max=64,
        help="How many message managers, spread over the nodes; without it, 1 in a new cluster.",
    ),
]
Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        metavar="URL,…",
        help="NATS servers with JetStream that run already, such as nats://h1:4222,nats://h2:4222,nats://h3:4222. Without it, "
        "three are started.",
    ),
]
Monitors = Annotated[
    str,
    typer.Option(
        "--monitors", metavar="URL,…", help="Where those servers answer /healthz; without it, http://HOST:8222 of each of them."
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Leave the cluster running, and return when it is up; `holdfast cluster down` ends it.")
]

group = typer.Typer(
    help="Start a cluster on this machine, end it, and show the state of a cluster.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="cluster")


@group.command(
    "up",
    **help_text.described(
        "Run a cluster on this machine until SIGTERM or SIGINT: three NATS servers, and nodes that keep their events there. What "
        "ends by itself is started again. On the folder of a former cluster, that one is started again, at the same ports.",
        [
            "holdfast cluster up --data ./cluster --detach",
            "holdfast cluster up --data ./wide --nodes 4 --managers 2 --backups 2",
        ],
        help_text.CLIENT[:4],
        {0: "stopped in good order, or up and left running", 3: "it did not start, or runs already"},
    ),
)
def up(
    data: Data = DATA_DEFAULT,
    nodes: Nodes = None,
    backups: Backups = None,
    managers: Managers = None,
    nats: Nats = "",
    monitors: Monitors = "",
    detach: Detach = False,
    json: Json = False,
) -> None:
    import holdfast
    from holdfast.cli.cluster import layout, run_lock
    from holdfast.cli.cluster.local_cluster import LocalCluster
    from holdfast.cli.operations import server_log

    data = data.absolute()
    found = layout.prepare(data, nodes, backups, _several(nats), _several(monitors), managers)
    if detach:
        _detached(data, found, as_json=json)
        return
    with run_lock.held(data):
        server_log.begin("info")
        cluster = LocalCluster(data, found)
        holdfast.run(_until_signal(cluster.run, lambda told: _show_up(told, as_json=json)))


def _several(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


async def _until_signal(run: Any, ready: Any) -> None:
    import asyncio
    import signal

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run(stop, ready)


def _show_up(told: dict[str, Any], *, as_json: bool) -> None:
    from holdfast.cli.output import print_line, show, show_rows

    if as_json:
        show(told, as_json=True)
        return
    show_rows(told["programs"], ("program", "address", "log"), as_json=False)
    print_line(f"connect to {told['url']}")


def _detached(data: Path, found: Layout, *, as_json: bool) -> None:
    """Run the cluster of a folder in a session of its own, and return when it is up."""
    import subprocess

    import msgspec

    from holdfast.cli.cluster import nats_servers, run_lock
    from holdfast.cli.programs.child import holdfast_command
    from holdfast.errors import Unavailable

    with run_lock.held(data):  # what can be refused is refused here, and not in the log of the other process
        if found.nats:
            nats_servers.program()
    log = data / "up.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            holdfast_command("cluster", "up", "--data", str(data), "--json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
    except BaseException:
        process.terminate()
        raise
    finally:
        process.stdout.close()
    if not line:
        process.wait()
        raise Unavailable(f"the cluster did not start; look at {log}")
    _show_up(msgspec.json.decode(line), as_json=as_json)


@group.command(
    "status",
    **help_text.described(
        "Show the state of a cluster, as one of its nodes hears it: the primary of each message manager, how far its backups "
        "lag, and which nodes did not answer.",
        ["holdfast cluster status --data ./cluster", "holdfast cluster status --data ./cluster --json"],
    ),
)
def status(data: Of = None, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.cli.question import ask

    told: ClusterStatus = ask(url_of(data, url), timeout, lambda client: client.cluster_status())
    if json:
        show(told, as_json=True)
    else:
        _show_status(told)


def _show_status(told: ClusterStatus) -> None:
    from holdfast.cli.output import print_line, show_rows

    cut_off = ", which is cut off from the others: what it tells is old" if told["is_cut_off"] else ""
    print_line(f"cluster {told['cluster']}, as {told['node']} hears it{cut_off}")
    print_line("")
    copies = [
        {"manager": manager["name"], "role": _role(copy["is_primary"], copy["is_heard"]), **copy}
        for manager in told["managers"]
        for copy in manager["copies"]
    ]
    show_rows(copies, COPY_COLUMNS, as_json=False)
    print_line("")
    nodes = [
        {
            "node": node["name"],
            "state": _state(node["silent_ms"], node["is_heard"], node["is_drained"]),
            "links": node["links"],
            "copies": ", ".join(node["copies"]) or "none",
        }
        for node in told["nodes"]
    ]
    show_rows(nodes, NODE_COLUMNS, as_json=False)
    print_line("")
    for manager in told["managers"]:
        if manager["primary"] is None:
            print_line(
                f"message manager {manager['name']} has no primary: it accepts, and delivers nothing until a copy takes over"
            )
    if told["different"]:
        print_line(f"other essential settings than {told['node']}: {', '.join(told['different'])}")
    print_line(f"did not answer: {', '.join(told['silent']) or 'none'}")


def _role(is_primary: bool, is_heard: bool) -> str:
    if not is_heard:
        return "silent"
    return "primary" if is_primary else "backup"


def _state(silent_ms: int | None, is_heard: bool, is_drained: bool) -> str:
    if is_heard:
        return "drained" if is_drained else "there"
    return "never heard" if silent_ms is None else f"silent for {silent_ms / 1000:.1f} s"


takeover.add_to(group)
check.add_to(group)
configure.add_to(group)
nodes.add_to(group)
drain.add_to(group)


@group.command(
    "down",
    **help_text.described(
        "End the cluster that runs in a folder: nodes first, then NATS servers. Its events stay there.",
        ["holdfast cluster down --data ./cluster"],
        help_text.CLIENT[:4],
        {0: "ended, or nothing ran there"},
    ),
)
def down(data: Data = DATA_DEFAULT, json: Json = False) -> None:
    import os
    import signal
    import time

    from holdfast.cli.cluster import layout, run_lock
    from holdfast.cli.output import show
    from holdfast.errors import Unavailable

    layout.read(data)
    process = run_lock.holder(data)
    if process is None:
        show({"data": str(data), "ended": False}, as_json=json, sentence=f"no cluster runs in {data}")
        return
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_S_MAX
    while run_lock.holder(data) == process:
        if time.monotonic() > deadline:
            raise Unavailable(f"process {process} still stops the cluster in {data} after {DOWN_S_MAX:g} s; look at its logs")
        time.sleep(0.05)
    show({"data": str(data), "ended": True}, as_json=json, sentence=f"ended the cluster in {data}")
