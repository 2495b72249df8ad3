"""Paths into JSON: which values of a document a rule means.

    $.account.id           a member of a member
    $.items[*].created     of every element of a list
    $.items[0], $['a b']   one element; a member whose name is no plain word
    $..id                  every member of this name, however deep

A path that leads nowhere means nothing, and is no error: answers differ in shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from holdfast.errors import BadSetting

_STEP = re.compile(r"(\.\.?)([^.\[\]*'\"]+)|\[(?:(\d{1,9})|(\*)|'([^']*)'|\"([^\"]*)\")\]")
_PLAIN = re.compile(r"[^.\[\]*'\"]+\Z")


class Every(NamedTuple):
    """Every element of a list."""


class Deep(NamedTuple):
    """Every member of this name, however deep."""

    name: str


Step = str | int | Every | Deep
JsonPath = tuple[Step, ...]


@lru_cache(maxsize=1_024)
def parse(text: str, setting: str = "json") -> JsonPath:
    """The steps of a path; BadSetting, with an example, for a text that is none."""
    steps: list[Step] = []
    at = 1
    while text.startswith("$") and at < len(text) and (found := _STEP.match(text, at)) is not None:
        steps.append(_step(*found.groups()))
        at = found.end()
    if not steps or at != len(text):
        raise BadSetting(f"{text!r:.80} is no path into JSON; write it like $.account.id or $.items[*].id", setting=setting)
    return tuple(steps)


def _step(dots: str | None, name: str | None, number: str | None, every: str | None, *quoted: str | None) -> Step:
    if name is not None:
        return Deep(name) if dots == ".." else name
    if number is not None:
        return int(number)
    return Every() if every is not None else next(each for each in quoted if each is not None)


def written(path: JsonPath) -> str:
    """The text of a path; `parse` reads it."""
    return "$" + "".join(map(_written_step, path))


def _written_step(step: Step) -> str:
    match step:
        case Every():
            return "[*]"
        case Deep(name):
            return f"..{name}"
        case int():
            return f"[{step}]"
        case _:
            quote = '"' if "'" in step else "'"
            return f".{step}" if _PLAIN.match(step) else f"[{quote}{step}{quote}]"


def is_written(name: str) -> bool:
    """Whether a path can say this name of a member."""
    return "'" not in name or '"' not in name


def change(value: Any, path: JsonPath, function: Callable[[Any], Any]) -> Any:
    """Put `function(value)` in the place of each value that the path means. The document is changed, and given back."""
    for container, key in list(_places(value, path)):
        container[key] = function(container[key])
    return value


def remove(value: Any, path: JsonPath) -> Any:
    """Take the values out that the path means. The document is changed, and given back."""
    for container, key in reversed(list(_places(value, path))):
        # A member below one that was taken out already may be found as well: `$..a` in {"a": {"a": 1}}.
        if isinstance(container, list) or key in container:
            del container[key]
    return value


def _places(value: Any, path: JsonPath) -> Iterator[tuple[Any, Any]]:
    """Where the values are: the list or object, and the place in it. Documents first, in their own order."""
    step, rest = path[0], path[1:]
    if isinstance(step, Deep):
        for container in list(_objects(value)):
            if step.name in container:
                yield from _further(container, step.name, rest)
    elif isinstance(value, list):
        numbers = range(len(value)) if isinstance(step, Every) else (step,) if isinstance(step, int) and step < len(value) else ()
        for number in numbers:
            yield from _further(value, number, rest)
    elif isinstance(value, dict) and step in value:
        yield from _further(value, step, rest)


def _further(container: Any, key: Any, rest: JsonPath) -> Iterator[tuple[Any, Any]]:
    if rest:
        yield from _places(container[key], rest)
    else:
        yield container, key


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within a value, from the outside in."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
