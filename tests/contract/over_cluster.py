"""The client suites over a cluster of two nodes (ADR 26): a short run has a few of them, and a long one all."""

from __future__ import annotations

import pytest

SHORT = frozenset(f"tests.contract.test_{name}" for name in ("client_refusals", "client_keeper"))


def mark(item: pytest.Item) -> None:
    """Mark a test that runs over a cluster."""
    if not isinstance(item, pytest.Function) or getattr(item, "callspec", None) is None:
        return
    if item.callspec.params.get("url") == "cluster" and item.module.__name__ not in SHORT:
        item.add_marker(pytest.mark.long)
