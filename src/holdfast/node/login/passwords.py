"""Passwords: hashed for the users file, and verified away from the loop.

Argon2id with 19 MiB, two passes, one lane: the first choice of OWASP's password storage cheat sheet, some 40 ms of one core. Two
verifications at most run at once, so that logins never take more than 40 MiB and never the whole machine. A thousand clients that
come back after a restart are through in 20 s; a client that must not wait for that logs in by certificate. A hash says itself
what it needs: a users file may have stronger ones.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from argon2 import PasswordHasher

VERIFIED_AT_ONCE_MAX = 2
LENGTH_MAX = 1_024
# Below everything else in this process: a flood of logins takes only processor time that is left.
NICENESS = 10
# The hash of 32 random bytes. A login of an unknown user is verified against it, so that it takes as long as any other.
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$Sm1O0oUpL9AGHnwUPlYLZA$Hw6NU3Lo3n9f4xIoz3ViZhG96N0RXD42FUyjB/iXMfc"


@cache
def _hasher() -> PasswordHasher:
    """Loaded when the first password comes: a node without users does not pay for it."""
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19 << 10, parallelism=1)


def hashed(password: str) -> str:
    """The hash of a password, for the users file. BadSetting for a password that could never be used to log in."""
    if not password or len(password) > LENGTH_MAX:
        raise BadSetting(f"a password has 1 to {LENGTH_MAX} characters; choose another")
    return _hasher().hash(password)


class Verifier:
    """Verifies passwords in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(VERIFIED_AT_ONCE_MAX, "password", initializer=_give_way)

    async def is_right(self, stored: str, password: str) -> bool:
        """Whether a password is right. None is right for the hash "", which nobody has, but that takes as long to find out."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _is_right, stored, password)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_right(stored: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        is_right = _hasher().verify(stored or NOBODY, password[:LENGTH_MAX])
    except (VerificationError, InvalidHashError):
        return False
    return is_right and bool(stored) and len(password) <= LENGTH_MAX


def _give_way() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
