"""The contents of a recorder on disk: events ready to be sent, in the order in which they were recorded.

    FOLDER/recording          a small journal, all of it written before the first event
    FOLDER/recorder.identity  who this recorder is, for the ids of its events
    FOLDER/forwarded          how far its events are durable elsewhere, and where

    one entry:   version u8 │ kind u8 (0 queue, 1 topic) │ name length u16 │ destination, UTF-8 │ batch of one event

Read back, an entry is a ready BatchCommand. Its producer is named after the id of the journal, its sequence is the number of the
entry. So it may be sent several times and counts once (rule 6), and the numbers of a deleted journal are never taken for those of
another. Neither is stored with the event: an event gets its number only when it is written, because some of a group may not fit.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast.channel.channel import Buffer, Entry, Purpose
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.run import Draft, Outcome
from holdfast.channel.journal.settings import JournalSettings
from holdfast.client.sending.batch_forwarder import Held
from holdfast.destination import command
from holdfast.errors import BadSetting, BadUrl, DiskFailed, JournalInUse, UnknownVersion
from holdfast.event import identifier
from holdfast.event.incarnation import is_restored
from holdfast.node.identity import Identity
from holdfast.recorder.forwarded_mark import Forwarded, ForwardedMark

Kind = Literal["queue", "topic"]

# Other names than those in the folder of a server: a server that is given this folder by mistake must not write into it.
JOURNAL_FOLDER = "recording"
IDENTITY_FILE = "recorder.identity"
MARK_FILE = "forwarded"
SIZE_BYTES_DEFAULT = 4 << 20
SIZE_BYTES_MIN = 128 << 10
# Space is freed a segment at a time: with eight, most of the space is back when nearly everything is forwarded.
SEGMENTS = 8
SEGMENT_BYTES_MAX = 4 << 20
SECTOR_BYTES = 512
# The only upkeep of a recorder are notes of release.
UPKEEP_BYTES = 4 << 10

_VERSION = 1
_KINDS: tuple[Kind, ...] = ("queue", "topic")
_LEAD = struct.Struct("<BBH")


def folder_of(place: str | Path) -> Path:
    """Return the folder of a path or `file:` URL; `~` is the home of the user who runs this."""
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
    return Path(text).expanduser()


def journal_settings(size_bytes: int) -> JournalSettings:
    """Return the settings of a journal whose space is all written before the first event, so that recording needs none (A2)."""
    if type(size_bytes) is not int or size_bytes < SIZE_BYTES_MIN:
        raise BadSetting(
            f"size_bytes {size_bytes!r} is too small for a recorder; give it at least {SIZE_BYTES_MIN}", setting="size_bytes"
        )
    segment = min(size_bytes // SEGMENTS, SEGMENT_BYTES_MAX) // SECTOR_BYTES * SECTOR_BYTES
    return JournalSettings(
        size_bytes=size_bytes, initial_bytes=size_bytes, segment_bytes=segment, reserve_bytes=0, upkeep_bytes=UPKEEP_BYTES,
        tail_cache_bytes=0, read_cache_bytes=segment,
    )  # fmt: skip


class RecordedCommand(NamedTuple):
    """A record as it is to be sent: a ready BatchCommand."""

    sequence: int
    destination: str
    kind: Kind
    command: Buffer


class RecorderContents:
    """The open folder of a recorder. Threads must not share it; they may share a `Recorder`."""

    def __init__(self, journal: Journal, identity: Identity, mark: ForwardedMark) -> None:
        self._journal = journal
        self._identity = identity
        self._mark = mark
        forwarded = mark.read()
        self._released = min(forwarded.sequence, journal.durable)
        self._released_to = forwarded.incarnation
        self.producer = f"recorder-{identifier.to_text(int.from_bytes(journal.id, 'big'))}"

    @classmethod
    def open(cls, place: str | Path, size_bytes: int = SIZE_BYTES_DEFAULT) -> RecorderContents:
        """Open or create the folder. JournalInUse when another process, or another Recorder of this one, has it."""
        folder = folder_of(place)
        journal = _journal_of(folder, size_bytes)
        try:
            return cls(journal, Identity.open(folder / IDENTITY_FILE, site=0), ForwardedMark(folder / MARK_FILE, journal.id))
        except OSError as problem:
            journal.close()
            raise DiskFailed(
                f"recorder {folder} cannot be opened: {problem.strerror}; make room or repair the disk", reason=str(problem)
            ) from problem
        except BaseException:
            journal.close()
            raise

    @staticmethod
    def is_in(place: str | Path) -> bool:
        """Tell whether a recorder was opened in this folder."""
        return (folder_of(place) / JOURNAL_FOLDER).is_dir()

    @property
    def first(self) -> int:
        """The sequence of the oldest record that is not known to be durable elsewhere."""
        return max(self._journal.first, self._released + 1)

    @property
    def last(self) -> int:
        """The sequence of the newest record; 0 before the first."""
        return self._journal.durable

    @property
    def free_bytes(self) -> int:
        return self._journal.pressure.free_bytes

    def take_id(self) -> int:
        return self._identity.take()

    def draft(self, kind: Kind, destination: str, batch: bytes) -> Draft:
        """Return an event as something to write. TooLarge when it does not fit a segment."""
        encoded = destination.encode()
        lead = _LEAD.pack(_VERSION, _KINDS.index(kind), len(encoded))
        return self._journal.draft(b"".join((lead, encoded, batch)), Purpose.EVENTS)

    def write(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Make these durable, with one sync where they fit one segment. Return for each its sequence, or why it was refused."""
        return self._journal.commit(drafts)

    def commands(self, start: int = 0) -> Iterator[RecordedCommand]:
        """Yield every record from sequence `start` on, as it is to be sent."""
        for entry in self._journal.read_from(max(start, self.first)):
            yield self._recorded(entry)

    def _recorded(self, entry: Entry) -> RecordedCommand:
        view = memoryview(entry.command)
        version, kind, length = _LEAD.unpack_from(view)
        if version != _VERSION or kind >= len(_KINDS):
            raise UnknownVersion(
                f"record {entry.number} of a recorder has format {version}.{kind}, which this release does not know; upgrade it",
                sequence=entry.number,
            )
        destination = str(view[_LEAD.size : _LEAD.size + length], "utf-8")
        made = command.BatchCommand(destination, self.producer, entry.number)
        return RecordedCommand(entry.number, destination, _KINDS[kind], command.encode(made, view[_LEAD.size + length :]))

    def held_for(self, incarnation: str) -> Held:
        """Return what to forward to a server whose channel has this incarnation.

        If that channel was restored from a backup since, it may have lost what was forwarded to it: all that is still on disk
        here is held again.
        """
        if not is_restored(self._released_to, incarnation):
            return Held(self.first)
        self._released, self._released_to = self._journal.first - 1, incarnation
        self._mark.write(Forwarded(self._released, incarnation))
        return Held(self.first, is_again=True)

    def first_for(self, incarnation: str) -> int:
        """The least sequence that may have to be forwarded to a channel with this incarnation."""
        return self.held_for(incarnation).first_sequence

    def release(self, through: int, incarnation: str = "") -> None:
        """Free the space of events up to this sequence: they are durable elsewhere, in the channel with this incarnation."""
        if through > self._released:
            self._journal.release(through + 1)
            self._released, self._released_to = through, incarnation
            self._mark.write(Forwarded(through, incarnation))

    def close(self) -> None:
        self._journal.close()
        self._identity.close()
        self._mark.close()


def _check_room(folder: Path, size_bytes: int) -> None:
    """Refuse a size that the disk does not have. All space of a new recorder is written at once, which can take long."""
    if (folder / JOURNAL_FOLDER).exists():
        return
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free_bytes = shutil.disk_usage(there).free
    if size_bytes > free_bytes:
        raise DiskFailed(
            f"a recorder of {size_bytes:,} bytes does not fit the disk of {folder}, which has {free_bytes:,} bytes free; "
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
