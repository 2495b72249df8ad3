"""Secrets of actions: passwords and tokens stay out of rules files, logs, and the reasons of dead events.

    "${env:SMTP_PASSWORD}"         from the environment
    "${file:/run/secrets/token}"   from a file, without the end of its last line; relative to the folder of the rules

References stand in any text of an action's settings. They are resolved when the rules are loaded. Every value that came from
one is replaced by *** in all that is told afterwards, and so is the password of any URL. A value that is a URL, as those of chats
are, is hidden in parts, too: libraries tell its path, or its token, without the rest.

Text is made free of secrets before it is cut: the half of a password is none that could be found.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)([^\s@]+)(@)", re.IGNORECASE)
HIDDEN = "***"
# A shorter value would hide parts of ordinary words.
LENGTH_MIN = 4
# Parts of a URL that are shorter are words such as `hooks`.
PART_LENGTH_MIN = 8
FILE_BYTES_MAX = 64 << 10


class NoSecret(Exception):
    """A reference that leads nowhere."""


class Secrets:
    def __init__(self, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._folder = folder or Path()
        self._environment = os.environ if environment is None else environment
        self._values: set[str] = set()

    def resolve(self, value: Any) -> Any:
        """The value with all references in its texts resolved. NoSecret names one that leads nowhere, never its value."""
        if isinstance(value, str):
            return _REFERENCE.sub(lambda found: self._found(found[1], found[2]), value)
        if isinstance(value, Mapping):
            return {name: self.resolve(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.resolve(each) for each in value]
        return value

    def _found(self, kind: str, name: str) -> str:
        if kind == "env":
            if name not in self._environment:
                raise NoSecret(f"the environment has no {name!r}; set it before the program starts")
            value = self._environment[name]
        else:
            try:
                with (self._folder / Path(name).expanduser()).open("rb") as file:
                    value = file.read(FILE_BYTES_MAX).decode(errors="replace").rstrip("\r\n")
            except OSError as problem:
                raise NoSecret(f"the file {name!r} cannot be read ({problem.strerror}); name one that can") from problem
        if not value:
            raise NoSecret(f"{kind}:{name} is empty; give it a value")
        self.hide(value)
        return value

    def hide(self, value: str) -> None:
        """Never tell this value, nor as it stands in a URL."""
        if len(value) >= LENGTH_MIN:
            self._values |= {value, quote(value, safe=""), quote(value)}
        for part in _url_parts(value):
            self._values |= {part, quote(part, safe="")}

    def redact(self, text: str) -> str:
        """The text without secrets."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return _URL_PASSWORD.sub(rf"\1{HIDDEN}\3", text)


def _url_parts(value: str) -> set[str]:
    """What may be secret in a URL: all but its scheme and the name of its host. A host without a dot may be a token."""
    try:
        parts = urlsplit(value)
        found = {parts.username, parts.password, *parts.path.split("/"), *(each for _, each in parse_qsl(parts.query))}
    except ValueError:
        return set()
    if not parts.scheme or not parts.netloc:
        return set()
    host = parts.netloc.rpartition("@")[2]
    found |= {host} if "." not in host and ":" not in host and host != "localhost" else set()
    whole = {each for part in found if part for each in (part, unquote(part))}
    least = {parts.password: LENGTH_MIN}
    return {each for each in whole if len(each) >= least.get(each, PART_LENGTH_MIN)}


class RedactingFilter(logging.Filter):
    """Takes secrets out of log records, those of libraries that actions use included."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self.secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        record.msg, record.args, record.exc_info, record.exc_text = self.secrets.redact(text), (), None, None
        return True
