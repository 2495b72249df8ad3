"""The client suites over a cluster of two nodes, with one message manager (ADR 26) and with two (ADR 27).

A short run has a few of them, and a long one all. Over two managers the same is different as in one process (`over_managers`).
"""

from __future__ import annotations

import pytest

SHORT_MANAGED = frozenset(f"tests.contract.test_{name}" for name in ("client_patterns", "client_own_destinations"))
SHORT = frozenset(f"tests.contract.test_{name}" for name in ("client_refusals", "client_keeper"))


def mark(item: pytest.Item) -> None:
    """Mark a test that runs over a cluster."""
    if not isinstance(item, pytest.Function) or getattr(item, "callspec", None) is None:
        return
    url, module = item.callspec.params.get("url"), item.module.__name__
    if (url == "cluster" and module not in SHORT) or (url == "managed-cluster" and module not in SHORT_MANAGED):
        item.add_marker(pytest.mark.long)
