"""The event encoder turns many events into runs, each about as long as a batch, which a pipeline or a transaction takes at once.

    events ─▶ run of events of one priority ─▶ event that cannot join it ─▶ run …

Each event is encoded before the next is taken from the program: a dict that is used again for the next event stays right. Fields
for all are checked once, and heads come from templates. What no template fits is prepared as a single send would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import time_ns
from typing import Any, cast

import msgspec

from holdfast.client.sending.batch_builder import BATCH_BYTES, EVENT_BYTES
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.head_template import HeadTemplate
from holdfast.client.sending.outgoing import EventFields, Outgoing, OwnFields, prepare
from holdfast.errors import BadEvent, TooLarge
from holdfast.event.event import (
    BINARY,
    JSON,
    PRIORITY_DEFAULT,
    TEXT,
    Event,
    encode_data,
    encode_json,
    is_json,
    to_microseconds,
)

# Templates that are kept for `Event`s of different fields. Where each event has other fields, templates do not pay.
TEMPLATES_MAX = 64

_JSON_TYPES = frozenset((dict, list, int, float, bool))
# Fields for all that no template of plain data has: they count from when an event is sent, or are of received events.
_WITHOUT_TEMPLATE = ("time", "ttl_ms", "delay_ms", "keep_id")

# An earlier time, within an hour or so of 1970, takes fewer bytes in a head than templates have for it.
_TIME_US_MIN = 1 << 32

Portion = EncodedRun | Outgoing


class EventEncoder:
    def __init__(self, fields: EventFields, now_ms: Callable[[], int]) -> None:
        """`fields` are those of all events; `now_ms` tells the server's time. BadEvent if no event can have these fields."""
        if fields.get("id") is not None:
            raise BadEvent("id names one event, and send_many sends many; give each its own: Event(data=…, id=…)", field="id")
        if fields and "keep_id" not in fields:
            prepare(None, fields, now_ms)
        self._fields = fields
        self._now_ms = now_ms
        self._priority = fields.get("priority", PRIORITY_DEFAULT)
        self._templates: dict[object, HeadTemplate] = {}
        given = fields.get("datacontenttype")
        self._plain = [self._plain_template(given or usual) for usual in (BINARY, TEXT, JSON)]
        self._encode_text = self._encode_json_text if given is not None and is_json(given) else str.encode
        self._packed = bytearray()  # room for `encode_json`
        self._run = self._new_run()
        self._single: Outgoing | None = None  # an event that comes after the run, alone
        self._before = 0  # how many events came before the run
        self._is_finished = False

    def _plain_template(self, datacontenttype: str) -> HeadTemplate | None:
        """The template of data with the fields for all, if they allow one."""
        if any(name in self._fields for name in _WITHOUT_TEMPLATE):
            return None
        fields = cast(OwnFields, {**self._fields, "datacontenttype": datacontenttype})
        made = HeadTemplate(Event(**fields))
        return made if made.size < BATCH_BYTES else None  # with such a head, each event is a batch of its own

    def _new_run(self) -> EncodedRun:
        run = EncodedRun(self._priority)
        run.has_groups = self._fields.get("group") is not None
        return run

    def portions(self, events: Iterable[Any]) -> Iterator[Portion]:
        """Encode the events, in order: a portion when it is asked for, never more.

        BadEvent or TooLarge, with its index, for an event that cannot be sent; or what the program raises when it is asked for
        an event. All events before it are in the portions before it.
        """
        source = iter(events)
        while not self._is_finished:
            problem = None
            try:
                self._take(source)
            except BaseException as raised:
                problem = raised
            run, single = self._run, self._single
            self._run, self._single = self._new_run(), None
            del run.bodies[len(run.heads) :]  # of an event that was not finished
            self._before += len(run.heads) + (single is not None)
            if run.heads:
                yield run
            if problem is not None:
                raise problem
            if single is not None:
                yield single

    def _take(self, source: Iterator[Any]) -> None:
        """Fill the run until it is as long as a batch, or an event cannot join it, or none is left."""
        run, packed, encode_text = self._run, self._packed, self._encode_text
        add_head, add_body = run.heads.append, run.bodies.append
        binary, text, json = self._plain
        size = 0
        try:
            for data in source:
                kind = type(data)
                try:
                    if kind is bytes:
                        body, template = data, binary
                    elif kind in _JSON_TYPES:
                        body, template = encode_json(data, packed), json
                    elif kind is str:
                        body, template = encode_text(data), text
                    else:
                        template = None
                except Exception:  # what is wrong with it, a single send tells
                    template = None
                if template is not None and len(body) < BATCH_BYTES:
                    add_body(body)
                    add_head(template.pack(template.before, time_ns() // 1000, template.after))
                    size += len(body) + template.size
                else:
                    size += self._add_other(data)
                if size >= BATCH_BYTES:
                    return
        finally:
            run.size = size
        self._is_finished = True

    def _encode_json_text(self, text: str) -> bytes:
        return encode_json(text, self._packed)

    def _add_other(self, data: Any) -> int:
        """Add an event by a template of its own, or as a single send prepares it. Return how much longer the run is: as long as
        a batch, if the event cannot join it."""
        run = self._run
        if type(data) is not Event or not self._add_event(data):
            event = self._prepared(data)
            if event.priority != self._priority or event.delay_ms or event.size >= BATCH_BYTES:
                self._single = event
                return BATCH_BYTES
            run.add(event)
        return len(run.heads[-1]) + len(run.bodies[-1]) + EVENT_BYTES

    def _add_event(self, event: Event) -> bool:
        """Add an `Event` by the template of its fields. False: there is none for it, and nothing was added."""
        run = self._run
        try:
            if self._fields:
                event = msgspec.structs.replace(event, **cast(OwnFields, self._fields))
            if event.priority != self._priority or event.delay_ms or event.ttl_ms is not None:
                return False
            datacontenttype = event.datacontenttype
            if datacontenttype is None and type(event.data) is dict:
                body, datacontenttype = encode_json(event.data, self._packed), JSON
            else:
                body, datacontenttype = encode_data(event.data, datacontenttype)
            key = (
                datacontenttype, event.type, event.source, event.subject, event.dataschema, event.group, event.correlation_id,
                event.reply_to,
            )  # fmt: skip
            template = self._templates.get(key) or self._new_template(key, event, datacontenttype)
            if template is None:
                return False
            time, id, properties = event.time, event.id, event.properties
            time_us = time_ns() // 1000 if time is None else to_microseconds(time)
            if time_us < _TIME_US_MIN:
                return False
            if id is None and properties is None:
                head = template.pack(template.before, time_us, template.after)
            elif (id is None or (type(id) is str and id)) and (properties is None or type(properties) is dict):
                head = template.head_with(time_us, id, properties)
            else:
                return False
        except Exception:  # what is wrong with it, a single send tells
            return False
        if len(head) + len(body) >= BATCH_BYTES:
            return False
        if id is not None:
            run.ids[len(run.heads)] = id
        if template.has_group:
            run.has_groups = True
        run.bodies.append(body)
        run.heads.append(head)
        return True

    def _new_template(self, key: object, event: Event, datacontenttype: str) -> HeadTemplate | None:
        if len(self._templates) >= TEMPLATES_MAX:
            return None
        like = msgspec.structs.replace(event, datacontenttype=datacontenttype, properties=None)
        made = self._templates[key] = HeadTemplate(like)
        return made

    def _prepared(self, data: Any) -> Outgoing:
        try:
            return prepare(data, self._fields, self._now_ms)
        except (BadEvent, TooLarge) as problem:
            index = self._before + len(self._run.heads)
            sentence = f"event {index} of send_many, counted from 0: {problem.sentence}"
            raise type(problem)(sentence, **{**problem.fields, "index": index}) from problem
