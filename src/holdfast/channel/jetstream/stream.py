"""The connection to the cluster, and the configuration of a channel's two streams.

holdfast-channel-NAME   the entries: one subject, so that sequence numbers have no gap; refuses when full; nothing expires,
                        nothing can be deleted singly: only a prefix is ever purged
holdfast-state-NAME     two snapshots, the released mark, the servers that were checked: the newest message of each subject
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from holdfast.channel.jetstream.durability import Checked, check_copies, check_servers
from holdfast.channel.jetstream.nats_errors import FOREIGN, translate
from holdfast.channel.jetstream.settings import REMEMBERED_IDS_S, JetStreamSettings, Names
from holdfast.errors import BadSetting, Blocked, HoldfastError

log = logging.getLogger(__name__)

# A leader hears each copy every second; one that it has not heard for so long (in nanoseconds) does not count.
HEARD_NS = 4_000_000_000


async def connect(settings: JetStreamSettings, lost: Callable[[], None], reconnected: Callable[[], None]) -> Client:
    """Return a connection that notices a dead server within about two seconds, and never stops looking for another."""

    async def on_lost() -> None:
        lost()

    async def on_reconnected() -> None:
        reconnected()

    options: dict[str, Any] = {
        "ping_interval": 1,
        "max_outstanding_pings": 2,
        "reconnect_time_wait": 0.05,
        "max_reconnect_attempts": -1,
        "pending_size": -1,  # keep nothing to send later: what is sent when, and again, is decided by the appender
        "error_cb": _note,
        **settings.connect_options,
        "disconnected_cb": on_lost,
        "reconnected_cb": on_reconnected,
    }
    connection = Client()
    try:
        async with asyncio.timeout(settings.timeout_s):
            await connection.connect(list(settings.servers), **options)
    except BaseException as problem:
        await connection.close()  # of a connection that is half made, too
        if isinstance(problem, FOREIGN):
            raise translate(problem, f"connecting to {', '.join(settings.servers)}") from problem
        raise
    return connection


async def _note(problem: Exception) -> None:
    log.warning("cluster connection: %s", problem or type(problem).__name__)


class Prepared(NamedTuple):
    info: api.StreamInfo
    unchecked: tuple[str, ...]  # monitoring addresses that did not answer


async def prepare(connection: Client, names: Names, settings: JetStreamSettings) -> Prepared:
    """Check the servers, and make the streams that are not there yet."""
    checked = await check_servers(settings.monitors, settings.timeout_s, settings.monitor_tls)
    context = connection.jetstream(timeout=settings.timeout_s)
    try:
        await _ensure(context, _state_stream(names, settings))
        await _ensure(context, _entry_stream(names, settings))
        info = await context.stream_info(names.stream)
        await _check_holders(context, names, info, checked)
    except FOREIGN as problem:
        raise _not_opened(problem, names, settings) from problem
    return Prepared(info, checked.silent)


async def raise_limit(context: JetStreamContext, names: Names, settings: JetStreamSettings) -> bool:
    """Raise the limit of a stream that is full, so that confirmations have room; return whether that was possible."""
    config = (await context.stream_info(names.stream)).config
    limit = (config.max_bytes or 0) + settings.upkeep_bytes
    if limit > settings.raised_bytes_max:
        return False
    await context.update_stream(config, max_bytes=limit)
    log.warning("channel %s: its stream is full; its limit is raised to %d bytes for upkeep", names.channel, limit)
    return True


async def lower_limit(context: JetStreamContext, info: api.StreamInfo, settings: JetStreamSettings) -> None:
    """Lower a limit that was raised, once the stream is no larger than it should be."""
    if (info.config.max_bytes or 0) > settings.stream_bytes_max and info.state.bytes <= settings.size_bytes:
        await context.update_stream(info.config, max_bytes=settings.stream_bytes_max)


async def _check_holders(context: JetStreamContext, names: Names, info: api.StreamInfo, checked: Checked) -> None:
    """Check that every copy is on a server that is right, now or when it was last seen; remember those that are."""
    subject = f"{names.state_subject}.servers"
    try:
        found = await context.get_last_msg(names.state_stream, subject)
        remembered = frozenset(msgspec.json.decode(found.data or b"[]", type=list[str]))
    except NotFoundError:
        remembered = frozenset()
    check_copies(holders(info), checked, remembered, names.stream)
    if not checked.names <= remembered:
        await context.publish(subject, msgspec.json.encode(sorted(remembered | checked.names)), stream=names.state_stream)


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
        duplicate_window=REMEMBERED_IDS_S,
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
        duplicate_window=REMEMBERED_IDS_S,
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
        "duplicate_window",
    )
    expected = {key: getattr(wanted, key) for key in essential} | {"max_age": 0, "max_msgs": -1, "persist_mode": None}
    for key, value in expected.items():
        said = getattr(found, key)
        if said != value and not (key == "persist_mode" and said == "default"):
            raise BadSetting(
                f"stream {wanted.name} exists with {key} = {said!r} and needs {value!r}; change it, or use another channel name",
                stream=wanted.name,
            )


def is_led(info: api.StreamInfo, settings: JetStreamSettings) -> bool:
    """Return whether a leader says this that hears a majority of the copies. A copy without a leader answers, too, and a leader
    that is cut off goes on to answer for ten seconds: both may lag behind the others."""
    if info.cluster is None:
        return settings.replicas == 1
    others = info.cluster.replicas or ()
    heard = sum(not peer.offline and (peer.active or 0) <= HEARD_NS for peer in others)
    return bool(info.cluster.leader) and 2 * (1 + heard) > 1 + len(others)


def holders(info: api.StreamInfo) -> list[str]:
    """Return the names of the servers that hold a copy; none where there is only one server."""
    if info.cluster is None:
        return []
    replicas = [peer.name for peer in info.cluster.replicas or ()]
    return [name for name in (info.cluster.leader, *replicas) if name]
