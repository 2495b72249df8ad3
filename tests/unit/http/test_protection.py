"""Who may look at a server over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import BadSetting
from holdfast.http.protection import check, has_token, read_token
from holdfast.node.login.security import Security

TOKEN = "0123456789abcdef"
USERS, CERTIFICATE, KEY, FILE = map(Path, ("users.toml", "server.pem", "server.key", "token"))


def test_a_server_with_users_needs_a_token() -> None:
    with pytest.raises(BadSetting, match="--http-token-file"):
        check("127.0.0.1", None, Security(users=USERS))
    check("127.0.0.1", FILE, Security(users=USERS))


@pytest.mark.parametrize(
    ("token_file", "security"),
    [(None, Security()), (FILE, Security()), (None, Security(certificate=CERTIFICATE, key=KEY))],
)
def test_other_machines_are_let_in_with_token_and_tls_only(token_file: Path | None, security: Security) -> None:
    with pytest.raises(BadSetting, match="lets other machines in"):
        check("0.0.0.0", token_file, security)
    check("0.0.0.0", FILE, Security(certificate=CERTIFICATE, key=KEY))
    check("0.0.0.0", None, Security(is_insecure=True))


def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o640)

    with pytest.raises(BadSetting, match="chmod 600"):
        read_token(file)

    file.chmod(0o600)
    assert read_token(file) == TOKEN


@pytest.mark.parametrize("text", ["", "short", "two words of a token", "ü" * 20, "x" * 2000])
def test_a_bad_token_is_refused_without_being_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(text)

    with pytest.raises(BadSetting, match="no good token") as refused:
        read_token(file)

    assert not text or text not in str(refused.value)


def test_a_token_file_that_is_missing_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"token.*No such file"):
        read_token(tmp_path / "token")


@pytest.mark.parametrize(
    ("header", "is_right"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"Bearer {TOKEN}x", False),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        ("Bearer ", False),
        ("", False),
    ],
)
def test_a_token_is_shown_as_a_bearer(header: str, is_right: bool) -> None:
    assert has_token([(b"host", b"here"), (b"authorization", header.encode())], TOKEN) is is_right
    assert not has_token([], TOKEN)
