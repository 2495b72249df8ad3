"""The memory of a Python worker: loaded modules are kept out of the garbage collector.

A worker of Spark lives for many tasks. After each, Spark collects garbage over the whole heap, modules and classes included;
that takes longer than a task needs for a hundred thousand events.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_loaded() -> None:
    """Freeze all objects that are alive after the first task, so that later collections skip them."""
    gc.collect()
    gc.freeze()
