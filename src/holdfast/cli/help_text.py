"""The help of a command: one sentence, examples that work, exit codes and what each means.

Every example is run by `tests/examples/test_help_examples.py`, in the order of the commands, against a real server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

# The meaning of each family of errors for the caller; 0, 2 and the signals are as everywhere.
MEANINGS = {
    0: "done",
    1: "refused: nothing happened, and repeating it would not help",
    2: "wrong usage of this command",
    3: "unavailable or timed out: nothing happened; try again later",
    4: "outcome unknown: it may have happened; look before you repeat it",
    5: "damaged: durable bytes are not those that were written; call an operator",
}
_FIRST_CLAUSE = re.compile(r"[,:;(]|\. ")
CLIENT = (0, 1, 2, 3, 4)
LOCAL = (0, 1, 2, 3, 5)
PLAIN = (0, 2)


class Help(TypedDict):
    """The arguments of `app.command` that make up a help text."""

    help: str
    short_help: str
    epilog: str


def described(
    sentence: str, examples: Sequence[str], exits: Sequence[int] = CLIENT, changed: Mapping[int, str] | None = None
) -> Help:
    """The help of a command. `changed`: exit codes that mean something else here."""
    meanings = {**{code: MEANINGS[code] for code in exits}, **(changed or {})}
    parts = [
        "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples),
        "\b\nExit codes:\n" + "\n".join(f"  {code}  {meaning}" for code, meaning in sorted(meanings.items())),
    ]
    return {"help": sentence, "short_help": _FIRST_CLAUSE.split(sentence)[0].rstrip(". ") + ".", "epilog": "\n\n".join(parts)}
