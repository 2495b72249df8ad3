from __future__ import annotations

import pytest

from holdfast.node.delivering import congestion
from holdfast.node.delivering.congestion import Congestion


def none_attached() -> set[str]:
    return set()


def test_a_session_is_passed_over_while_its_link_or_its_client_manager_is_congested() -> None:
    noted = Congestion()
    noted.note_session("ann", True, none_attached)
    noted.note_client_manager("client_manager.a1", True)

    assert noted.is_passed_over("ann", "client_manager.b2")
    assert noted.is_passed_over("bob", "client_manager.a1")
    assert noted.is_passed_over("bob", "client_manager.a1.orders")
    assert not noted.is_passed_over("bob", "client_manager.a12")
    assert not noted.is_passed_over("bob", "")

    noted.note_session("ann", False, none_attached)
    noted.note_client_manager("client_manager.a1", False)
    assert not noted.is_passed_over("ann", "client_manager.a1")


def test_sessions_that_are_gone_are_forgotten_when_many_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congestion, "SESSIONS_MAX", 2)
    noted = Congestion()
    for session in ("ann", "bob", "eve"):
        noted.note_session(session, True, lambda: {"bob", "eve"})

    assert [noted.is_passed_over(session, "") for session in ("ann", "bob", "eve")] == [False, True, True]
