"""A server with two message managers, as a process of its own: `python managed_server.py DATA PORT`.

`ManagedServerProcess` starts it, as `ServerProcess` starts `holdfast serve`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import holdfast
from holdfast.node.server import Server, run_until_signal
from holdfast.node.settings import NodeSettings, journal_settings

MANAGERS = ("m1", "m2")


def serve(data: str, port: str) -> None:
    settings = NodeSettings(journal=journal_settings("256M", "2M", "4M"), managers=MANAGERS)
    holdfast.run(run_until_signal(Server.open(settings, Path(data), "127.0.0.1", int(port)), lambda server: None))


if __name__ == "__main__":
    serve(*sys.argv[1:])
