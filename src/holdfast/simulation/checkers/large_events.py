"""Large events: each arrives as it was sent, or not at all (B13).

unharmed         the content that is read is the one that was sent under that name, by its SHA-256
never in part    nothing is seen of an event that was given up on the way
nothing lost     an accepted event is seen
"""

from __future__ import annotations

import hashlib


class LargeEvents:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._digests: dict[str, bytes] = {}
        self._accepted: set[str] = set()
        self._given_up: set[str] = set()
        self.seen: set[str] = set()

    def sending(self, name: str, content: bytes) -> None:
        self._digests[name] = hashlib.sha256(content).digest()

    def accepted(self, name: str) -> None:
        self._accepted.add(name)

    def given_up(self, name: str) -> None:
        """Note that its producer broke off in the middle, and heard that nothing of it is left."""
        self._given_up.add(name)

    def read(self, name: str, content: bytes) -> None:
        self.seen.add(name)
        if name in self._given_up:
            self.problems.append(f"{name} was given up on the way, and {len(content)} bytes of it arrived")
        elif self._digests.get(name) != hashlib.sha256(content).digest():
            self.problems.append(f"{name} arrived with {len(content)} bytes that are not what was sent")

    @property
    def missing(self) -> set[str]:
        return self._accepted - self.seen

    def broken(self) -> list[str]:
        return [*self.problems, *(f"{name} was accepted and never arrived" for name in sorted(self.missing))]
