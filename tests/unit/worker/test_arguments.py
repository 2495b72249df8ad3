"""The arguments of a handler: what a signature asks for, and what it cannot."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import typing
import uuid
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.errors import BadSetting
from holdfast.worker.arguments import Signature, name_of


class Color(enum.Enum):
    RED = "red"


class Node(msgspec.Struct):
    color: Color
    id: uuid.UUID
    at: datetime.datetime
    next: Node | None = None


@dataclasses.dataclass
class Tree:
    nodes: list[Node]


class Model:
    """Made as a pydantic model is."""

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        return cls()


class Connection:
    """A thing of the program, which no data can be read as."""


class Called:
    async def __call__(self, number: int) -> None: ...

    def method(self, number: int) -> None: ...


async def takes_two(connection: Connection, number: int) -> None: ...


def annotated(annotation: Any) -> Any:
    def handle(data):  # type: ignore[no-untyped-def]
        return data

    handle.__annotations__ = {"data": annotation}
    return handle


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (holdfast.ReceivedEvent, "event"),
        (holdfast.ReceivedEvent | None, "event"),
        (typing.Optional[holdfast.Client], "client"),  # noqa: UP045 (older programs write it)
        (typing.Annotated[holdfast.ReceivedEvent, "told"], "event"),
    ],
)
def test_a_parameter_for_a_part_of_the_worker_may_be_written_in_every_usual_way(annotation: Any, kind: str) -> None:
    assert Signature.of(annotated(annotation)).kinds == (kind,)


@pytest.mark.parametrize(
    "annotation", [Node, Tree, Model, Model | None, list[Model], dict[str, object], object, collections.abc.Mapping[str, int]]
)
def test_data_of_many_types_can_be_asked_for(annotation: Any) -> None:
    assert Signature.of(annotated(annotation)).data_type == annotation


@pytest.mark.parametrize("annotation", [Connection, list[Connection], dict[str, Connection | None], type])
def test_a_type_that_no_data_can_be_read_as_is_refused_when_the_handler_is_declared(annotation: Any) -> None:
    with pytest.raises(BadSetting, match="which data cannot be read as"):
        Signature.of(annotated(annotation))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Called(), "Called.__call__"),
        (Called().method, "Called.method"),
        (functools.partial(takes_two, Connection()), "takes_two"),
    ],
)
def test_partials_methods_and_objects_that_can_be_called_are_handlers_too(function: Any, name: str) -> None:
    assert Signature.of(function) == (("data",), int)
    assert name_of(function) == name


def test_a_function_without_a_signature_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadSetting, match="cannot be read"):
        Signature.of(int)
