"""The settings of a node, with their units in their names, checked before anything is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast.channel.journal import JournalSettings
from holdfast.errors import BadSetting

PORT_DEFAULT = 7400
VIGIL_US_MAX = 10_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
# Of a journal that is smaller than usual, this part is set aside at first, and this part is kept for upkeep.
SMALL_PARTS = 16
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str, name: str) -> int:
    """Bytes from `64M`, `1.5GiB` or `4096`."""
    found = _SIZE.match(text.strip())
    if not found:
        raise BadSetting(f"{name} {text!r} is not a size; write it like 64M, 2G or a number of bytes", setting=name, value=text)
    return int(float(found[1]) * _UNITS[found[2].upper()])


def journal_settings(journal_size: str = "4G", reserve: str = "16M", segment_size: str = "8M") -> JournalSettings:
    """The sizes of a journal as people write them. Of a small one, a small part is set aside at first and kept for upkeep."""
    size_bytes, usual = parse_size(journal_size, "journal_size"), JournalSettings()
    return JournalSettings(
        size_bytes=size_bytes,
        initial_bytes=min(usual.initial_bytes, size_bytes // SMALL_PARTS),
        upkeep_bytes=min(usual.upkeep_bytes, size_bytes // SMALL_PARTS),
        segment_bytes=parse_size(segment_size, "segment_size"),
        reserve_bytes=parse_size(reserve, "reserve"),
    )


def parse_address(text: str) -> tuple[str, int]:
    """Host and port from `HOST:PORT`, `[::1]:PORT`, `HOST` or `:PORT`."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, str(PORT_DEFAULT)
    if not port.isdigit() or int(port) > 65_535:
        raise BadSetting(f"address {text!r} has no valid port; write it like 127.0.0.1:{PORT_DEFAULT}", value=text)
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True)
class NodeSettings:
    """How one process of message manager and client manager behaves."""

    name: str = "holdfast"
    site: int = 0
    journal: JournalSettings = field(default_factory=JournalSettings)
    # A session whose link was lost keeps what it holds for so long; then others get it.
    session_grace_ms: int = 5_000
    # After a restart, deliveries wait at most so long for the receivers that were attached before (rule 15).
    start_grace_ms: int = 2_000
    heartbeat_ms: int = 5_000
    # Batches a producer may have sent and not receipted; the machines hold as many back (rule 6).
    window: int = 64
    # How long to stay awake for a sender that comes back at once after its receipt; 0 for never (`node.vigil`).
    vigil_us: int = 0
    # Bytes of deliveries that may wait on one link before the link is given up: its client grants credit and does not read.
    link_bytes_max: int = 64 << 20
    is_create_on_first_use: bool = True
    # Transactions and large events: how many a session may have under way, in how many parts and bytes each. 0 bytes: half of the
    # journal, so that one alone can never fill it.
    assemblies_max: int = 32
    parts_max: int = 1 << 20
    large_bytes_max: int = 0
    # A transaction, or a large event on its way, in which nothing comes for so long is given up: it keeps space from others.
    assembly_idle_ms: int = 300_000
    # A stage belongs to no session: only time tells that nobody will publish it.
    stage_idle_ms: int = 3_600_000
    # Commands applied before a new snapshot is worth its writing, so that replay after a crash stays short.
    snapshot_bytes: int = 32 << 20

    @property
    def assembly_bytes_max(self) -> int:
        return self.large_bytes_max or self.journal.size_bytes // 2

    def __post_init__(self) -> None:
        if not 1 <= self.assemblies_max <= 32:
            raise BadSetting(
                f"assemblies_max {self.assemblies_max} is not from 1 to 32, half of what destinations remember",
                setting="assemblies_max",
            )
        if not 0 <= self.vigil_us <= VIGIL_US_MAX:
            raise BadSetting(f"vigil_us {self.vigil_us} is not from 0 to {VIGIL_US_MAX} microseconds", setting="vigil_us")
        if self.large_bytes_max < 0 or self.parts_max < 1:
            raise BadSetting("large_bytes_max and parts_max are not negative; 0 bytes means half of the journal")
        positive = (
            "session_grace_ms",
            "start_grace_ms",
            "heartbeat_ms",
            "window",
            "link_bytes_max",
            "snapshot_bytes",
            "assembly_idle_ms",
            "stage_idle_ms",
        )
        for setting in positive:
            if getattr(self, setting) <= 0:
                raise BadSetting(f"{setting} must be positive, not {getattr(self, setting)}", setting=setting)
        if self.window > 64:
            raise BadSetting(f"window {self.window} is over 64, what destinations hold back for a producer", setting="window")

    @classmethod
    def of(cls, **given: Any) -> NodeSettings:
        """Settings from names and values; an unknown name is refused with the ones there are."""
        known = {entry.name for entry in fields(cls)}
        for name in given:
            if name not in known:
                raise BadSetting(f"there is no setting {name!r}; there are: {', '.join(sorted(known))}", setting=name)
        return cls(**given)
