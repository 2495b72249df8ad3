"""The clients of a relay: one at its own journal, one at each upstream, with the passwords that the environment has."""

from __future__ import annotations

import os

from holdfast.client.client import Client, connect
from holdfast.relay.definition import RelayDefinition


def local_client(definition: RelayDefinition, timeout: float | None = None) -> Client:
    return _client(definition, definition.local, definition.password_env, timeout)


def upstream_client(definition: RelayDefinition, name: str, timeout: float | None = None) -> Client:
    upstream = definition.upstreams[name]
    return _client(definition, upstream.url, upstream.password_env, timeout)


def _client(definition: RelayDefinition, url: str, password_env: str, timeout: float | None) -> Client:
    password = os.environ.get(password_env) if password_env else None
    return connect(url, name=f"relay {definition.name}", timeout=timeout, password=password)
