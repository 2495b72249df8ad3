"""Where events are, and what of them is read: all that travels from the driver to the executors."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

import holdfast
from holdfast.client.client import Client
from holdfast.client.subscribing import Match
from holdfast.client.url import without_password

if TYPE_CHECKING:
    from holdfast.spark.options import SinkOptions, SourceOptions


@dataclass(frozen=True)
class Connection:
    """How a client finds its server. Every process that needs one connects by itself."""

    url: str
    password: str | None = field(default=None, repr=False)
    timeout: float = 60.0

    @classmethod
    def of(cls, options: SourceOptions | SinkOptions) -> Self:
        return cls(options.url, options.password, options.timeout)

    @property
    def shown_url(self) -> str:
        return without_password(self.url)

    def client(self) -> Client:
        """To be used as `async with`. Its name says where it runs, in the server's list of receivers."""
        name = f"spark/{socket.gethostname()}/{os.getpid()}"
        return holdfast.connect(self.url, name=name, timeout=self.timeout, password=self.password)


class Holding(NamedTuple):
    """What is read: a queue (no subscription), a subscription of a topic, or one of a pattern."""

    destination: str
    subscription: str = ""
    match: Match = "name"
