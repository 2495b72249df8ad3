"""A server that loses its disk, and goes on from a backup under the same address."""

from __future__ import annotations

from pathlib import Path

from holdfast.backup.backup import BackupReport, back_up
from holdfast.backup.restore import RestoreReport, restore
from tests.server_process import ServerProcess


def backed_up(server: ServerProcess) -> BackupReport:
    return back_up(server.data, backup_of(server), "a test")


def backup_of(server: ServerProcess) -> Path:
    return server.data.parent / "backup"


def start_restored(server: ServerProcess) -> RestoreReport:
    """Kill the server, and start it on what its backup holds."""
    server.kill()
    restored = server.data.parent / f"{server.data.name}-restored"
    made = restore(backup_of(server), restored)
    server.data = restored
    server.start()
    return made
