"""An extension of Griffe, which reads the docstrings for the reference.

A blocking twin is one line in the source, `send = waiting_for(AsyncDestination.send)`. It is shown as a method, with the
arguments and the docstring of its twin. A paragraph in columns, as the options of `receive` are explained, keeps its columns.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

FACTORY = "waiting_for"
# A line that begins with a name or two, and goes on in a second column.
COLUMNS = re.compile(r"[a-z]\w*(?:, \w+)* {2,}\S")


class ShownAsWritten(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        if "blocking" not in pkg.members:
            return
        for module in pkg["blocking"].modules.values():
            for kind in list(module.classes.values()):
                if not kind.is_alias:
                    _show_methods(kind, loader)

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _with_columns(obj.docstring.value)


def _with_columns(text: str) -> str:
    """The docstring as Markdown: indented paragraphs are shown as they are."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(re.sub("(?m)^", "    ", each) if COLUMNS.match(each) else each for each in paragraphs)


def _show_methods(kind: griffe.Class, loader: griffe.GriffeLoader) -> None:
    for name, member in list(kind.members.items()):
        if isinstance(member, griffe.Attribute) and (path := _twin_of(member)):
            kind.set_member(name, _method(name, member, loader.modules_collection[path]))


def _twin_of(member: griffe.Attribute) -> str | None:
    """The path of the call that a method waits for; None for any other attribute."""
    value = member.value
    if not isinstance(value, griffe.ExprCall) or value.function.canonical_name != FACTORY:
        return None
    twin = value.arguments[0]
    return twin.canonical_path if isinstance(twin, griffe.Expr) else None


def _method(name: str, member: griffe.Attribute, twin: Any) -> griffe.Function:
    said = griffe.Docstring(twin.docstring.value) if twin.docstring else None
    return griffe.Function(
        name, parameters=twin.parameters, returns=twin.returns, docstring=said, lineno=member.lineno, endlineno=member.endlineno
    )
