"""Whoever does not use Spark does not pay for it, and does not need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pyspark", "pyarrow", "deltalake", "numpy", "pandas"}
MODULES = [
    "holdfast",
    "holdfast.blocking",
    "holdfast.recorder.recorder",
    "holdfast.cli.main",
    "holdfast.spark",
    "holdfast.actions.program",
]


@pytest.mark.parametrize("module", MODULES)
def test_importing_it_loads_nothing_of_spark(module: str) -> None:
    assert HEAVY.isdisjoint(loaded_by(module))


@pytest.mark.parametrize("module", ["holdfast.spark.format", "holdfast.spark.lake.format"])
def test_planners_do_not_wait_for_pandas(module: str) -> None:
    """Spark starts a Python process for each step of planning; pandas alone would take each of them a second and a half."""
    assert "pandas" not in loaded_by(module)


def test_rules_load_no_http_and_none_of_the_packages_that_single_actions_need() -> None:
    loaded = loaded_by("holdfast.actions.program")

    assert {"apprise", "prometheus_client", "requests", "httpx", "uvicorn"}.isdisjoint(loaded)


def loaded_by(module: str) -> set[str]:
    """The packages that importing it loads."""
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    return {name.partition(".")[0] for name in loaded}
