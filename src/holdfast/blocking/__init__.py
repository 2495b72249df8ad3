"""The plain twin of the client, for programs without a loop: the same names, the same arguments, nothing to await.

    with holdfast.blocking.connect("file:./events") as client:
        client.queue("orders").send({"sku": 7})
        with client.queue("orders").receive() as incoming:
            for event in incoming:
                event.confirm()

Any thread may use a client; one thread at a time uses a receiver or a pipeline. The docstring of each call is that of its twin.
"""

from holdfast.blocking.client import Client, Stage, connect
from holdfast.blocking.client_session import ClientSession
from holdfast.blocking.destination import Destination, Pipeline, Queue, Topic
from holdfast.blocking.incoming import Incoming, ReceivedBatch, ReceivedEvent
from holdfast.blocking.reading import Browser, Reading

__all__ = [
    "Browser",
    "Client",
    "ClientSession",
    "Destination",
    "Incoming",
    "Pipeline",
    "Queue",
    "Reading",
    "ReceivedBatch",
    "ReceivedEvent",
    "Stage",
    "Topic",
    "connect",
]
