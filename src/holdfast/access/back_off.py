"""The back-off: how long a failed login takes. It grows with each failure from the same address.

    failures in a row   1    2    3    4    5 and more
    seconds             1    2    4    8    8

Every attempt is checked soon, so that a right password never waits for the failures of a neighbour. Only the answer to a wrong
password is held back. An address may have only a few attempts under way at once, held answers included. Together they bound how
fast an address can guess: `UNDER_WAY_MAX` guesses in `DELAY_S_MAX` seconds. Failures are forgotten with time, not after a right
password: otherwise a user could guess the password of another at full speed.

Pure: the caller brings the time.
"""

from __future__ import annotations

DELAY_S_MIN = 1.0
DELAY_S_MAX = 8.0
# Attempts of one address that are being verified or whose refusal is held back.
UNDER_WAY_MAX = 4
# The same, of all addresses together.
UNDER_WAY_TOTAL_MAX = 500
# After so long without a failure, an address starts again with the shortest delay.
FORGOTTEN_AFTER_S = 60.0
# Addresses whose failures are remembered. With more, the one that failed longest ago is forgotten.
ADDRESSES_MAX = 10_000


class BackOff:
    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}  # count and time of the last, in order of the last
        self._under_way: dict[str, int] = {}
        self._total = 0

    def may_begin(self, address: str) -> bool:
        return self._under_way.get(address, 0) < UNDER_WAY_MAX and self._total < UNDER_WAY_TOTAL_MAX

    def begin(self, address: str) -> None:
        self._total += 1
        self._under_way[address] = self._under_way.get(address, 0) + 1

    def end(self, address: str) -> None:
        self._total -= 1
        left = self._under_way[address] - 1
        if left:
            self._under_way[address] = left
        else:
            del self._under_way[address]

    def failed(self, address: str, now_s: float) -> float:
        """Count a failed login; return how many seconds its attempt takes in all."""
        count, at_s = self._failures.pop(address, (0, now_s))
        count = 1 if now_s - at_s > FORGOTTEN_AFTER_S else count + 1
        if len(self._failures) >= ADDRESSES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = (count, now_s)
        return min(DELAY_S_MIN * 2.0 ** min(count - 1, 10), DELAY_S_MAX)
