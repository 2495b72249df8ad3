"""The cluster's channel: a NATS JetStream stream, which somebody else has already made replicated and durable.

    channel      the contract, put together from the parts below
    appender     commands out, in order, in a window; acknowledgements in
    reader       entries in, from any number on; a gap that nobody made is damage
    snapshots    chunks in a stream of their own, and one message that makes them whole
    room         how full the stream is, and who is still let in
    durability   refuses a server that acknowledges before it has synced
    stream       the connection, and the streams as they must be configured
    trouble      what NATS says went wrong, in our words

Only this folder imports `nats` (the extra `cluster`).
"""

from holdfast.channel.jetstream.channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings

__all__ = ["JetStreamChannel", "JetStreamSettings"]
