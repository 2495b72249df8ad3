"""Options as a user of Spark gives them: names in any case, values as text. Read one by one, each with its check.

A bad option is refused before anything is opened, in a sentence that names the option and its possible values. Secrets are never
shown.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from holdfast.client import url as urls
from holdfast.client.url import FileUrl, MemoryUrl
from holdfast.errors import BadSetting, BadUrl, HoldfastError
from holdfast.event.event import from_microseconds
from holdfast.node.settings import parse_size

# Options that Spark adds itself.
_OF_SPARK = frozenset(("checkpointlocation", "queryname"))
# What Kafka's source calls its options.
_ALIASES = {"minoffsetspertrigger": "mineventspertrigger", "maxoffsetspertrigger": "maxeventspertrigger"}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\Z")
_SECRET = frozenset(("url", "password"))
_EPOCH = from_microseconds(0)


class OptionReader:
    """`use` is what the options are for, in words; `known` those there are for it; `elsewhere` what others are for."""

    def __init__(
        self, options: Mapping[str, str], use: str, known: Iterable[str], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        self._use = use
        self._known = {name.lower(): name for name in known}
        self._elsewhere = {name.lower(): other for name, other in (elsewhere or {}).items()}
        self._values: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() not in _OF_SPARK:
                self._values[self._checked_name(name)] = value

    def _checked_name(self, name: str) -> str:
        key = _ALIASES.get(name.lower(), name.lower())
        if key in self._known:
            return self._known[key]
        there_are = f"There are: {', '.join(sorted(self._known.values()))}"
        if key in self._elsewhere:
            raise BadSetting(
                f"option {name!r} is for {self._elsewhere[key]}, and this is {self._use}; leave it out. {there_are}", setting=name
            )
        near = [self._known[found] for found in difflib.get_close_matches(key, self._known, 3, 0.7)]
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise BadSetting(f"there is no option {name!r:.80} for {self._use}.{meant} {there_are}", setting=name)

    def _refused(self, name: str, why: str) -> BadSetting:
        shown = "" if name in _SECRET else f" = {self._values[name]!r:.200}"
        return BadSetting(f"option {name}{shown}: {why}", setting=name)

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        """An option that is there but empty is a mistake, most often a variable that was not set."""
        value = self._values.get(name, default)
        if name in self._values and not value.strip():
            raise self._refused(name, "it is empty; give it a value, or leave it out")
        return value

    def required(self, name: str, example: str) -> str:
        if name not in self._values:
            raise BadSetting(f"{self._use} needs the option {name}, such as {example}", setting=name)
        return self.text(name)

    def choice(self, name: str, possible: tuple[str, ...], default: str) -> str:
        value = self.text(name, default).lower()
        if value not in possible:
            raise self._refused(name, f"possible are {', '.join(possible)}")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        """None when it was not given."""
        if name not in self._values:
            return None
        text = self.text(name).strip().replace("_", "")
        if not (text.isascii() and text.isdigit()) or len(text) > 19 or not least <= int(text) <= most:
            raise self._refused(name, f"give a whole number from {least} to {most:,}")
        return int(text)

    def size(self, name: str, least: int) -> int | None:
        """Bytes: `64M`, `1G`, or a number."""
        if name not in self._values:
            return None
        try:
            found = parse_size(self.text(name), name)
        except (BadSetting, OverflowError):
            found = 0
        if not least <= found < 1 << 62:
            raise self._refused(name, f"write a size like 64M, 2G or a number of bytes, at least {least}")
        return found

    def seconds(self, name: str, least: float, most: float, default: float) -> float:
        try:
            found = float(self.text(name, str(default)))
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            raise self._refused(name, f"give seconds, from {least:g} to {most:g}")
        return found

    def duration_s(self, name: str, least: float, most: float, default: float) -> float:
        """Seconds: `90`, `90s`, `15m`, `1.5h`."""
        if name not in self._values:
            return default
        found = _DURATION.match(self.text(name).strip().lower())
        seconds = float(found.group(1)) * _SECONDS[found.group(2) or "s"] if found else math.nan
        if not least <= seconds <= most:
            raise self._refused(name, f"write a time like 30s, 15m or 1h, from {least:g} to {most:g} seconds")
        return seconds

    def moment_us(self, name: str) -> int | None:
        """A moment in microseconds since 1970; it must say its time zone."""
        if name not in self._values:
            return None
        try:
            found = datetime.fromisoformat(self.text(name).strip())
        except ValueError:
            raise self._refused(name, "write a moment as 2026-01-31T08:00:00Z") from None
        if found.tzinfo is None:
            raise self._refused(name, f"it has no time zone; write {found.isoformat()}Z if it is UTC")
        since = found.astimezone(UTC) - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    def checked(self, name: str, problem: HoldfastError) -> HoldfastError:
        """An error of Holdfast's own about the value of an option, with the option named."""
        return type(problem)(f"option {name}: {problem.sentence}", **{**problem.fields, "setting": name})

    def server_url(self, *, is_file_possible: bool) -> str:
        """Tasks run in other processes, on other machines: what lives in this one's memory they cannot see."""
        url = self.required("url", "holdfast://localhost")
        parsed = urls.parse_with_password(url, self._values.get("password"))
        shown = urls.without_password(url)
        if isinstance(parsed, MemoryUrl):
            raise BadUrl(f"{shown!r} lives in the memory of one process, and Spark has several; give holdfast://HOST", url=shown)
        if isinstance(parsed, FileUrl) and not is_file_possible:
            raise BadUrl(
                f"{shown!r} is a journal that one process may write to, and {self._use} has several; start `holdfast serve` on "
                "it and give holdfast://HOST. Reading what it holds, with spark.read, is possible",
                url=shown,
            )
        return url
