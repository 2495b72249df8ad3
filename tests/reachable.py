"""What a program object holds on to: how many things lie in each container that can be reached from it.

Compared before and after many things came and went, it names the container that leaks.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

_CONTAINERS = (list, tuple, set, frozenset, deque)


def _fields(thing: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of one of our own objects."""
    if not type(thing).__module__.startswith("holdfast") or isinstance(thing, type):
        return
    names = [*getattr(thing, "__dict__", {})]
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    for name in names:
        if hasattr(thing, name):
            yield f".{name}", getattr(thing, name)


def _inside(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from (("[]", value) for value in list(thing.values()))
    elif isinstance(thing, _CONTAINERS):
        yield from (("[]", value) for value in list(thing))
    else:
        yield from _fields(thing)


def sizes(**roots: Any) -> dict[str, int]:
    """How many things lie in all containers of each path, such as `node.messages._deliverer._roster._routes`."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    queue = deque(roots.items())  # breadth first: the shortest path to a thing names it
    while queue:
        path, thing = queue.popleft()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, (Mapping, array, *_CONTAINERS)):
            found[path] = found.get(path, 0) + len(thing)
        queue.extend((path + name, inner) for name, inner in _inside(thing))
    return found


def grown(before: dict[str, int], after: dict[str, int], by: int) -> dict[str, tuple[int, int]]:
    """The paths whose containers together have more than `by` more things than before."""
    return {path: (before.get(path, 0), count) for path, count in after.items() if count > before.get(path, 0) + by}
