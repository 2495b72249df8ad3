"""A command of the user: a line for the shell, or a coroutine function, that is told where a snapshot is.

    reset       make the server what the snapshot says, or empty if HOLDFAST_SNAPSHOT is empty
    snapshot    write the state of the server to the path in HOLDFAST_SNAPSHOT

A command line sees HOLDFAST_SNAPSHOT, HOLDFAST_DOMAIN and HOLDFAST_SERVER in its environment; exit code 0 says that it is done.
Processes that it leaves behind, such as the server, are not waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.continuity.errors import CommandFailed

log = logging.getLogger("holdfast.continuity")

Command = str | Callable[[str], Awaitable[None]]
# What a failed command said last is told in its error.
TOLD_BYTES_MAX = 500


def user_commands(domain: str, server: str, **commands: Command | None) -> dict[str, UserCommand]:
    """The commands that were said, by name."""
    return {name: UserCommand(name, each, domain, server) for name, each in commands.items() if each is not None}


class UserCommand:
    def __init__(self, name: str, command: Command, domain: str, server: str) -> None:
        self.name = name
        self._command = command
        self._domain, self._server = domain, server

    async def run(self, path: Path | None) -> None:
        """Run it, and wait for its end. CommandFailed if it says that it could not."""
        told = str(path) if path is not None else ""
        if not isinstance(self._command, str):
            return await self._command(told)
        names = {"HOLDFAST_SNAPSHOT": told, "HOLDFAST_DOMAIN": self._domain, "HOLDFAST_SERVER": self._server}
        with tempfile.TemporaryFile() as said:  # a pipe would be held open by a server that the command starts
            process = await asyncio.create_subprocess_shell(
                self._command, env=os.environ | names, stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=said
            )
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
            said.seek(0, os.SEEK_END)
            said.seek(max(0, said.tell() - TOLD_BYTES_MAX))
            last = said.read().decode(errors="replace").strip()
        if code:
            raise CommandFailed(f"the command {self.name} ended with code {code}: {last or 'it said nothing'}", code=code)
        return None
