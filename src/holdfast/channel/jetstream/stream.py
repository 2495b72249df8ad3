"""The connection to the cluster, and the configuration of a channel's two streams.

holdfast-channel-NAME   the entries: one subject, so that sequence numbers have no gap; refuses when full; nothing expires,
                        nothing can be deleted singly: only a prefix is ever purged
holdfast-state-NAME     the newest snapshot and the released mark: the newest message of each subject
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from holdfast.channel.channel import COMMAND_BYTES_MAX
from holdfast.channel.jetstream.durability import check_copies, check_sync
from holdfast.channel.jetstream.nats_errors import FOREIGN, translate
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import BadSetting, Blocked, HoldfastError

log = logging.getLogger(__name__)

# The header that names the expected stream counts against the servers' max_payload.
PAYLOAD_BYTES_MIN = COMMAND_BYTES_MAX + 1024
# nats-py keeps this much to send while it reconnects; past it, publishing is refused at once.
PENDING_BYTES_MAX = 16 << 20


async def connect(settings: JetStreamSettings, reconnected: Callable[[], None]) -> Client:
    """Return a connection that notices a dead server within about two seconds, and never stops looking for another."""

    async def on_reconnected() -> None:
        reconnected()

    options: dict[str, Any] = {
        "ping_interval": 1,
        "max_outstanding_pings": 2,
        "reconnect_time_wait": 0.05,
        "max_reconnect_attempts": -1,
        "pending_size": PENDING_BYTES_MAX,
        "error_cb": _note,
        "reconnected_cb": on_reconnected,
        **settings.connect_options,
    }
    try:
        connecting = nats.connect(servers=list(settings.servers), **options)
        return await asyncio.wait_for(connecting, settings.timeout_s)
    except FOREIGN as problem:
        raise translate(problem, f"connecting to {', '.join(settings.servers)}") from problem


async def _note(problem: Exception) -> None:
    log.warning("cluster connection: %s", problem or type(problem).__name__)


async def prepare(connection: Client, names: Names, settings: JetStreamSettings) -> api.StreamInfo:
    """Check the servers, and make the streams that are not there yet."""
    if connection.max_payload < PAYLOAD_BYTES_MIN:
        raise BadSetting(
            f"the servers take messages of {connection.max_payload} bytes, but commands have up to {PAYLOAD_BYTES_MIN}; "
            "set `max_payload: 2MB` on each of them",
            max_payload=connection.max_payload,
        )
    checked = await check_sync(settings.monitors, settings.timeout_s)
    context = connection.jetstream(timeout=settings.timeout_s)
    try:
        await _ensure(context, _state_stream(names, settings))
        await _ensure(context, _entry_stream(names, settings))
        info = await context.stream_info(names.stream)
    except FOREIGN as problem:
        raise _not_opened(problem, names, settings) from problem
    check_copies(_holders(info), checked, names.stream)
    return info


def _not_opened(problem: Exception, names: Names, settings: JetStreamSettings) -> HoldfastError:
    found = translate(problem, f"opening channel {names.channel!r}")
    if isinstance(found, Blocked):  # the whole size of a stream is set aside when it is made
        return BadSetting(
            f"the servers cannot set aside {settings.stream_bytes_max} bytes for channel {names.channel!r}; lower size_bytes, or "
            "raise `max_file` in their jetstream blocks"
        )
    return found


def _entry_stream(names: Names, settings: JetStreamSettings) -> api.StreamConfig:
    return api.StreamConfig(
        name=names.stream,
        subjects=[names.subject],
        retention=api.RetentionPolicy.LIMITS,
        discard=api.DiscardPolicy.NEW,
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        max_bytes=settings.stream_bytes_max,
        deny_delete=True,
        allow_direct=True,
    )


def _state_stream(names: Names, settings: JetStreamSettings) -> api.StreamConfig:
    return api.StreamConfig(
        name=names.state_stream,
        subjects=[f"{names.state_subject}.>"],
        retention=api.RetentionPolicy.LIMITS,
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        max_msgs_per_subject=1,
        allow_direct=True,
    )


async def _ensure(context: JetStreamContext, wanted: api.StreamConfig) -> None:
    assert wanted.name is not None
    try:
        found = (await context.stream_info(wanted.name)).config
    except NotFoundError:
        await context.add_stream(wanted)
        return
    _check_config(found, wanted)
    if wanted.max_bytes is not None and (found.max_bytes or 0) < wanted.max_bytes:
        await context.update_stream(found, max_bytes=wanted.max_bytes)


def _check_config(found: api.StreamConfig, wanted: api.StreamConfig) -> None:
    """Raise BadSetting when a stream of this name could lose accepted commands."""
    essential = (
        "subjects",
        "retention",
        "storage",
        "num_replicas",
        "discard",
        "deny_delete",
        "max_msgs_per_subject",
        "allow_direct",
    )
    expected = {key: getattr(wanted, key) for key in essential} | {"max_age": 0, "max_msgs": -1, "persist_mode": None}
    for key, value in expected.items():
        said = getattr(found, key)
        if said != value and not (key == "persist_mode" and said == "default"):
            raise BadSetting(
                f"stream {wanted.name} exists with {key} = {said!r} and needs {value!r}; change it, or use another channel name",
                stream=wanted.name,
            )


def _holders(info: api.StreamInfo) -> list[str]:
    if info.cluster is None:
        return []
    replicas = [peer.name for peer in info.cluster.replicas or ()]
    return [name for name in (info.cluster.leader, *replicas) if name]
