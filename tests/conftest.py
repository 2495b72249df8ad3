"""Runs `async def` tests, each in a loop of its own, sets the profile of hypothesis, makes Ctrl-C mean what it says, and shares
the tests out among processes (`make test`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

# A shell starts what it runs in the background with SIGINT ignored, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("wide", settings.get_profile("default"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# What takes the whole machine, by the beginning of its files, what takes longest first. All tests of a share are the work of one
# process, one after the other.
HEAVY = {
    "tests/spark/test_killed": "programs of Spark",
    "tests/spark/test_power_cut": "programs of Spark",
    "tests/spark/test_standalone": "programs of Spark",
    "tests/spark/test_connect": "programs of Spark",
    "tests/spark": "a session of Spark",
    "tests/bench": "a session of Spark",
    "tests/faults": "faults",
    "tests/examples": "faults",
}
ORDER = list(dict.fromkeys(HEAVY.values()))


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Which process runs what. A file is the work of one, because its tests share servers."""

    def _split_scope(self, nodeid: str) -> str:
        return _share(nodeid)


def _share(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((share for beginning, share in HEAVY.items() if file.startswith(beginning)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    return Sharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: ORDER.index(share) if (share := _share(item.nodeid)) in ORDER else len(ORDER))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**wanted))
    return True
