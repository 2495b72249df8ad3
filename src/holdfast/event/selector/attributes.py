"""The names of a selector that mean an attribute of the event; any other name is one of its properties.

    id source type subject datacontenttype dataschema       text
    group correlation_id reply_to                           text
    time expires_at                                         whole milliseconds since 1970, UTC
    priority                                                0 to 9
    holdfast_hops holdfast_origin                           how often relays passed it on, and the tag of where that began
    JMSMessageID JMSTimestamp JMSCorrelationID JMSType JMSPriority JMSXGroupID       the same by their names in JMS
    JMSDeliveryMode                                         always 'PERSISTENT'

An attribute wins over a property of the same name. One that an event does not have (a subject, a group, an end of life) is NULL.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The kind of value an expression has, as far as its text tells; in words for people."""

    NUMBER = "a number"
    TEXT = "a text"
    TRUTH = "true or false"
    ANY = "whatever the event has there"
    CONDITION = "a condition"


class Attribute(NamedTuple):
    """`fields` are read from the event's head; `source` is Python over `head`, `source`, `id_number`, `priority` and `trail`."""

    kind: Kind
    source: str
    fields: tuple[str, ...] = ()


def _text(field: str) -> Attribute:
    return Attribute(Kind.TEXT, f"head.{field}", (field,))


_OWN = {
    "id": Attribute(Kind.TEXT, "head.id or to_text(id_number)", ("id",)),
    "source": Attribute(Kind.TEXT, "head.source or source", ("source",)),
    "type": _text("type"),
    "time": Attribute(Kind.NUMBER, "head.time_us // 1000", ("time_us",)),
    "subject": _text("subject"),
    "datacontenttype": _text("datacontenttype"),
    "dataschema": _text("dataschema"),
    "priority": Attribute(Kind.NUMBER, "priority"),
    "group": _text("group"),
    "correlation_id": _text("correlation_id"),
    "reply_to": _text("reply_to"),
    "expires_at": Attribute(Kind.NUMBER, "head.expires_at_ms or None", ("expires_at_ms",)),
}
# Of a batch that relays passed on (`event.hops`). An older release takes these for properties that no event has: NULL, as here if
# nobody passed it on.
_RELAYED = {
    "holdfast_hops": Attribute(Kind.NUMBER, "trail & 255 or None"),
    "holdfast_origin": Attribute(Kind.NUMBER, "trail >> 8 or None"),
}
_JMS = {
    "JMSMessageID": _OWN["id"],
    "JMSTimestamp": _OWN["time"],
    "JMSCorrelationID": _OWN["correlation_id"],
    "JMSType": _OWN["type"],
    "JMSPriority": _OWN["priority"],
    "JMSXGroupID": _OWN["group"],
    "JMSDeliveryMode": Attribute(Kind.TEXT, "'PERSISTENT'"),
}
ATTRIBUTES = _OWN | _RELAYED | _JMS


def unknown_jms_name(name: str) -> str | None:
    """Why a name that looks like JMS's own is refused: as a property it would be NULL for ever, and nobody would notice.

    `JMSX…` and `JMS_…` are properties by the specification.
    """
    if not name.startswith("JMS") or name.startswith(("JMSX", "JMS_")) or name in ATTRIBUTES:
        return None
    return f"{name} cannot be selected by; of JMS's names there are {', '.join(_JMS)}"
