"""What a recorder holds on disk: events ready to be sent, in the order in which they were recorded.

    FOLDER/recording          a small journal, all of it written before the first event
    FOLDER/recorder.identity  who this recorder is, for the ids of its events
    FOLDER/forwarded          how far its events are durable elsewhere

    one entry:   version u8 │ kind u8 (0 queue, 1 topic) │ name length u16 │ destination, UTF-8 │ batch of one event

Read back, an entry is a ready BatchCommand. Its producer is named after the journal's own id, its sequence is the entry's
number: so it is sent as often as need be and counts once (rule 6), and the numbers of a journal that was thrown away are never
mistaken for another's. Neither is stored with the event: in a group of which some do not fit, an event gets its number only
when it is written.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from holdfast.channel.channel import Entry, Purpose
from holdfast.channel.journal.draft import Draft, Outcome
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.destination import command
from holdfast.errors import BadSetting, BadUrl, DiskFailed, JournalInUse, UnknownVersion
from holdfast.event import identifier
from holdfast.node.boot import Recorded
from holdfast.node.identity import Identity
from holdfast.recorder.mark import ForwardedMark

Kind = Literal["queue", "topic"]

# Not what a server has in its folder: one that is given the other's folder by mistake must not write into it.
JOURNAL_FOLDER = "recording"
IDENTITY_FILE = "recorder.identity"
MARK_FILE = "forwarded"
SIZE_BYTES_DEFAULT = 4 << 20
SIZE_BYTES_MIN = 128 << 10
# Space is freed a segment at a time: with eight, a recorder that is nearly full and nearly forwarded has most of its space back.
SEGMENTS = 8
SEGMENT_BYTES_MAX = 4 << 20
SECTOR_BYTES = 512
# "Released up to here" is all the upkeep a recorder has.
UPKEEP_BYTES = 4 << 10

_VERSION = 1
_KINDS: tuple[Kind, ...] = ("queue", "topic")
_LEAD = struct.Struct("<BBH")


def folder_of(place: str | Path) -> Path:
    """The folder of a path, or of a `file:` URL."""
    if not isinstance(place, str | Path):
        raise BadUrl(f"a recorder needs a folder, not {type(place).__name__}; give a path or file:DIR")
    text = str(place)
    if text.startswith("file:"):
        text = text.removeprefix("file:")
        text = text.removeprefix("//") if text.startswith("///") else text
    elif "://" in text:
        raise BadUrl(f"a recorder lives in a folder of this machine, not at {text!r}; give a path or file:DIR", url=text)
    if not text:
        raise BadUrl("a recorder needs a folder; give a path or file:DIR", url=str(place))
    return Path(text)


def journal_settings(size_bytes: int) -> JournalSettings:
    """All of the space is written before the first event, so that recording never needs any (A2)."""
    if type(size_bytes) is not int or size_bytes < SIZE_BYTES_MIN:
        raise BadSetting(
            f"size_bytes {size_bytes!r} is too small for a recorder; give it at least {SIZE_BYTES_MIN}", setting="size_bytes"
        )
    segment = min(size_bytes // SEGMENTS, SEGMENT_BYTES_MAX) // SECTOR_BYTES * SECTOR_BYTES
    return JournalSettings(
        size_bytes=size_bytes, initial_bytes=size_bytes, segment_bytes=segment, reserve_bytes=0, upkeep_bytes=UPKEEP_BYTES,
        tail_cache_bytes=0, read_cache_bytes=segment,
    )  # fmt: skip


class RecorderContents:
    """The open folder of a recorder. Not safe for threads by itself: `Recorder` is."""

    def __init__(self, journal: Journal, identity: Identity, mark: ForwardedMark) -> None:
        self._journal = journal
        self._identity = identity
        self._mark = mark
        self._released = min(mark.read(), journal.durable)
        self.producer = f"recorder-{identifier.to_text(int.from_bytes(journal.id, 'big'))}"

    @classmethod
    def open(cls, place: str | Path, size_bytes: int = SIZE_BYTES_DEFAULT) -> RecorderContents:
        """Open, or create. JournalInUse when another process, or another Recorder of this one, has it."""
        folder = folder_of(place)
        journal = _journal_of(folder, size_bytes)
        try:
            return cls(journal, Identity.open(folder / IDENTITY_FILE, site=0), ForwardedMark(folder / MARK_FILE, journal.id))
        except OSError as problem:
            journal.close()
            raise DiskFailed(
                f"recorder {folder} cannot be opened: {problem.strerror}; make room or mend the disk", reason=str(problem)
            ) from problem
        except BaseException:
            journal.close()
            raise

    @staticmethod
    def is_in(place: str | Path) -> bool:
        """Something was recorded in this folder."""
        return (folder_of(place) / JOURNAL_FOLDER).is_dir()

    @property
    def first(self) -> int:
        """The sequence of the oldest record that is not known to be durable elsewhere."""
        return max(self._journal.first, self._released + 1)

    @property
    def last(self) -> int:
        """The sequence of the newest record; 0 when there never was one."""
        return self._journal.durable

    @property
    def free_bytes(self) -> int:
        return self._journal.pressure.free_bytes

    def take_id(self) -> int:
        return self._identity.take()

    def draft(self, kind: Kind, destination: str, batch: bytes) -> Draft:
        """An event as something to write. TooLarge when it does not fit a segment."""
        encoded = destination.encode()
        lead = _LEAD.pack(_VERSION, _KINDS.index(kind), len(encoded))
        return self._journal.draft(b"".join((lead, encoded, batch)), Purpose.EVENTS)

    def write(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Make these durable, with one sync where they fit one segment. Per draft: its sequence, or why it was not taken."""
        return self._journal.commit(drafts)

    def commands(self, start: int = 0) -> Iterator[Recorded]:
        """Every record from sequence `start` on, as it is to be sent."""
        for entry in self._journal.read_from(max(start, self.first)):
            yield self._recorded(entry)

    def _recorded(self, entry: Entry) -> Recorded:
        view = memoryview(entry.command)
        version, kind, length = _LEAD.unpack_from(view)
        if version != _VERSION or kind >= len(_KINDS):
            raise UnknownVersion(
                f"record {entry.number} of a recorder has format {version}.{kind}, which this release does not know; upgrade it",
                sequence=entry.number,
            )
        destination = str(view[_LEAD.size : _LEAD.size + length], "utf-8")
        made = command.BatchCommand(destination, self.producer, entry.number)
        return Recorded(entry.number, destination, _KINDS[kind], command.encode(made, view[_LEAD.size + length :]))

    def release(self, through: int) -> None:
        """Everything up to this sequence is durable elsewhere: its space may be used again."""
        if through > self._released:
            self._journal.release(through + 1)
            self._released = through
            self._mark.write(through)

    def close(self) -> None:
        self._journal.close()
        self._identity.close()
        self._mark.close()


def _check_room(folder: Path, size_bytes: int) -> None:
    """All of a new recorder's space is written at once: what could never fit is refused before an hour is spent on it."""
    if (folder / JOURNAL_FOLDER).exists():
        return
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free_bytes = shutil.disk_usage(there).free
    if size_bytes > free_bytes:
        raise DiskFailed(
            f"a recorder of {size_bytes:,} bytes does not fit the disk of {folder}, which has {free_bytes:,} free; "
            "make room, or give a smaller size",
            size_bytes=size_bytes,
            free_bytes=free_bytes,
        )


def _journal_of(folder: Path, size_bytes: int) -> Journal:
    settings = journal_settings(size_bytes)
    _check_room(folder, size_bytes)
    try:
        return Journal.open(folder / JOURNAL_FOLDER, settings)
    except JournalInUse as problem:
        raise JournalInUse(
            f"recorder {folder} is in use by process {problem.fields.get('holder') or 'unknown'}; one process owns a recorder: "
            "give each its own folder, or wait until that one has ended",
            **problem.fields,
        ) from problem
