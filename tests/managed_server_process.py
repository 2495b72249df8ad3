"""A real server process with two message managers that a test kills, and starts again on the same folder and port."""

from __future__ import annotations

from pathlib import Path

from tests.server_process import ServerProcess


class ManagedServerProcess(ServerProcess):
    PROGRAM = (str(Path(__file__).with_name("managed_server.py")),)

    def _arguments(self) -> list[str]:
        return [str(self.data), str(self.port)]
