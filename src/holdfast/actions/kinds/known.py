"""Which kinds of actions there are: those of the core, and those that installed packages bring by entry points."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points

from holdfast.actions.kinds.action import Action

GROUP = "holdfast.actions"
BUILT_IN = {
    "log": "holdfast.actions.kinds.log:Log",
    "notify": "holdfast.actions.kinds.notify:Notify",
    "run": "holdfast.actions.kinds.run:Run",
    "send": "holdfast.actions.kinds.send:Send",
    "webhook": "holdfast.actions.kinds.webhook:Webhook",
}


class NoSuchKind(Exception):
    """There is no such kind, or its package is not installed."""


def kinds() -> list[str]:
    """The names of all kinds."""
    return sorted({*BUILT_IN, *(each.name for each in entry_points(group=GROUP))})


def kind_of(name: str) -> type[Action]:
    """The class of a kind. Loaded when a rule uses it: nobody pays for kinds that they do not use."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: object = getattr(importlib.import_module(module), attribute)
    else:
        found = _loaded(name)
    if not isinstance(found, type) or not issubclass(found, Action):
        raise NoSuchKind(f"the entry point {name!r} does not name a subclass of holdfast.actions.Action")
    return found


def _loaded(name: str) -> object:
    found: EntryPoint | None = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        raise NoSuchKind(f"there is no action {name!r:.40}; there are {', '.join(kinds())}")
    try:
        return found.load()
    except ImportError as problem:
        raise NoSuchKind(f"action {name!r} needs a package that is not installed ({problem}); install it") from problem
