"""The arguments of a handler, chosen by their annotations.

    ReceivedEvent, Event    the event itself; also `ReceivedEvent | None`
    Transaction             the transaction of a transactional handler
    Client                  the client of the worker
    anything else           the event's data as that type: a msgspec Struct, a dataclass, a pydantic model, dict, str …
    no annotation, Any      the event's data as it came

A handler has one parameter for the data at most. A signature is read once, when the handler is declared.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import msgspec.inspect

from holdfast.client.client import Client
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.client.transaction import Transaction
from holdfast.errors import BadSetting, TooLarge
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
        name = name_of(function)
        try:
            hints = typing.get_type_hints(_written(function))
            parameters = inspect.signature(function).parameters.values()
        except Exception as problem:
            raise BadSetting(f"the annotations of handler {name} cannot be read: {problem}", setting="handler") from problem
        kinds: list[str] = []
        data_type: Any = Any
        for parameter in parameters:
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                    raise BadSetting(
                        f"nothing fills the keyword-only parameter {parameter.name!r} of handler {name}; give it a default",
                        setting="handler",
                    )
                continue
            kind = _kind(hints.get(parameter.name, Any))
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
            strange = next(_strange(msgspec.inspect.type_info(data_type), set()), None)
        except TypeError as problem:
            raise BadSetting(
                f"handler {name} asks for a type that data cannot be read as: {problem}", setting="handler"
            ) from problem
        if strange is not None:
            raise BadSetting(
                f"handler {name} asks for {getattr(strange, '__name__', strange)}, which data cannot be read as; annotate the "
                "data with a Struct, a dataclass, a pydantic model or a plain type, and give other parameters a default",
                setting="handler",
            )
        return cls(tuple(kinds), data_type)

    def bind(self, event: ReceivedEvent, client: Client, transaction: Transaction | None) -> list[Any]:
        """Return the arguments for one event. Misfit when its data is not of the type asked for."""
        return [
            event if kind == _EVENT else transaction if kind == _TRANSACTION else client if kind == _CLIENT else self._data(event)
            for kind in self.kinds
        ]

    def _data(self, event: ReceivedEvent) -> Any:
        wanted = self.data_type
        validate = getattr(wanted, "model_validate", None)
        try:
            if wanted is Any:
                return event.data
            if validate is not None:  # pydantic
                return validate(event.data)
            if is_json(event.datacontenttype) and len(event.body):  # an event without data has None
                return msgspec.json.decode(event.body, type=wanted, dec_hook=_model)
            return msgspec.convert(event.data, wanted, dec_hook=_model)
        except TooLarge as problem:
            raise Misfit(f"{problem.sentence}: annotate the parameter with ReceivedEvent") from problem
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as problem:
            said = " ".join(str(problem).split())[:400]
            raise Misfit(f"the data does not fit {getattr(wanted, '__name__', wanted)}: {said}") from problem


def name_of(function: Callable[..., Any]) -> str:
    """The name of a handler in sentences."""
    return getattr(_written(function), "__qualname__", repr(function))


def _written(function: Any) -> Any:
    """The function that somebody wrote and annotated: inside of a partial, or the call of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def _kind(annotation: Any) -> str:
    """How a parameter is filled. `ReceivedEvent | None` is a ReceivedEvent."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        found = {_KNOWN[each] for each in typing.get_args(annotation) if each in _KNOWN}
        return found.pop() if len(found) == 1 else _DATA
    return _KNOWN.get(annotation, _DATA)


def _strange(found: Any, seen: set[int]) -> Iterator[Any]:
    """The classes within a type that nothing makes of data."""
    if id(found) in seen:
        return
    seen.add(id(found))
    if isinstance(found, msgspec.inspect.CustomType):
        if found.cls is not object and not hasattr(found.cls, "model_validate"):
            yield found.cls
    elif isinstance(found, tuple | list):
        for each in found:
            yield from _strange(each, seen)
    elif isinstance(found, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in found.__struct_fields__:
            yield from _strange(getattr(found, name), seen)


def _model(kind: Any, value: Any) -> Any:
    """A pydantic model inside of another type, such as a list of them."""
    validate = getattr(kind, "model_validate", None)
    return value if validate is None else validate(value)
