"""The journal: a channel on one machine, made of segment files that are written before use and recycled for ever."""

from holdfast.channel.journal.channel import JournalChannel
from holdfast.channel.journal.inspection import show, verify
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.reader import JournalReader
from holdfast.channel.journal.settings import JournalSettings

__all__ = ["Journal", "JournalChannel", "JournalReader", "JournalSettings", "show", "verify"]
