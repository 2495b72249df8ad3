"""Runs `async def` tests, each in a loop of its own, sets the profile of hypothesis, makes Ctrl-C mean what it says, leaves out
what only a long run does (`tests.effort`), and shares the tests out among processes (`make test`).
"""

from __future__ import annotations

import asyncio
import inspect
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests import effort

# A shell starts what it runs in the background with SIGINT ignored, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("wide", settings.get_profile("default"), max_examples=1_000, derandomize=False)
settings.load_profile("wide" if effort.IS_LONG else "default")

# What takes long, by the beginning of its files. All tests of a share are the work of one process, one after the other.
HEAVY = {
    "tests/spark/test_killed": "programs of Spark",
    "tests/spark/test_power_cut": "programs of Spark",
    "tests/spark/test_standalone": "programs of Spark",
    "tests/spark/test_connect": "programs of Spark",
    "tests/spark/test_pipelines_stop": "programs of Spark",
    "tests/examples/test_spark": "programs of Spark",
    "tests/spark": "a session of Spark",
    "tests/bench": "a session of Spark",
    "tests/faults": "faults",
    "tests/examples": "examples",
}
# Spark computes, faults wait for processes and disks: side by side they take least. The many short files come last, so that both
# processes end at about the same time.
ORDER = ["programs of Spark", "faults", "a session of Spark", "examples"]


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Which process runs what. A file is the work of one, because its tests share servers."""

    def _split_scope(self, nodeid: str) -> str:
        return _share(nodeid)


def _share(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((share for beginning, share in HEAVY.items() if file.startswith(beginning)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    return Sharing(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_what_is_long(config, items)
    items.sort(key=lambda item: ORDER.index(share) if (share := _share(item.nodeid)) in ORDER else len(ORDER))


def _leave_out_what_is_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if effort.IS_LONG else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**wanted))
    return True
