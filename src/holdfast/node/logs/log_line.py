"""A line of the log of a program that runs beside the server, for the topic `_LOG`."""

from __future__ import annotations

from typing import Literal

import msgspec


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    level: Literal["INFO", "WARNING", "ERROR", "CRITICAL"]
    logger: str
    text: str
    time_us: int  # since 1970
