"""The options of the source and the sink, checked before anything is opened.

    both          url, password, timeout
    reads         destinations, match, subscription, selector, format, dataSchema, properties, columns, minPartitions
    streams       maxEventsPerTrigger, maxBytesPerTrigger, minEventsPerTrigger, maxTriggerDelay, startingTime, startingPosition,
                  sync, pollSeconds, onMismatch, failOnDataLoss
    batch reads   startPosition, endPosition, startTime, endTime
    sinks         destination, kind, scope, number, type, source, datacontenttype, priority, ttlSeconds, delaySeconds

Options are small and plain values: they travel to every executor. A password is never part of what they look like in a log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, cast

from holdfast.client import url as urls
from holdfast.client.receiving.receive_options import Match
from holdfast.client.sending.batch_builder import Kind
from holdfast.client.sending.outgoing import MILLISECONDS_MAX
from holdfast.destination import name as names
from holdfast.errors import BadName, BadPattern, BadSelector, BadSetting
from holdfast.event.event import PRIORITY_DEFAULT, PRIORITY_MAX, TYPE_DEFAULT
from holdfast.event.extent import Bounds
from holdfast.event.pattern import Pattern, can_meet
from holdfast.event.selector.selector import parse_optional
from holdfast.spark.columns.schema import FORMATS, PROPERTY_FORMATS, Format, Layout, PropertyFormat
from holdfast.spark.option_reader import OptionReader
from holdfast.spark.sink.rows import RowSettings

TIMEOUT_SECONDS = 60.0
# Spark asks every 10 ms when nothing has come and the query has no trigger interval: the server then answers when something has
# come, or after so long at most.
POLL_SECONDS = 1.0
# The longest that fewer events than `minEventsPerTrigger` are held back; as Kafka's source has it.
TRIGGER_DELAY_SECONDS = 900.0
PARTITIONS_MAX = 4_096
_INT64_MAX = (1 << 63) - 1

_BOTH = ("url", "password", "timeout")
_READS = ("destinations", "match", "subscription", "selector", "format", "dataSchema", "properties", "columns", "minPartitions")
_STREAMS = (
    "maxEventsPerTrigger", "maxBytesPerTrigger", "minEventsPerTrigger", "maxTriggerDelay", "startingTime", "startingPosition",
    "sync", "pollSeconds", "onMismatch", "failOnDataLoss",
)  # fmt: skip
_BATCHES = ("startPosition", "endPosition", "startTime", "endTime")
_SINKS = ("destination", "kind", "scope", "number", "type", "source", "datacontenttype", "priority", "ttlSeconds", "delaySeconds")

# Wildcards, also those of MQTT and AMQP: `Pattern` refuses these, and says what to write.
_WILD = re.compile(r"[*?>#+]")


class Destination(NamedTuple):
    """A destination, or all that a pattern matches."""

    name: str
    match: Match = "name"


def _elsewhere(**uses: tuple[str, ...]) -> dict[str, str]:
    return {name: use.replace("_", " ") for use, names in uses.items() for name in names}


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options that streams and batch reads share."""

    url: str = field(repr=False)
    password: str | None = field(repr=False, default=None)
    timeout: float = TIMEOUT_SECONDS
    destinations: tuple[Destination, ...]
    subscription: str = ""
    selector: str | None = None
    layout: Layout
    partitions_min: int = 1
    shown_url: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """BadSetting, or what else Holdfast says to a bad name, pattern or URL, for options that are not possible."""
        given = OptionReader(options, "a read", (*_BOTH, *_READS, *_STREAMS, *_BATCHES), _elsewhere(writing=_SINKS))
        return cls(**_of_source(given))


@dataclass(frozen=True, kw_only=True)
class StreamOptions(SourceOptions):
    events_max: int | None = None
    bytes_max: int | None = None
    events_min: int | None = None
    trigger_delay_s: float = TRIGGER_DELAY_SECONDS
    starting: Bounds | None = None  # of a new stream: the first event that is read
    sync: float | Literal["local"] = "local"
    poll_seconds: float = POLL_SECONDS
    on_mismatch: Literal["fail", "continue"] = "fail"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        given = OptionReader(options, "a stream", (*_BOTH, *_READS, *_STREAMS), _elsewhere(batch_reads=_BATCHES, writing=_SINKS))
        given.server_url(is_file_possible=False)
        given.required("subscription", "'lake': the server remembers under this name how far the stream has come")
        return cls(
            **_of_source(given),
            events_max=given.whole("maxEventsPerTrigger", 1, _INT64_MAX),
            bytes_max=given.size("maxBytesPerTrigger", 1),
            events_min=_events_min(given),
            trigger_delay_s=given.duration_s("maxTriggerDelay", 0, 86_400, TRIGGER_DELAY_SECONDS),
            starting=_starting(given),
            sync="local" if given.text("sync", "local").lower() == "local" else given.seconds("sync", 0, 86_400, 0),
            poll_seconds=given.seconds("pollSeconds", 0, 60, POLL_SECONDS),
            on_mismatch=_on_mismatch(given),
        )


