"""The lock of a cluster's folder: one process at a time, found by others, gone with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.cli.cluster import run_lock
from holdfast.errors import Unavailable


def test_who_runs_the_cluster_is_found_while_it_does(tmp_path: Path) -> None:
    assert run_lock.holder(tmp_path) is None

    with run_lock.held(tmp_path):
        assert run_lock.holder(tmp_path) == os.getpid()

    assert run_lock.holder(tmp_path) is None


def test_a_second_one_is_refused_and_the_first_keeps_the_lock(tmp_path: Path) -> None:
    with run_lock.held(tmp_path):
        with pytest.raises(Unavailable, match=f"process {os.getpid()}"), run_lock.held(tmp_path):
            pass

        assert run_lock.holder(tmp_path) == os.getpid()
