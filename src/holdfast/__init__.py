"""Holdfast: an event that was accepted is held fast until everyone it is meant for has confirmed it.

import holdfast

async with holdfast.connect("file:./events") as client:
    orders = client.queue("orders")
    receipt = await orders.send({"sku": 7}, type="order.placed")
    async with orders.receive() as incoming:
        async for event in incoming:
            ...
            await event.confirm()

Programs without a loop use `holdfast.blocking`, which has the same names. `holdfast.errors` has the errors.

Importing this package loads nothing else: each part is loaded at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from holdfast import errors
from holdfast.errors import Damaged, HoldfastError, OutcomeUnknown, Refused, Unavailable

if _TYPE_CHECKING:
    from holdfast import blocking
    from holdfast.client.assembly.stage import Published, Stage, Staged
    from holdfast.client.client import Client, connect
    from holdfast.client.client_session import ClientSession
    from holdfast.client.description import ClusterStatus, DestinationDescription, Status, SubscriptionDescription
    from holdfast.client.destination import Queue, Topic
    from holdfast.client.program import run
    from holdfast.client.reading.browser import BrowsedEvent, Browser
    from holdfast.client.receipt import Receipt, Receipts
    from holdfast.client.receiving.death import Death
    from holdfast.client.receiving.incoming import Incoming
    from holdfast.client.receiving.large_event import EventStream
    from holdfast.client.receiving.received_batch import ReceivedBatch
    from holdfast.client.receiving.received_event import ReceivedEvent
    from holdfast.client.sending.pipeline import Pipeline
    from holdfast.client.tracing import processing
    from holdfast.client.transaction import Transaction
    from holdfast.event.event import Event
    from holdfast.recorder.recorder import Recorder
    from holdfast.worker.attempt import Reject, Retry
    from holdfast.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "BrowsedEvent",
    "Browser",
    "Client",
    "ClientSession",
    "ClusterStatus",
    "Damaged",
    "Death",
    "DestinationDescription",
    "Event",
    "EventStream",
    "HoldfastError",
    "Incoming",
    "OutcomeUnknown",
    "Pipeline",
    "Published",
    "Queue",
    "Receipt",
    "Receipts",
    "ReceivedBatch",
    "ReceivedEvent",
    "Recorder",
    "Refused",
    "Reject",
    "Retry",
    "Stage",
    "Staged",
    "Status",
    "SubscriptionDescription",
    "Topic",
    "Transaction",
    "Unavailable",
    "Worker",
    "__version__",
    "blocking",
    "connect",
    "errors",
    "processing",
    "run",
]

_WHERE = {
    "BrowsedEvent": "holdfast.client.reading.browser",
    "Browser": "holdfast.client.reading.browser",
    "Client": "holdfast.client.client",
    "ClientSession": "holdfast.client.client_session",
    "ClusterStatus": "holdfast.client.description",
    "connect": "holdfast.client.client",
    "Death": "holdfast.client.receiving.death",
    "DestinationDescription": "holdfast.client.description",
    "Event": "holdfast.event.event",
    "EventStream": "holdfast.client.receiving.large_event",
    "Incoming": "holdfast.client.receiving.incoming",
    "Pipeline": "holdfast.client.sending.pipeline",
    "processing": "holdfast.client.tracing",
    "Published": "holdfast.client.assembly.stage",
    "Queue": "holdfast.client.destination",
    "Receipt": "holdfast.client.receipt",
    "Receipts": "holdfast.client.receipt",
    "ReceivedBatch": "holdfast.client.receiving.received_batch",
    "ReceivedEvent": "holdfast.client.receiving.received_event",
    "Recorder": "holdfast.recorder.recorder",
    "Reject": "holdfast.worker.attempt",
    "Retry": "holdfast.worker.attempt",
    "run": "holdfast.client.program",
    "Stage": "holdfast.client.assembly.stage",
    "Staged": "holdfast.client.assembly.stage",
    "Status": "holdfast.client.description",
    "SubscriptionDescription": "holdfast.client.description",
    "Topic": "holdfast.client.destination",
    "Transaction": "holdfast.client.transaction",
    "Worker": "holdfast.worker.worker",
}


def __getattr__(name: str) -> _Any:
    """Load a part at its first use, so that a program that only records or reads does not load the client."""
    import importlib

    if name == "blocking":
        return importlib.import_module("holdfast.blocking")
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
