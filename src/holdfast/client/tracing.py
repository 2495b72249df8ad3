"""Tracing: the trace context of OpenTelemetry travels with events, so that producer and recipient are in one trace.

    a span is recording ─▶ send: a span of kind PRODUCER ─▶ property `traceparent` ─▶ processing(event): a span of kind CONSUMER

The names are those of CloudEvents' extension for distributed tracing: `traceparent`, and `tracestate` where there is one. A
program that does not use OpenTelemetry has not imported it: then nothing is looked for, and nothing is added. A `traceparent`
that a program gives an event itself is left as it is; an event that was received and is sent on gets that of the span it is sent
in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.event.event import Event, PropertyValue

if TYPE_CHECKING:
    from opentelemetry.trace import Span

TRACER = "holdfast"
SYSTEM = "holdfast"
# What the server did, by its clock: an event of the recipient's span.
ACCEPTED = "accepted"
CARRIED = ("traceparent", "tracestate")


class Traced(Protocol):
    """A received event."""

    @property
    def properties(self) -> Mapping[str, PropertyValue]: ...

    @property
    def destination(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def position(self) -> int: ...

    @property
    def deliveries(self) -> int: ...

    @property
    def accepted_at(self) -> datetime | None: ...


def is_recording() -> bool:
    """Whether the caller is within a span that is recorded."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and trace.get_current_span().is_recording()


@contextmanager
def sending(destination: str, events: int | None = None) -> Iterator[None]:
    """A span of kind PRODUCER around a send, from the call to the receipt. `events` is given for many at once."""
    from opentelemetry import trace

    attributes: dict[str, Any] = _described(destination, "send")
    if events is not None:
        attributes["messaging.batch.message_count"] = events
    with trace.get_tracer(TRACER).start_as_current_span(
        f"send {destination}", kind=trace.SpanKind.PRODUCER, attributes=attributes
    ):
        yield


@contextmanager
def processing(event: Traced, destination: str | None = None) -> Iterator[Span | None]:
    """Work on a received event within a span of kind CONSUMER, in the trace of who sent it: `with holdfast.processing(event): …`.

    The span says when the server accepted the event. An exception that leaves it is recorded.
    Without OpenTelemetry it does nothing, and gives None.
    """
    if "opentelemetry.trace" not in sys.modules:
        yield None
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    properties, where = event.properties, destination or event.destination
    carrier = {name: value for name in CARRIED if isinstance(value := properties.get(name), str)}
    context = TraceContextTextMapPropagator().extract(carrier) if carrier else None
    attributes = {**_described(where, "process"), "messaging.message.id": event.id}
    with trace.get_tracer(TRACER).start_as_current_span(
        f"process {where}", context=context, kind=trace.SpanKind.CONSUMER, attributes=attributes
    ) as span:
        if event.accepted_at is not None and span.is_recording():
            accepted = {"messaging.holdfast.position": event.position, "messaging.holdfast.deliveries": event.deliveries}
            span.add_event(ACCEPTED, accepted, round(event.accepted_at.timestamp() * 1_000_000) * 1000)
        yield span


def _described(destination: str, operation: str) -> dict[str, str]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": destination,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def carried(data: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event to be sent, with the context of the caller's span. `fields` is returned where it has one."""
    own = data.properties if isinstance(data, Event) else None
    given = fields.get("properties", own)
    if given is not None and (not isinstance(given, Mapping) or CARRIED[0] in given):
        return dict(fields)  # set by the program; or no properties at all, which is refused later
    inherited = dict(data.properties) if given is None and hasattr(data, "as_event") else {}
    return {**fields, "properties": {**inherited, **(given or {}), **_context()}}


def carried_by(events: Iterable[Any], fields: Mapping[str, Any]) -> Iterator[Any]:
    """Many events to be sent with these fields, each with the context of the caller's span."""
    for each in events:
        merged = carried(each, fields)
        if hasattr(each, "as_event"):
            yield each.as_event(**merged)
            continue
        merged.pop("keep_id", None)  # of events that were received
        yield msgspec.structs.replace(each, **merged) if isinstance(each, Event) else Event(data=each, **merged)


def _context() -> dict[str, str]:
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    made = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    return {**made, "tracestate": context.trace_state.to_header()} if context.trace_state else made
