"""Holdfast: an event that was accepted is held fast until everyone it is meant for has confirmed it.

import holdfast

async with holdfast.connect("file:./events") as client:
    orders = client.queue("orders")
    receipt = await orders.send({"sku": 7}, type="order.placed")
    async with orders.receive() as incoming:
        async for event in incoming:
            ...
            await event.confirm()

Programs without a loop use `holdfast.blocking`, which has the same names. What can go wrong is in `holdfast.errors`.

Importing this package loads only what is then used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Damaged, HoldfastError, OutcomeUnknown, Refused, Unavailable

if TYPE_CHECKING:
    from holdfast.client.browser import BrowsedEvent, Browser
    from holdfast.client.client import Client, connect
    from holdfast.client.death import Death
    from holdfast.client.destination import Queue, Topic
    from holdfast.client.large import EventStream
    from holdfast.client.pipeline import Pipeline
    from holdfast.client.receipt import Receipt, Receipts
    from holdfast.client.received import ReceivedEvent
    from holdfast.client.recipient import Incoming
    from holdfast.client.sessions import ClientSession
    from holdfast.client.staging import Published, Stage, Staged
    from holdfast.client.transaction import Transaction
    from holdfast.event.event import Event
    from holdfast.recorder.recorder import Recorder

__version__ = "0.1.0"

__all__ = [
    "BrowsedEvent",
    "Browser",
    "Client",
    "ClientSession",
    "Damaged",
    "Death",
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
    "ReceivedEvent",
    "Recorder",
    "Refused",
    "Stage",
    "Staged",
    "Topic",
    "Transaction",
    "Unavailable",
    "__version__",
    "connect",
]

_WHERE = {
    "BrowsedEvent": "holdfast.client.browser",
    "Browser": "holdfast.client.browser",
    "Client": "holdfast.client.client",
    "ClientSession": "holdfast.client.sessions",
    "connect": "holdfast.client.client",
    "Death": "holdfast.client.death",
    "Event": "holdfast.event.event",
    "EventStream": "holdfast.client.large",
    "Incoming": "holdfast.client.recipient",
    "Pipeline": "holdfast.client.pipeline",
    "Published": "holdfast.client.staging",
    "Queue": "holdfast.client.destination",
    "Receipt": "holdfast.client.receipt",
    "Receipts": "holdfast.client.receipt",
    "ReceivedEvent": "holdfast.client.received",
    "Recorder": "holdfast.recorder.recorder",
    "Stage": "holdfast.client.staging",
    "Staged": "holdfast.client.staging",
    "Topic": "holdfast.client.destination",
    "Transaction": "holdfast.client.transaction",
}


def __getattr__(name: str) -> Any:
    """The client is loaded when it is first asked for, so that a program that only records or reads pays for no more."""
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
