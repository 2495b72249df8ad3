"""Runs `async def` tests, each in a loop of its own, sets the profile of hypothesis, makes Ctrl-C mean what it says, and shares
the tests out among processes (`make test`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell starts what it runs in the background with SIGINT ignored, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("wide", settings.get_profile("default"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Of these kinds, all tests together are the work of one process, the longest first: each takes the whole machine by itself.
HEAVY = ("spark", "faults", "examples")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Otherwise a file is the work of one process, because its tests share servers."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: HEAVY.index(groups[item]) if groups[item] in HEAVY else len(HEAVY))


def _group(item: pytest.Item) -> str:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    if folder == "bench" or item.get_closest_marker("spark") or "spark" in getattr(item, "fixturenames", ()):
        return "spark"
    return folder if folder in HEAVY[1:] else str(item.path)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**wanted))
    return True
