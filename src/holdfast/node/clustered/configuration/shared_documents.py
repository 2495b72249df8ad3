"""The two documents that nodes acquire: the settings of the cluster, and its users with their access rules.

Each knows its copy on disk, what the node was started with, and what is in force. `cluster.configuration` decides between them
and what the cluster has.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.access import users as access
from holdfast.access.users import Users
from holdfast.cluster.configuration import Copy, Document, differences, digest, edited
from holdfast.errors import BadSetting
from holdfast.node.clustered.configuration.acquired_file import AcquiredFile, acquired
from holdfast.node.clustered.configuration.setting_kinds import from_text, given_values, in_force, to_text
from holdfast.node.settings import NodeSettings

# A document is one message of NATS, and in one frame of a client.
TEXT_BYTES_MAX = 512 << 10


class GivenUsers(NamedTuple):
    """The users file that a node was started with (`--users`)."""

    path: Path
    text: str


class SharedDocument(Protocol):
    key: str  # in the bucket
    version: int  # that is in force; 0 for none

    def copy(self, shared: Document | None) -> Copy | None:
        """What this node would have, as it was started; None if it says nothing."""

    def check(self, text: str) -> None:
        """BadSetting for a text that no node could use."""

    def use_copy(self) -> None:
        """Let the copy of this node be in force, while the cluster cannot be asked."""

    def accept(self, document: Document) -> bool:
        """Let a document of the cluster be in force, and keep a copy of it; whether that changes something."""

    def conflict(self, copy: Copy, shared: Document) -> BadSetting:
        """Both were edited."""


def check_size(key: str, text: str) -> None:
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise BadSetting(f"{key} of a cluster has at most {TEXT_BYTES_MAX:,} bytes", setting=key)


class SharedSettings:
    key = "settings"

    def __init__(self, folder: Path, given: NodeSettings) -> None:
        self.version = 0
        self.in_force = given
        self.text = ""
        self._given = given
        self._file = AcquiredFile(folder / "acquired-settings.toml")
        self._kept = self._file.read()

    def copy(self, shared: Document | None) -> Copy | None:
        given = given_values(self._given)
        if self._kept is not None:
            kept = from_text(self._kept.text, str(self._file.path))
            wanted = edited(kept, self._kept.given, given)
            return Copy(to_text(wanted), self._kept.base if wanted == kept else self._kept.given_base)
        there = {} if shared is None else from_text(shared.text, f"version {shared.version} of the cluster's settings")
        return Copy(to_text({**there, **given}))

    def check(self, text: str) -> None:
        check_size(self.key, text)
        in_force(self._given, from_text(text, "the settings of the cluster"))

    def use_copy(self) -> None:
        copy = self.copy(None)
        if copy is not None:
            self._use(copy.text, 0 if self._kept is None else self._kept.version)

    def _use(self, text: str, version: int) -> bool:
        settings = in_force(self._given, from_text(text, f"version {version} of the cluster's settings"))
        is_changed = settings != self.in_force
        self.in_force, self.text, self.version = settings, text, version
        return is_changed

    def accept(self, document: Document) -> bool:
        is_changed = self._use(document.text, document.version)
        self._kept = acquired(document, given_values(self._given), self._kept)
        self._file.write(self._kept)
        return is_changed

    def conflict(self, copy: Copy, shared: Document) -> BadSetting:
        here, there = from_text(copy.text, "here"), from_text(shared.text, "there")
        told = "; ".join(str(each) for each in differences(here, there))
        return BadSetting(
            f"the settings were edited here and in the cluster (version {shared.version}): {told}. Give this node the values of "
            f"the cluster, or leave out the options and remove {self._file.path}; change them with `holdfast cluster configure`",
            setting="settings",
        )


class SharedUsers:
    key = "users"

    def __init__(self, folder: Path, given: GivenUsers | None) -> None:
        self.version = 0
        self.in_force: Users | None = None
        self.text = ""
        self._given = given
        self._file = AcquiredFile(folder / "acquired-users.toml")
        self._kept = self._file.read()

    def give(self, given: GivenUsers) -> None:
        """The users file of this node was read again."""
        self._given = given

    def copy(self, shared: Document | None) -> Copy | None:
        if self._kept is None:
            return None if self._given is None else Copy(self._given.text)
        if self._given is not None and digest(self._given.text) != self._kept.given.get("digest"):
            return Copy(self._given.text, self._kept.given_base)
        return self._kept.copy

    def check(self, text: str) -> None:
        check_size(self.key, text)
        access.read(text)

    def use_copy(self) -> None:
        copy = self.copy(None)
        if copy is not None:
            self._use(copy.text, 0 if self._kept is None else self._kept.version)

    def _use(self, text: str, version: int) -> bool:
        users = access.read(text)
        is_changed = users != self.in_force
        self.in_force, self.text, self.version = users, text, version
        return is_changed

    def accept(self, document: Document) -> bool:
        is_changed = self._use(document.text, document.version)
        given = {} if self._given is None else {"digest": digest(self._given.text)}
        self._kept = acquired(document, given, self._kept)
        self._file.write(self._kept)
        return is_changed

    def conflict(self, copy: Copy, shared: Document) -> BadSetting:
        where = str(self._given.path) if self._given is not None and copy.text == self._given.text else str(self._file.path)
        return BadSetting(
            f"users were edited in {where} ({_described(copy.text)}) and in the cluster (version {shared.version}: "
            f"{_described(shared.text)}). Decide which holds: `holdfast cluster configure users FILE` gives the cluster those of "
            f"a file; without --users, and without {self._file.path}, this node takes those of the cluster",
            setting="users",
        )


def _described(text: str) -> str:
    """Users without their secrets."""
    try:
        names = sorted(access.read(text).by_name)
    except BadSetting:
        return f"digest {digest(text)[:8]}"
    shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
    return f"users {shown or 'none'}; digest {digest(text)[:8]}"
