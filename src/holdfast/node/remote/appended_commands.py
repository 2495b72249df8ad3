"""What went through a client manager to the channel of a message manager: assemblies and temporary destinations of its sessions.

A client manager has seen every part of its sessions, so that it can keep their limits without asking. What it has not seen, from
before its start or of another client manager, is left to the command, which is judged when it is applied. Each table forgets its
oldest entry past a limit: that, too, leaves the limit to the command.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.channel.channel import Buffer
from holdfast.destination import command

ASSEMBLIES_MAX = 10_000
SESSIONS_MAX = 100_000

_PARTS = (command.Part, command.Commit, command.Abandon, command.Publish, command.Final)
_NOTED = frozenset(kind.KIND for kind in (*_PARTS, command.Create, command.Delete, command.Detach))
_decode = msgspec.msgpack.Decoder().decode


class AppendedAssembly:
    def __init__(self) -> None:
        self.bytes = 0
        self.parts: set[int] = set()


class AppendedCommands:
    def __init__(self) -> None:
        self._assemblies: dict[tuple[str, str], AppendedAssembly] = {}
        self._open: dict[str, int] = {}  # how many assemblies a session has
        self._temporaries: dict[str, set[str]] = {}
        self._owners: dict[str, str] = {}  # the session of each temporary destination

    def note(self, data: Buffer) -> None:
        """A command was appended for one of the sessions here."""
        if command.kind_of(data) not in _NOTED:
            return
        made, payload = command.decode(data)
        if isinstance(made, command.Part):
            self._add_part(made, len(payload))
        elif isinstance(made, command.Commit | command.Final):
            self._end(made.session, made.assembly)
        elif isinstance(made, command.Abandon):
            self._end_all(made.session, [made.assembly] if made.assembly else _decode(payload))
        elif isinstance(made, command.Publish):
            self._end_all(made.session, (name for name, _ in _decode(payload)))
        elif isinstance(made, command.Create):
            if made.session:
                self._add_temporary(made.session, made.name)
        elif isinstance(made, command.Delete):
            owner = self._owners.pop(made.name, "")
            self._temporaries.get(owner, set()).discard(made.name)
        elif isinstance(made, command.Detach) and not made.receiver:
            self.forget_session(made.session)

    def forget_session(self, session: str) -> None:
        """A session is gone, with what belongs to it."""
        for name in self._temporaries.pop(session, ()):
            del self._owners[name]
        if session in self._open:
            self._end_all(session, [name for owner, name in self._assemblies if owner == session])

    # --- what is known -----------------------------------------------------------------------------------------------

    def temporaries_of(self, session: str) -> int:
        """How many temporary destinations a session has made here and not deleted."""
        return len(self._temporaries.get(session, ()))

    def find(self, session: str, assembly: str) -> AppendedAssembly | None:
        return self._assemblies.get((session, assembly))

    def open_of(self, session: str) -> int:
        """How many assemblies of a session are under way."""
        return self._open.get(session, 0)

    # --- noting it ---------------------------------------------------------------------------------------------------

    def _add_temporary(self, session: str, name: str) -> None:
        if session not in self._temporaries and len(self._temporaries) >= SESSIONS_MAX:
            self.forget_session(next(iter(self._temporaries)))
        self._temporaries.setdefault(session, set()).add(name)
        self._owners[name] = session

    def _add_part(self, made: command.Part, size: int) -> None:
        key = made.session, made.assembly
        found = self._assemblies.get(key)
        if found is None:
            if len(self._assemblies) >= ASSEMBLIES_MAX:
                self._end(*next(iter(self._assemblies)))
            found = self._assemblies[key] = AppendedAssembly()
            self._open[made.session] = self._open.get(made.session, 0) + 1
        if made.number not in found.parts:
            found.parts.add(made.number)
            found.bytes += size

    def _end(self, session: str, assembly: str) -> None:
        if self._assemblies.pop((session, assembly), None) is None:
            return
        self._open[session] -= 1
        if not self._open[session]:
            del self._open[session]

    def _end_all(self, session: str, assemblies: Iterable[str]) -> None:
        for assembly in list(assemblies):
            self._end(session, assembly)
