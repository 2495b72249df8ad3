"""The arguments of a handler, chosen by their annotations.

    ReceivedEvent, Event    the event itself
    Transaction             the transaction of a transactional handler
    Client                  the client of the worker
    anything else           the event's data as that type: a msgspec Struct, a dataclass, a pydantic model, dict, str …
    no annotation, Any      the event's data as it came

A handler has one parameter for the data at most. A signature is read once, when the handler is declared.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from holdfast.client.client import Client
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.client.transaction import Transaction
from holdfast.errors import BadSetting
from holdfast.event.event import Event, is_json

_EVENT, _TRANSACTION, _CLIENT, _DATA = "event", "transaction", "client", "data"
_KNOWN = {ReceivedEvent: _EVENT, Event: _EVENT, Transaction: _TRANSACTION, Client: _CLIENT}


class Misfit(Exception):
    """The data of an event is not what its handler takes. Another try would find the same."""


class Signature(NamedTuple):
    """What a handler takes, parameter by parameter."""

    kinds: tuple[str, ...]
    data_type: Any

    @property
    def takes_transaction(self) -> bool:
        return _TRANSACTION in self.kinds

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Read a function's parameters. BadSetting where they cannot be filled."""
        name = getattr(function, "__qualname__", repr(function))
        try:
            hints = typing.get_type_hints(function)
        except Exception as problem:
            raise BadSetting(f"the annotations of handler {name} cannot be read: {problem}", setting="handler") from problem
        kinds: list[str] = []
        data_type: Any = Any
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                    raise BadSetting(
                        f"nothing fills the keyword-only parameter {parameter.name!r} of handler {name}; give it a default",
                        setting="handler",
                    )
                continue
            kind = _KNOWN.get(hints.get(parameter.name, Any), _DATA)
            if kind == _DATA and parameter.default is not parameter.empty:
                break  # a parameter of the program's own
            if kind == _DATA and _DATA in kinds:
                raise BadSetting(
                    f"handler {name} has two parameters for the data; {parameter.name!r} is one too many (annotate it with "
                    "ReceivedEvent, Transaction or Client, or give it a default)",
                    setting="handler",
                )
            if kind == _DATA:
                data_type = hints.get(parameter.name, Any)
            kinds.append(kind)
        try:
            msgspec.json.Decoder(data_type)
        except TypeError as problem:
            raise BadSetting(
                f"handler {name} asks for a type that data cannot be read as: {problem}", setting="handler"
            ) from problem
        return cls(tuple(kinds), data_type)

    def bind(self, event: ReceivedEvent, client: Client, transaction: Transaction | None) -> list[Any]:
        """Return the arguments for one event. Misfit when its data is not of the type asked for."""
        return [
            event if kind == _EVENT else transaction if kind == _TRANSACTION else client if kind == _CLIENT else self._data(event)
            for kind in self.kinds
        ]

    def _data(self, event: ReceivedEvent) -> Any:
        wanted = self.data_type
        if wanted is Any:
            return event.data
        validate = getattr(wanted, "model_validate", None)
        try:
            if validate is not None:  # pydantic
                return validate(event.data)
            if is_json(event.datacontenttype) and len(event.body):  # an event without data has None
                return msgspec.json.decode(event.body, type=wanted, dec_hook=_model)
            return msgspec.convert(event.data, wanted, dec_hook=_model)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as problem:
            said = " ".join(str(problem).split())[:400]
            raise Misfit(f"the data does not fit {getattr(wanted, '__name__', wanted)}: {said}") from problem


def _model(kind: Any, value: Any) -> Any:
    """A pydantic model inside of another type, such as a list of them."""
    validate = getattr(kind, "model_validate", None)
    return value if validate is None else validate(value)