@dataclass(frozen=True, kw_only=True)
class BatchOptions(SourceOptions):
    """Ranges begin with their start and end before their end; None where there is no such limit."""

    start_position: int | None = None
    end_position: int | None = None
    start_us: int | None = None  # times are those of `accepted_at`
    end_us: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        given = OptionReader(options, "a batch read", (*_BOTH, *_READS, *_BATCHES), _elsewhere(streams=_STREAMS, writing=_SINKS))
        made = cls(
            **_of_source(given),
            start_position=given.whole("startPosition", 0, _INT64_MAX),
            end_position=given.whole("endPosition", 0, _INT64_MAX),
            start_us=given.moment_us("startTime"),
            end_us=given.moment_us("endTime"),
        )
        _check_order("Position", made.start_position, made.end_position)
        _check_order("Time", made.start_us, made.end_us)
        return made


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    url: str = field(repr=False)
    password: str | None = field(repr=False, default=None)
    timeout: float = TIMEOUT_SECONDS
    destination: str | None = None  # of rows that name none
    kind: Kind = "topic"
    scope: str = ""  # what repetitions are told by; "": the query
    number: int = 0  # of a write that is not a stream: one that is not above the last of its scope is a repetition
    type: str = TYPE_DEFAULT
    source: str = ""  # "": that of the client
    datacontenttype: str | None = None
    priority: int = PRIORITY_DEFAULT
    ttl_ms: int | None = None
    delay_ms: int = 0
    shown_url: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        reads = _elsewhere(reading=(*_READS, *_STREAMS, *_BATCHES))
        given = OptionReader(options, "writing", (*_BOTH, *_SINKS), reads)
        url = given.server_url(is_file_possible=False)
        priority = given.whole("priority", 0, PRIORITY_MAX)
        kind: Any = given.choice("kind", ("queue", "topic"), "topic")
        return cls(
            url=url,
            password=given.text("password") or None,
            shown_url=urls.without_password(url),
            timeout=given.seconds("timeout", 0.1, 86_400, TIMEOUT_SECONDS),
            destination=_sent_to(given),
            kind=kind,
            scope=_scope(given),
            number=given.whole("number", 0, _INT64_MAX >> 1) or 0,
            type=given.text("type", TYPE_DEFAULT),
            source=given.text("source"),
            datacontenttype=given.text("datacontenttype") or None,
            priority=PRIORITY_DEFAULT if priority is None else priority,
            ttl_ms=round(given.seconds("ttlSeconds", 0.001, MILLISECONDS_MAX / 1000, 1) * 1000)
            if given.has("ttlSeconds")
            else None,
            delay_ms=round(given.seconds("delaySeconds", 0, MILLISECONDS_MAX / 1000, 0) * 1000),
        )

    def row_settings(self, source: str) -> RowSettings:
        """How rows become events; `source` is that of the client, for where the options name none."""
        return RowSettings(
            source=self.source or source,
            destination=self.destination,
            kind=self.kind,
            type=self.type,
            datacontenttype=self.datacontenttype,
            priority=self.priority,
            ttl_ms=self.ttl_ms,
            delay_ms=self.delay_ms,
        )


# --- shared options ---------------------------------------------------------------------------------------------------


def _of_source(given: OptionReader) -> dict[str, Any]:
    url = given.server_url(is_file_possible=True)
    return {
        "url": url,
        "password": given.text("password") or None,
        "shown_url": urls.without_password(url),
        "timeout": given.seconds("timeout", 0.1, 86_400, TIMEOUT_SECONDS),
        "destinations": _destinations(given),
        "subscription": _subscription(given),
        "selector": _selector(given),
        "layout": _layout(given),
        "partitions_min": given.whole("minPartitions", 1, PARTITIONS_MAX) or 1,
    }


def _destinations(given: OptionReader) -> tuple[Destination, ...]:
    """Names and wildcards, divided by commas; or one regular expression, in which a comma is a comma."""
    text = given.required("destinations", "'orders' or 'alerts.*,orders'")
    match = given.choice("match", ("name", "glob", "regex"), "glob")
    try:
        if match == "regex":
            return (Destination(Pattern.regex(text).text, "regex"),)
        found = tuple(_destination(each.strip(), match) for each in text.split(","))
    except (BadName, BadPattern) as problem:
        raise given.checked("destinations", problem) from None
    _check_apart(found)
    return found


