"""The access list: who may do what to which destination. The first rule of the file that fits decides.

    who           a user, "*" for every user, "@group" for the users of a group
    destination   a name, or a glob over names such as orders.*
    actions       send, receive, browse, manage
    deny          the rule forbids instead of allowing

Without a rule that fits, an action is forbidden. Names with a leading underscore are Holdfast's own (`_DMQ`, `_LOG`). Only a
pattern that begins with an underscore itself reaches them, so that `**` gives nobody the dead events of everyone else.

This module reads no clock, draws no random numbers and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from holdfast.event.pattern import Pattern

Action = Literal["send", "receive", "browse", "manage"]
ACTIONS: tuple[Action, ...] = get_args(Action)
EVERYONE = "*"
# Globs that match every name that is not reserved, characters that separate words, and wildcards.
ANYTHING = ("**", ">")
SEPARATORS = (".", "/")
WILD = "*?>"
# Answers that the rights of a user remember. A client can ask about any number of names, and must not fill the memory with them.
KNOWN_MAX = 10_000
# No destination has a longer name: no answer about such a name is remembered.
NAME_LENGTH_MAX = 255


@dataclass(frozen=True)
class Rule:
    who: str
    pattern: Pattern
    actions: frozenset[str]
    is_allowed: bool = True

    def fits(self, action: str, destination: str) -> bool:
        return action in self.actions and self.pattern.matches(destination)

    def covers(self, action: str, asked: Pattern) -> bool:
        """Tell whether this rule fits every name that the asked pattern could match, as far as the texts show."""
        if action not in self.actions or asked.text.startswith("_") != self.pattern.text.startswith("_"):
            return False
        if self.pattern == asked or self.pattern.text in ANYTHING:
            return True
        stem = _stem_of_subtree(self.pattern.text)
        rest = asked.text.removeprefix(stem) if stem and asked.kind == "glob" else asked.text
        return len(rest) < len(asked.text) and not rest.startswith("**")

    def touches(self, action: str, asked: Pattern) -> bool:
        """Tell whether this rule and the asked pattern might share a name: their literal beginnings allow it."""
        ours, theirs = _literal_beginning(self.pattern), _literal_beginning(asked)
        return action in self.actions and (ours.startswith(theirs) or theirs.startswith(ours))


def _stem_of_subtree(text: str) -> str:
    """Return `orders.` for `orders.**` and `orders.>`; "" for every other form."""
    for ending in ("**", ">"):
        stem = text.removesuffix(ending)
        if stem != text and stem.endswith(SEPARATORS) and not any(letter in stem for letter in WILD):
            return stem
    return ""


def _literal_beginning(pattern: Pattern) -> str:
    if pattern.kind != "glob":
        return ""
    wild = next((place for place, letter in enumerate(pattern.text) if letter in WILD), len(pattern.text))
    return pattern.text[:wild].rstrip("".join(SEPARATORS))


class Rights:
    """The rights of one user. It remembers its answers: asking again costs one look into a dict."""

    def __init__(self, user: str, rules: Sequence[Rule]) -> None:
        self.user = user
        self.rules = tuple(rules)
        self._known: dict[tuple[str, str], bool] = {}

    def may(self, action: str, destination: str) -> bool:
        known = self._known.get((action, destination))
        return self._find_out(action, destination) if known is None else known

    def may_see(self, destination: str) -> bool:
        """Tell whether the user may know that a destination exists: anyone who may do anything to it may."""
        return any(self.may(action, destination) for action in ACTIONS)

    def may_pattern(self, action: str, pattern: Pattern) -> bool:
        """Tell whether the user may do this to every name the pattern could ever match. In doubt, no."""
        if pattern.is_literal:
            return self.may(action, pattern.text)
        for rule in self.rules:
            if not rule.is_allowed and rule.touches(action, pattern):
                return False
            if rule.is_allowed and rule.covers(action, pattern):
                return True
        return False

    def _find_out(self, action: str, destination: str) -> bool:
        if len(destination) > NAME_LENGTH_MAX:
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        first = next((rule for rule in self.rules if rule.fits(action, destination)), None)
        answer = self._known[action, destination] = first is not None and first.is_allowed
        return answer


@dataclass(frozen=True)
class AccessList:
    rules: tuple[Rule, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _rights: dict[str, Rights] = field(default_factory=dict, repr=False, compare=False)

    def of(self, user: str) -> Rights:
        """Return the rights of a known user: there are no more of them than users in the file."""
        if user not in self._rights:
            self._rights[user] = Rights(user, [rule for rule in self.rules if self._concerns(rule, user)])
        return self._rights[user]

    def may(self, user: str, action: Action, destination: str) -> bool:
        return self.of(user).may(action, destination)

    def groups_of(self, user: str) -> list[str]:
        return [name for name, members in self.groups.items() if user in members]

    def _concerns(self, rule: Rule, user: str) -> bool:
        if rule.who.startswith("@"):
            return user in self.groups[rule.who[1:]]
        return rule.who in (EVERYONE, user)
