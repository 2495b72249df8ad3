"""Asks and outcomes as events."""

from __future__ import annotations

import pytest

from holdfast.continuity.effects.carrier_turn import current_of
from holdfast.continuity.effects.effect_events import (
    Ask,
    Outcome,
    decode_ask,
    decode_outcome,
    encode,
    identity_of,
    outcome_fields,
)
from holdfast.continuity.machines.effects import Identity, Result

EFFECT = Identity("a.b-1", b"\x01" * 16, 2)


def test_an_ask_and_an_outcome_come_back_as_they_were() -> None:
    ask = Ask(EFFECT, "one", "turn", "exchange", "POST", "/orders", [(b"a", b"b")], b"body", True)
    outcome = Outcome(EFFECT, "result", Result(201, [(b"a", b"b")], b"body"))

    assert decode_ask(encode(ask)) == ask
    assert decode_outcome(encode(outcome)) == outcome


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01\x02\x03"])
def test_an_event_that_is_neither_is_refused_with_an_error_of_value(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_ask(data)
    with pytest.raises(ValueError):
        decode_outcome(data)


def test_notes_for_those_who_wait_are_not_kept() -> None:
    kept = [kind for kind in ("begun", "result", "not done", "again", "refused") if not _passes(kind)]

    assert kept == ["begun", "result", "not done"]


def _passes(kind: str) -> bool:
    return "properties" in outcome_fields(Outcome(EFFECT, kind))  # type: ignore[arg-type]


def test_a_key_names_its_effect() -> None:
    assert identity_of(EFFECT.key) == EFFECT
    with pytest.raises(ValueError, match="no key of an effect"):
        identity_of("order-7")


def test_servers_that_catch_up_count_only_while_none_is_current() -> None:
    def described(**states: str) -> list[dict[str, str]]:
        return [{"part": "listener", "role": "server", "name": name, "state": state} for name, state in states.items()]

    shadow = {"part": "listener", "role": "shadow", "name": "s", "state": "current"}

    assert current_of([*described(a="current", b="joining"), shadow]) == ["a"]
    assert current_of([*described(a="behind", b="joining", c="rebuilding", d="drained"), shadow]) == ["a", "b"]
    assert current_of([shadow, {"part": "engine", "name": "e"}]) == []
