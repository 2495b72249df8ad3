"""E6: producer and recipient are in one trace of OpenTelemetry, whatever lies between them."""

# ruff: noqa: F811 (fixtures are named as they are imported)

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.worker.attempt import Reject
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.waiting import until

# A program has one provider, which can be set once.
EXPORTER = InMemorySpanExporter()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


@contextmanager
def request() -> Iterator[None]:
    with trace.get_tracer("the program").start_as_current_span("request"):
        yield


def named(spans: InMemorySpanExporter, what: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == what]


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert span.context is not None and parent.context is not None and span.parent is not None
    return (span.parent.span_id, span.context.trace_id) == (parent.context.span_id, parent.context.trace_id)


async def first(client: Client, queue: str) -> Any:
    async with client.queue(queue).receive() as incoming:
        event = await incoming.next()
        await event.confirm()
        return event


async def test_producer_and_recipient_are_in_one_trace(spans: InMemorySpanExporter, url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with request():
            await client.queue(name).send({"sku": 7}, properties={"colour": "red"})
        event = await first(client, name)
        with holdfast.processing(event, name):
            pass

    (asked,), (sent,), (processed,) = (named(spans, each) for each in ("request", f"send {name}", f"process {name}"))
    assert is_child(sent, asked) and is_child(processed, sent)
    assert (sent.kind, processed.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert (event.data, event.properties["colour"]) == ({"sku": 7}, "red")
    assert sent.attributes is not None and sent.attributes["messaging.destination.name"] == name
    assert processed.attributes is not None and processed.attributes["messaging.message.id"] == event.id
    (accepted,) = processed.events
    assert accepted.attributes is not None
    assert (accepted.name, accepted.attributes["messaging.holdfast.position"]) == ("accepted", event.position)
    assert event.accepted_at is not None and accepted.timestamp == round(event.accepted_at.timestamp() * 1e6) * 1000


async def test_every_way_of_sending_carries_the_trace(spans: InMemorySpanExporter, url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        with request():
            await queue.send("one")
            await queue.try_send("tried")
            await queue.send_many([b"of many", {"of": "many"}, holdfast.Event(data="an event", properties={"colour": "red"})])
            async with queue.pipeline() as pipeline:
                await pipeline.send(b"in a pipeline")
            async with client.transaction() as transaction:
                await transaction.queue(name).send("in a transaction")
            await queue.send_stream(b"a stream")
        events = [await first(client, name) for _ in range(8)]

    (asked,), (many,) = (
        named(spans, "request"),
        [span for span in named(spans, f"send {name}") if span.attributes and "messaging.batch.message_count" in span.attributes],
    )
    assert asked.context is not None and many.attributes is not None
    traces = [str(event.properties["traceparent"]).split("-")[1] for event in events]
    assert traces == [f"{asked.context.trace_id:032x}"] * 8
    assert many.attributes["messaging.batch.message_count"] == 3
    assert [event.properties.get("colour") for event in events].count("red") == 1


async def test_an_event_sent_on_goes_on_in_the_span_that_sends_it(
    spans: InMemorySpanExporter,
    url: str,
    name: str,
) -> None:
    async with holdfast.connect(url) as client:
        with request():
            await client.queue(name).send("work", properties={"colour": "red"})
        event = await first(client, name)
        with holdfast.processing(event, name):
            await client.queue(f"{name}.next").send(event)
        later = await first(client, f"{name}.next")

    (processed,), (sent_on,) = named(spans, f"process {name}"), named(spans, f"send {name}.next")
    assert is_child(sent_on, processed)
    assert sent_on.context is not None
    assert str(later.properties["traceparent"]).split("-")[2] == f"{sent_on.context.span_id:016x}"
    assert later.properties["colour"] == "red"


async def test_a_context_that_the_program_sets_itself_is_left_as_it_is(
    spans: InMemorySpanExporter,
    url: str,
    name: str,
) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with holdfast.connect(url) as client:
        with request():
            await client.queue(name).send("plain", properties={"traceparent": own})
            await client.queue(name).send(holdfast.Event(data="event", properties={"traceparent": own}))
        events = [await first(client, name) for _ in range(2)]

    assert [event.properties["traceparent"] for event in events] == [own, own]


async def test_where_no_span_is_recording_nothing_is_added(spans: InMemorySpanExporter, url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("plain")
        event = await first(client, name)

    assert dict(event.properties) == {}
    assert spans.get_finished_spans() == ()


async def test_a_context_that_is_no_context_begins_a_trace_of_its_own(
    spans: InMemorySpanExporter,
    url: str,
    name: str,
) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("plain", properties={"traceparent": "nonsense", "tracestate": 7})
        event = await first(client, name)
        with holdfast.processing(event, name):
            pass

    (processed,) = named(spans, f"process {name}")
    assert processed.parent is None


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_handlers_of_a_worker_run_within_the_span_of_their_event(
    spans: InMemorySpanExporter,
    url: str,
    name: str,
    is_transactional: bool,
) -> None:
    worker, seen = Worker(url), []

    @worker.queue(name, transactional=is_transactional)
    async def handle(data: str) -> None:
        seen.append(trace.get_current_span().get_span_context())

    @worker.queue(f"{name}.plain")
    def handle_in_thread(data: str) -> None:
        seen.append(trace.get_current_span().get_span_context())

    async with worker:
        with request():
            await worker.client.queue(name).send("async")
            await worker.client.queue(f"{name}.plain").send("in a thread")
        await until(lambda: named(spans, f"process {name}") and named(spans, f"process {name}.plain"), "both were handled")

    for queue in (name, f"{name}.plain"):
        (sent,), (processed,) = named(spans, f"send {queue}"), named(spans, f"process {queue}")
        assert is_child(processed, sent)
        assert processed.context in seen


async def test_a_handler_that_fails_is_recorded_in_its_span(spans: InMemorySpanExporter, url: str, name: str) -> None:
    worker = Worker(url)

    @worker.queue(name)
    async def handle(data: str) -> None:
        raise Reject("never")

    async with worker:
        with request():
            await worker.client.queue(name).send("bad")
        await until(lambda: named(spans, f"process {name}"), "it was handled")

    (processed,) = named(spans, f"process {name}")
    assert processed.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in processed.events] == ["accepted", "exception"]


def test_the_blocking_client_carries_the_trace_too(spans: InMemorySpanExporter) -> None:
    with holdfast.blocking.connect("memory:") as client:
        with request():
            client.queue("orders").send("one")
        with client.queue("orders").receive() as incoming, holdfast.processing(incoming.next(), "orders"):
            pass

    (asked,), (sent,), (processed,) = (named(spans, each) for each in ("request", "send orders", "process orders"))
    assert is_child(sent, asked) and is_child(processed, sent)


def test_a_client_never_imports_opentelemetry_by_itself() -> None:
    program = """
import sys, holdfast, holdfast.blocking
with holdfast.blocking.connect("memory:") as client:
    client.queue("orders").send(1)
    with client.queue("orders").receive() as incoming, holdfast.processing(incoming.next()) as span:
        assert span is None
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("[]\n", "")
