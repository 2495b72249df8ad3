"""The settings of a node, with their units in their names, checked before anything is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast.channel.journal.settings import JournalSettings, large_bytes, size_for
from holdfast.errors import BadSetting

PORT_DEFAULT = 7400
VIGIL_US_MAX = 10_000
# Message managers of one process: it has one core.
MANAGERS_MAX = 64
# The name of a message manager: part of subjects of the bus, of folders, and of names of temporary destinations.
_MANAGER = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
# A journal that is smaller than usual allocates one part in so many at first, and keeps another one for upkeep.
SMALL_PARTS = 16
# A host has none of the characters that divide a URL; an IPv6 address stands in brackets.
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[\w:.%]+)\]|(?P<host>[^\s\[\]:/?#@]*))(?::(?P<port>[0-9]{0,6}))?\Z", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def shown_size(size: int) -> str:
    """A size as it is written in options, in whole MiB, rounded up."""
    return f"{-(-size // (1 << 20))}M"


def parse_size(text: str, name: str) -> int:
    """Bytes from `64M`, `1.5GiB` or `4096`."""
    found = _SIZE.match(text.strip())
    if not found:
        raise BadSetting(f"{name} {text!r} is not a size; write it like 64M, 2G or a number of bytes", setting=name, value=text)
    return int(float(found[1]) * _UNITS[found[2].upper()])


def size_text(size_bytes: int) -> str:
    """Bytes as people write them: 1.5G, 64M, 300K."""
    unit = next((each for each in "TGMK" if size_bytes >= _UNITS[each]), "")
    return f"{size_bytes / _UNITS[unit]:.1f}".removesuffix(".0") + unit


def journal_settings(journal_size: str = "4G", reserve: str = "16M", segment_size: str = "8M") -> JournalSettings:
    """The sizes of a journal as people write them. A small journal allocates little at first, and keeps little for upkeep."""
    size_bytes, usual = parse_size(journal_size, "journal_size"), JournalSettings()
    return JournalSettings(
        size_bytes=size_bytes,
        initial_bytes=min(usual.initial_bytes, size_bytes // SMALL_PARTS),
        upkeep_bytes=min(usual.upkeep_bytes, size_bytes // SMALL_PARTS),
        segment_bytes=parse_size(segment_size, "segment_size"),
        reserve_bytes=parse_size(reserve, "reserve"),
    )


def parse_managers(text: str) -> tuple[str, ...]:
    """The names of message managers from `2` (m1 and m2), or `east,west`; none from `1`, or nothing."""
    if text.isdigit():
        if not 1 <= int(text) <= MANAGERS_MAX:
            raise BadSetting(f"managers {text} is not from 1 to {MANAGERS_MAX}", setting="managers")
        return tuple(f"m{number}" for number in range(1, int(text) + 1)) if int(text) > 1 else ()
    return tuple(each.strip() for each in text.split(",")) if text else ()


def parse_address(text: str, option: str, *, port_default: int | None = None) -> tuple[str, int]:
    """Host and port from `HOST:PORT`, `[::1]:PORT` or `:PORT`; from `HOST`, too, where a port is usual."""
    found = _ADDRESS.match(text)
    if not text or not found:
        raise _bad_address(text, option, "is no address")
    port = found["port"] if found["port"] is not None else port_default
    if port is None:
        raise _bad_address(text, option, "has no port")
    if port == "" or int(port) > 65_535:
        raise _bad_address(text, option, "has no valid port")
    return found["bracketed"] or found["host"] or "127.0.0.1", int(port)


def checked_advertised(text: str) -> str:
    """An address as other machines are told it: it has a host, and a port that is not 0. No text: none is told."""
    if text and (text.startswith(":") or parse_address(text, "--advertise")[1] == 0):
        raise _bad_address(text, "--advertise", "cannot be reached by others")
    return text


def _bad_address(text: str, option: str, problem: str) -> BadSetting:
    sentence = f"{option} {text!r:.80} {problem}; write HOST:PORT, as in 10.0.0.1:8080 or [::1]:8080"
    return BadSetting(sentence, setting=option.lstrip("-"), value=text)


@dataclass(frozen=True)
class NodeSettings:
    """How one process of message manager and client manager behaves."""

    name: str = "holdfast"
    site: int = 0
    # Several message managers in one process, each with a journal of its own, by their names; none: one alone (ADR 22).
    managers: tuple[str, ...] = ()
    # Where new destinations are placed among them: the manager of the first pattern that matches the name; otherwise the one with
    # the fewest destinations.
    placement: tuple[tuple[str, str], ...] = ()
    journal: JournalSettings = field(default_factory=JournalSettings)
    # A session whose link was lost keeps the events it holds for so long; then others get them.
    session_grace_ms: int = 5_000
    # The same after a start, for sessions from before it, counted from the end of the replay: nobody else gets events that such a
    # session may hold while it may come back (rules 4, 15). None: as long as after a lost link. 0: none of them can come back.
    start_grace_ms: int | None = None
    heartbeat_ms: int = 5_000
    # Batches a producer may have sent and not receipted; the machines hold as many back (rule 6).
    window: int = 64
    # After a receipt, poll this long for the sender's next event: lower latency, more CPU. 0: never (`node.busy_wait`).
    vigil_us: int = 0
    # Bytes that may wait on one link before the link is ended: its client asks, and does not read the answers. Deliveries stop
    # long before.
    link_bytes_max: int = 16 << 20
    is_create_on_first_use: bool = True
    # Transactions and large events: how many a session may have under way, in how many parts and bytes each. 0 bytes: half of the
    # journal, so that one alone can never fill it.
    assemblies_max: int = 32
    parts_max: int = 1 << 20
    large_bytes_max: int = 0
    # Limits on things that a user may make without a rule: temporary destinations of one session, and of one user; durable
    # producers of one user, which stay until they are forgotten. Far more than our own clients make; a recorder is one producer.
    session_temporaries_max: int = 1_000
    user_temporaries_max: int = 10_000
    user_producers_max: int = 10_000
    # A transaction, or a large event on its way, is abandoned when no part comes for so long: it keeps space from others.
    assembly_idle_ms: int = 300_000
    # A stage belongs to no session: only time tells that nobody will publish it.
    stage_idle_ms: int = 3_600_000
    # Bytes of commands after which a new snapshot is saved, so that replay after a crash stays short.
    snapshot_bytes: int = 32 << 20

    @property
    def assembly_bytes_max(self) -> int:
        return self.large_bytes_max or self.journal.size_bytes // 2

    def journal_size_for(self, large: int) -> int:
        """The size of a journal that takes a transaction or large event of so many bytes."""
        return size_for(self.journal, large) if self.large_bytes_max else max(2 * large, size_for(self.journal, large))

    def check_large(self) -> None:
        """BadSetting where the journal could never hold the largest event that is allowed."""
        if self.large_bytes_max > large_bytes(self.journal):
            needed = shown_size(self.journal_size_for(self.large_bytes_max))
            raise BadSetting(
                f"a journal of {self.journal.size_bytes:,} bytes never has room for an event of {self.large_bytes_max:,} "
                f"(--large-max); give it --journal-size {needed} or more, or lower --large-max",
                setting="large_bytes_max",
            )

    @property
    def former_grace_ms(self) -> int:
        """How long sessions from before a start may come back."""
        return self.session_grace_ms if self.start_grace_ms is None else self.start_grace_ms

    def __post_init__(self) -> None:
        if len(self.managers) == 1 or len(set(self.managers)) < len(self.managers) or not all(map(_MANAGER.match, self.managers)):
            raise BadSetting(
                f"managers {self.managers!r:.60} are not two or more different names of small letters, digits and '-'; leave "
                "them out for one alone",
                setting="managers",
            )
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
            "heartbeat_ms",
            "window",
            "link_bytes_max",
            "snapshot_bytes",
            "assembly_idle_ms",
            "stage_idle_ms",
            "session_temporaries_max",
            "user_temporaries_max",
            "user_producers_max",
        )
        if self.former_grace_ms < 0:
            raise BadSetting(f"start_grace_ms is not negative, and {self.start_grace_ms} is", setting="start_grace_ms")
        for setting in positive:
            if getattr(self, setting) <= 0:
                raise BadSetting(f"{setting} must be positive, not {getattr(self, setting)}", setting=setting)
        if self.window > 64:
            raise BadSetting(f"window {self.window} is over 64, what destinations hold back for a producer", setting="window")

    @classmethod
    def of(cls, **given: Any) -> NodeSettings:
        """Settings from names and values. BadSetting for an unknown name lists the known ones."""
        known = {entry.name for entry in fields(cls)}
        for name in given:
            if name not in known:
                raise BadSetting(f"there is no setting {name!r}; there are: {', '.join(sorted(known))}", setting=name)
        return cls(**given)
