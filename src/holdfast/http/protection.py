"""Protection: who may look at a server over HTTP, and where it may listen.

    users on                    a token file is required
    listening to other machines a token file and TLS are required, unless --insecure
    no token                    everyone who can reach the address may look

Health is answered without the token, as `ok` or `not ready` and nothing else: orchestrators have no place for a secret.
"""

from __future__ import annotations

import hmac
import stat
from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import BadSetting
from holdfast.node.login.security import Security, is_loopback

TOKEN_LENGTH_MIN = 16
TOKEN_LENGTH_MAX = 1024


def check(host: str, token_file: Path | None, security: Security, *, has_users: bool = False) -> None:
    """BadSetting for a server that would show itself to those who may not see it. `has_users`: it has those of its cluster."""
    if (security.users is not None or has_users) and token_file is None:
        raise BadSetting(
            "a server with users shows its figures only to those who have a token; give --http-token-file, or leave out --http"
        )
    if not (is_loopback(host) or security.is_insecure or (token_file and security.certificate)):
        raise BadSetting(
            f"--http {host} lets other machines in; give --http-token-file, --tls-certificate and --tls-key, use 127.0.0.1, or "
            "say --insecure if everyone who can reach it may see the names of destinations and their figures"
        )


def read_token(path: Path) -> str:
    """The token in a file that nobody else may read. BadSetting says what is wrong, without the token."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise BadSetting(f"the token file {path} cannot be read ({reason}); write a token of your choice into it") from problem
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadSetting(f"other users of this machine may read or change the token file {path}; do: chmod 600 {path}")
    token = text.strip()
    if not TOKEN_LENGTH_MIN <= len(token) <= TOKEN_LENGTH_MAX or not token.isascii() or len(token.split()) != 1:
        raise BadSetting(
            f"the token file {path} holds no good token: one word of {TOKEN_LENGTH_MIN} to {TOKEN_LENGTH_MAX} ASCII characters, "
            "such as `openssl rand -hex 32` prints"
        )
    return token


def has_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Whether a request has the token, as `Authorization: Bearer TOKEN`. The comparison takes equally long for all tokens."""
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, shown = given.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), token.encode())
