"""A Python worker of Spark lives for many tasks, and after each of them Spark has all of its memory searched for garbage: every
module and class again, which takes longer than the task needs for a hundred thousand events."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle_down() -> None:
    """What is loaded when the first task ends stays for good: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
