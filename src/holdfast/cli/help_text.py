"""The help of a command: one sentence, examples that work, exit codes and what each means.

Every example is run by `tests/examples/test_help_examples.py`, in the order of the commands, against a real server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

# What each family of errors means for whoever called; 0, 2 and the signals are as everywhere.
MEANINGS = {
    0: "done",
    1: "refused: nothing happened, and would not if it were repeated",
    2: "wrong usage of this command",
    3: "unavailable or timed out: nothing happened, try again later",
    4: "outcome unknown: it may have happened, look before repeating it",
    5: "damaged: something durable is not what was written, call an operator",
}
_FIRST_CLAUSE = re.compile(r"[,:;(]")
CLIENT = (0, 1, 2, 3, 4)
LOCAL = (0, 1, 2, 3, 5)
PLAIN = (0, 2)


class Help(TypedDict):
    """What `app.command` takes of it."""

    help: str
    short_help: str
    epilog: str


def described(
    sentence: str, examples: Sequence[str], exits: Sequence[int] = CLIENT, changed: Mapping[int, str] | None = None
) -> Help:
    """The arguments of `app.command` that make up a command's help. `changed` are meanings of its own."""
    meanings = {**{code: MEANINGS[code] for code in exits}, **(changed or {})}
    parts = [
        "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples),
        "\b\nExit codes:\n" + "\n".join(f"  {code}  {meaning}" for code, meaning in sorted(meanings.items())),
    ]
    return {"help": sentence, "short_help": _FIRST_CLAUSE.split(sentence)[0].rstrip(". ") + ".", "epilog": "\n\n".join(parts)}
