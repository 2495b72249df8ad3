"""Actions: rules say which events matter and when, and what is done about them."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from holdfast.actions.alert import Alert
    from holdfast.actions.kinds.action import Action, Surroundings
    from holdfast.actions.program import Actions
    from holdfast.actions.rule import Rule

__all__ = ["Action", "Actions", "Alert", "Rule", "Surroundings"]

_WHERE = {
    "Action": "holdfast.actions.kinds.action",
    "Actions": "holdfast.actions.program",
    "Alert": "holdfast.actions.alert",
    "Rule": "holdfast.actions.rule",
    "Surroundings": "holdfast.actions.kinds.action",
}


def __getattr__(name: str) -> _Any:
    """Load a part at its first use."""
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.actions' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
