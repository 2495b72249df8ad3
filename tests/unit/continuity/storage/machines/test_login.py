"""The table of `machines.login`, line by line."""

from __future__ import annotations

import pytest

from holdfast.continuity.storage.machines.login import Login

WRITER, READER = "w" * 16, "r" * 16


def shown(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())] if token else []


@pytest.mark.parametrize("token", ["", "x" * 16, READER, WRITER])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "MOVE", "PATCH"])
def test_a_front_without_a_token_takes_all(method: str, token: str) -> None:
    assert Login().judge(method, shown(token)) == "taken"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "MOVE", "PATCH"])
@pytest.mark.parametrize(
    ("login", "token", "reading", "writing"),
    [
        (Login(WRITER), "", "unknown", "unknown"),
        (Login(WRITER), READER, "unknown", "unknown"),
        (Login(WRITER), WRITER, "taken", "taken"),
        (Login(WRITER, READER), "", "unknown", "unknown"),
        (Login(WRITER, READER), "x" * 16, "unknown", "unknown"),
        (Login(WRITER, READER), READER, "taken", "may not write"),
        (Login(WRITER, READER), WRITER, "taken", "taken"),
    ],
)
def test_a_front_with_tokens_takes_who_shows_them(method: str, login: Login, token: str, reading: str, writing: str) -> None:
    assert login.judge(method, shown(token)) == (reading if method in ("GET", "HEAD") else writing)


def test_a_token_is_shown_as_a_bearer_has_it() -> None:
    for value in (WRITER, f"Basic {WRITER}", f"Bearer {WRITER}x", "Bearer ", "Bearer"):
        assert Login(WRITER).judge("GET", [(b"authorization", value.encode())]) == "unknown"
