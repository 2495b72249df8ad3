"""Report an error: a sentence for people, or one line of JSON for programs, and an exit code for both."""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError

USAGE = 2
INTERRUPTED = 130
FAULT = 70
# Added to sentences that speak of Python: the same for the command line.
HINTS = {"wrong-kind": "on the command line, --topic says that it is a topic, and no --topic that it is a queue"}
EXIT_CODES = {"refused": 1, "unavailable": 3, "outcome-unknown": 4, "damaged": 5}


def exit_code_of(problem: HoldfastError) -> int:
    return EXIT_CODES[problem.family]


def report(code: str, sentence: str, *, as_json: bool) -> None:
    """One line on stderr."""
    if code in HINTS:
        sentence = f"{sentence} ({HINTS[code]})"
    if as_json:
        import msgspec

        line = msgspec.json.encode({"error": code, "sentence": sentence}).decode()
    else:
        line = f"holdfast: {sentence}"
    print(line, file=sys.stderr)
