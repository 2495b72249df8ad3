"""Whoever does not use Spark does not pay for it, and does not need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pyspark", "pyarrow", "deltalake", "numpy", "pandas"}


@pytest.mark.parametrize("module", ["holdfast", "holdfast.blocking", "holdfast.recorder", "holdfast.cli.main", "holdfast.spark"])
def test_importing_it_loads_nothing_of_spark(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)
