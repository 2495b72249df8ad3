"""NATS servers that run with a cluster on this machine: their program, their settings, and whether they are ready."""

from __future__ import annotations

import shutil
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.cluster.layout import HOST, Layout, NatsPlace
from holdfast.errors import BadSetting

ANSWER_S_MAX = 1.0


def program() -> str:
    """The path of nats-server: from the package beside this Python, or wherever the shell finds it; BadSetting without one."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise BadSetting(
            "nats-server is not installed; install it: pip install 'holdfast[cluster]', or name servers that run with --nats",
            setting="nats",
        )
    return found


def write_settings(folder: Path, layout: Layout, place: NatsPlace) -> Path:
    """Write the settings of a server; their file."""
    own = folder / place.name
    own.mkdir(parents=True, exist_ok=True)
    routes = ", ".join(f'"nats://{HOST}:{each.route_port}"' for each in layout.nats)
    file = own / "nats.conf"
    file.write_text(f"""\
listen: "{HOST}:{place.port}"
http: "{HOST}:{place.monitor_port}"
server_name: "{place.name}"
max_payload: 2MB
jetstream {{
    store_dir: "{(own / "store").absolute()}"
    # An acknowledged event is on disk.
    sync_interval: "always"
    max_file: 64GB
}}
cluster {{ name: "{layout.name}", listen: "{HOST}:{place.route_port}", routes: [{routes}] }}
""")
    return file


def unready(monitors: Sequence[str]) -> list[str]:
    """The monitors of servers that do not say that they are healthy."""
    return [monitor for monitor in monitors if not _is_healthy(monitor)]


def _is_healthy(monitor: str) -> bool:
    try:
        with urllib.request.urlopen(f"{monitor}/healthz", timeout=ANSWER_S_MAX) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
