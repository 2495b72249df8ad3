"""Which message managers an action of administration is for (ADR 22)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.node import places_file
from holdfast.node.administration import arguments
from holdfast.node.administration.routing import route

ALL = ("m1", "m2")
OWN = "m2"


def never(problem: HoldfastError) -> None:
    raise problem


def routed(action: str, **given: Any) -> Sequence[str]:
    table = places_file.open_table(ALL, [("there", "m2"), ("new", "m2")])
    table.reserve("there", lambda manager: None, never)
    told: list[Sequence[str]] = []
    route(table, OWN, action, arguments.read(action, given), told.append, never)
    (managers,) = told
    return tuple(managers)


@pytest.mark.parametrize(
    ("action", "given", "managers"),
    [
        ("describe", {"name": "there"}, ("m2",)),
        ("describe", {"name": "nowhere"}, ("m1",)),
        ("describe", {"name": "_LOG"}, ("m1",)),
        ("describe", {"name": "_DMQ"}, ALL),
        ("delete", {"name": "there"}, ("m2",)),
        ("delete", {"name": "_temporary.m2/7-secret"}, ("m2",)),
        ("create", {"name": "new", "kind": "queue"}, ("m2",)),
        ("subscribe", {"topic": "new", "name": "audit"}, ("m2",)),
        ("subscribe", {"topic": "a.*", "match": "glob", "name": "audit"}, ALL),
        ("unsubscribe", {"topic": "a.*", "match": "glob", "name": "audit"}, ALL),
        ("list", {}, ALL),
        ("all_subscriptions", {}, ALL),
        ("status", {}, ALL),
        ("extent", {"topic": "there", "subscription": "lake"}, (OWN,)),
        ("temporary", {"kind": "queue"}, (OWN,)),
        ("drop_stages", {"names": ["a"]}, (OWN,)),
    ],
)
def test_an_action_goes_where_it_can_be_carried_out(action: str, given: dict[str, Any], managers: tuple[str, ...]) -> None:
    assert routed(action, **given) == managers
