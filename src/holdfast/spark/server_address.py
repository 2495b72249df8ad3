"""The address of a server, as it travels from the driver to the executors."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import holdfast
from holdfast.client.client import Client
from holdfast.client.url import without_password

if TYPE_CHECKING:
    from holdfast.spark.options import SinkOptions, SourceOptions


@dataclass(frozen=True)
class ServerAddress:
    """How a client finds its server. Each process connects by itself."""

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
        """A client for `async with`. Its name shows host and process in the server's list of receivers."""
        name = f"spark/{socket.gethostname()}/{os.getpid()}"
        return holdfast.connect(self.url, name=name, timeout=self.timeout, password=self.password)
