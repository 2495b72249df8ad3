"""The target of `holdfast work`: where a worker stands, as `module:attribute`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from holdfast.errors import BadSetting
from holdfast.worker.worker import Worker


def load(target: str) -> Worker:
    """Import a worker. BadSetting says what is missing; an exception of the module itself is raised as it is."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        raise BadSetting(
            f"{target!r} does not name a worker; write it as module:worker, as in orders.tasks:worker", setting="worker"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{module_name}.".startswith(f"{problem.name}."):
            raise
        raise BadSetting(
            f"there is no module {problem.name!r} in {here}, nor is one installed; start it from the folder that has it",
            setting="worker",
        ) from problem
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise BadSetting(f"module {module_name!r} has no {attribute!r}; name the Worker in it", setting="worker")
        found = getattr(found, part)
    if not isinstance(found, Worker):
        raise BadSetting(f"{target!r} is a {type(found).__name__}, not a holdfast.Worker", setting="worker")
    return found
