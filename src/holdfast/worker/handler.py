"""A handler: a function, the destination it works for, and how it is to be tried."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import BadSetting
from holdfast.worker.arguments import Signature, name_of
from holdfast.worker.retry import RetryPolicy

CONCURRENCY_MAX = 10_000


@dataclass(frozen=True)
class Handler:
    function: Callable[..., Any]
    destination: str
    kind: str  # queue or topic
    concurrency: int
    retry: RetryPolicy
    timeout_s: float | None
    is_transactional: bool
    options: dict[str, Any] = field(default_factory=dict)  # of receive or subscribe
    dice: Callable[[], float] = random.random  # for the jitter of pauses
    signature: Signature = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", Signature.of(self.function))
        concurrency, timeout_s = self.concurrency, self.timeout_s
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or not 1 <= concurrency <= CONCURRENCY_MAX:
            raise BadSetting(
                f"concurrency={concurrency!r} of handler {self.name} is not a number from 1 to {CONCURRENCY_MAX:,}",
                setting="concurrency",
            )
        if timeout_s is not None and (not isinstance(timeout_s, int | float) or not timeout_s > 0):
            raise BadSetting(
                f"timeout={timeout_s!r} of handler {self.name} is not a number of seconds above 0", setting="timeout"
            )
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise BadSetting(f"handler {self.name} yields, so calling it does nothing; let it return", setting="handler")
        if self.signature.takes_transaction and not self.is_transactional:
            raise BadSetting(
                f"handler {self.name} takes a Transaction; declare it with transactional=True", setting="transactional"
            )

    @property
    def name(self) -> str:
        return name_of(self.function)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def title(self) -> str:
        """What it is called in sentences."""
        return f"handler {self.name} of {self.kind} {self.destination!r}"