def _destination(text: str, match: str) -> Destination:
    if match == "glob" and _WILD.search(text):
        return Destination(Pattern.glob(text).text, "glob")
    names.check_usable(text)
    names.check_receivable(text)
    return Destination(text)


def _check_apart(destinations: tuple[Destination, ...]) -> None:
    """Refuse a destination that is named twice: it would be read twice."""
    for index, each in enumerate(destinations):
        for other in destinations[:index] + destinations[index + 1 :]:
            if each.name == other.name or (each.match == "name" and other.match == "glob" and _fits(other, each.name)):
                raise BadSetting(
                    f"option destinations: {each.name!r} is meant by {other.name!r} too, and would be read twice; name it once",
                    setting="destinations",
                )
            if each.match == other.match == "glob" and can_meet(each.name, other.name):
                raise BadSetting(
                    f"option destinations: {each.name!r} and {other.name!r} can both mean the same name, which would be read "
                    "twice; use one wider pattern, or two queries with subscriptions of their own",
                    setting="destinations",
                )


def _fits(pattern: Destination, name: str) -> bool:
    return Pattern.glob(pattern.name).matches(name)


def _subscription(given: OptionReader) -> str:
    name = given.text("subscription")
    try:
        if name:
            names.check_subscription(name)
    except BadName as problem:
        raise given.checked("subscription", problem) from None
    return name


def _selector(given: OptionReader) -> str | None:
    text = given.text("selector") or None
    try:
        parse_optional(text)
    except BadSelector as problem:
        raise given.checked("selector", problem) from None
    return text


def _layout(given: OptionReader) -> Layout:
    format = cast("Format", given.choice("format", FORMATS, "binary"))
    columns = tuple(name.strip() for name in given.text("columns").split(",")) if given.has("columns") else None
    properties = cast("PropertyFormat", given.choice("properties", PROPERTY_FORMATS, "text"))
    return Layout.of(columns, format, given.text("dataSchema"), properties)


def _events_min(given: OptionReader) -> int | None:
    least, most = given.whole("minEventsPerTrigger", 1, _INT64_MAX), given.whole("maxEventsPerTrigger", 1, _INT64_MAX)
    if least is not None and most is not None and least > most:
        raise BadSetting(
            f"option minEventsPerTrigger = {least} is more than maxEventsPerTrigger = {most}; exchange them",
            setting="minEventsPerTrigger",
        )
    return least


def _starting(given: OptionReader) -> Bounds | None:
    position, time_us = given.whole("startingPosition", 0, _INT64_MAX), given.moment_us("startingTime")
    if position is None and time_us is None:
        return None
    return Bounds(start_position=position or 0, start_us=time_us or 0)


def _on_mismatch(given: OptionReader) -> Literal["fail", "continue"]:
    """`failOnDataLoss=false` is Kafka's word for `onMismatch=continue`."""
    is_loss_failure = given.choice("failOnDataLoss", ("true", "false"), "true") == "true"
    default = "fail" if is_loss_failure else "continue"
    chosen = given.choice("onMismatch", ("fail", "continue"), default)
    if given.has("failOnDataLoss") and chosen != default:
        raise BadSetting(
            f"options failOnDataLoss and onMismatch = {chosen!r} contradict each other; leave one of them out",
            setting="onMismatch",
        )
    return cast('Literal["fail", "continue"]', chosen)


def _sent_to(given: OptionReader) -> str | None:
    name = given.text("destination") or None
    try:
        if name is not None:
            names.check_usable(name)
            names.check_sendable(name)
    except BadName as problem:
        raise given.checked("destination", problem) from None
    return name


def _scope(given: OptionReader) -> str:
    scope = given.text("scope")
    if bool(scope) != given.has("number"):
        raise BadSetting(
            "options scope and number belong together: whose write this is, and which of its writes; give both or neither",
            setting="number",
        )
    if len(scope) > names.LENGTH_MAX:
        raise BadSetting(f"option scope has {len(scope)} characters and may have {names.LENGTH_MAX}; shorten it", setting="scope")
    return scope


def _check_order(what: str, start: int | None, end: int | None) -> None:
    if start is not None and end is not None and start >= end:
        raise BadSetting(
            f"option start{what} is not before end{what}, so that nothing lies between them; exchange them", setting=f"end{what}"
        )
