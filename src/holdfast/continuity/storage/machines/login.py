"""The login of clients at a front: by a token that they show as `Authorization: Bearer TOKEN`.

    front has             no token     another token    the token for reading    the token
    no token              all          all              all                      all
    a token               401          401              401                      all
    both                  401          401              GET, HEAD; else 403      all

Certificates of clients are judged before, by TLS. Pure: tokens are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from holdfast.http.protection import has_token

READING = frozenset(("GET", "HEAD"))

Headers = Iterable[tuple[bytes, bytes]]


class Login(NamedTuple):
    token: str = ""
    token_for_reading: str = ""

    def judge(self, method: str, headers: Headers) -> Literal["taken", "unknown", "may not write"]:
        """Whether a request is taken from who shows this."""
        if not self.token or has_token(headers, self.token):
            return "taken"
        if not self.token_for_reading or not has_token(headers, self.token_for_reading):
            return "unknown"
        return "taken" if method in READING else "may not write"
