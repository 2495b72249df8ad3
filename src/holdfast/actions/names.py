"""The names of what a set of rules has at a server.

actions.NAME.rules             queue   the table of its rules and their sources
actions.NAME.tick              topic   tells timed rules how late it is; its subscription `owner` is held by the running program
actions.NAME.state.RULE        queue   the state of a rule
actions.NAME.do.RULE.ACTION    queue   alerts that an action has not done yet
actions.NAME.SOURCE            subscription   the events of rules that share a source
"""

from __future__ import annotations

import re

PREFIX = "actions"
OWNER = "owner"
LENGTH_MAX = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
_SOURCE = re.compile(r"[0-9a-f]{12}\Z")


def is_name(text: str) -> bool:
    """Whether rules, a rule or an action can have this name: it is one word of the name of a queue."""
    return bool(_NAME.match(text)) and len(text) <= LENGTH_MAX


class Names:
    def __init__(self, program: str) -> None:
        self.program = program
        self.rules = f"{PREFIX}.{program}.rules"
        self.tick = f"{PREFIX}.{program}.tick"

    def state(self, rule: str) -> str:
        return f"{PREFIX}.{self.program}.state.{rule}"

    def is_state(self, queue: str) -> bool:
        return queue.startswith(self.state(""))

    def action(self, rule: str, action: str) -> str:
        return f"{PREFIX}.{self.program}.do.{rule}.{action}"

    def subscription(self, source: str) -> str:
        return f"{PREFIX}.{self.program}.{source}"

    def is_subscription(self, subscription: str) -> bool:
        """Whether it is that of a source of these rules, by its name."""
        begin, _, source = subscription.rpartition(".")
        return begin == f"{PREFIX}.{self.program}" and bool(_SOURCE.match(source))
