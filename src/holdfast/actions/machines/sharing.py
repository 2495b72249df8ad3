r"""Sharing: which subscription each rule reads from, and what to do when that changes.

A **source** is a subscription of the rules: where events come from, and which. Rules with the same topics, type and selector
share one, so 50 rules on one topic with one selector cost one delivery. Type and selector are judged at the server: an event
that no rule wants never leaves it.

    rules that time alone can make tell      topics | tick       selector OR type = tick       it hears ticks
    … on a queue, or on `_LOG`               the same name       selector                      it is looked at: is it empty?
    other rules                              topics              selector

A rule has one source, so its events have one order. Several topics or wildcards become one regular expression.

When rules change, events must neither be missed nor counted twice. A boundary in time, the acceptance of the new table, parts
them:

    old source  ────────────── events before the boundary: read by the changed rule, then the subscription is deleted
    new source        ──────── made before the boundary; events after it count
                       │
                    boundary

The plan is a function of the old table and the new one; so it is the same again after a crash in the middle of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from holdfast.event.pattern import expression_of

TICK_TYPE = "holdfast.actions.tick"


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where events come from. `match` is name, glob or regex of topics, or queue."""

    match: str
    pattern: str
    selector: str = ""
    is_timed: bool = False

    @property
    def hears_ticks(self) -> bool:
        """Ticks come through the source itself. They cannot through a queue, which others use, nor through `_LOG`."""
        return self.is_timed and self.match == "regex"

    @property
    def id(self) -> str:
        text = "\0".join((self.match, self.pattern, self.selector, "timed" if self.is_timed else ""))
        return hashlib.blake2s(text.encode(), digest_size=6).hexdigest()


class Placed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule in a table: its source, since when it reads from there, where it read before, and its queues."""

    source: str
    since_us: int = 0  # 0: from the boundary of the table on
    queues: tuple[str, ...] = ()
    before: str = ""  # the source that it leaves
    before_since_us: int = 0


class Table(msgspec.Struct, omit_defaults=True):
    """Which rules there are, and what they read from. `is_settled`: nothing is on its way from the old to the new."""

    version: int = 0
    is_settled: bool = True
    sources: dict[str, Source] = {}
    rules: dict[str, Placed] = {}
    retired: list[str] = []  # sources to be read to their end, and deleted
    removed: list[str] = []  # queues to be deleted


def source_of(topics: tuple[str, ...], queue: str, type_glob: str, selector: str, is_timed: bool, tick_topic: str) -> Source:
    """The source of a rule."""
    wanted = " AND ".join(f"({each})" for each in (type_condition(type_glob), selector) if each)
    if queue:
        return Source("queue", queue, wanted, is_timed)
    ordered = tuple(sorted(set(topics)))
    if ordered[0].startswith("_"):
        return Source("name", ordered[0], wanted, is_timed)
    if is_timed:
        pattern = "|".join(f"(?:{expression_of(each)})" for each in (*ordered, tick_topic))
        return Source("regex", pattern, f"({wanted}) OR type = '{TICK_TYPE}'" if wanted else "", is_timed=True)
    if len(ordered) > 1:
        return Source("regex", "|".join(f"(?:{expression_of(each)})" for each in ordered), wanted)
    return Source("glob" if is_wild(ordered[0]) else "name", ordered[0], wanted)


def is_wild(topic: str) -> bool:
    return any(letter in topic for letter in "*?>")


def type_condition(glob: str) -> str:
    """A glob over types as a selector; "" for every type."""
    if not glob or glob == "*":
        return ""
    quoted = glob.replace("'", "''")
    if not is_wild(glob):
        return f"type = '{quoted}'"
    escaped = "".join(f"!{letter}" if letter in "!%_" else letter for letter in quoted)
    return f"type LIKE '{escaped.replace('*', '%').replace('?', '_')}' ESCAPE '!'"


def plan(old: Table, sources: Mapping[str, Source], queues: Mapping[str, Iterable[str]]) -> Table | None:
    """The table on the way from the old one to rules with these sources and queues; None if nothing changes.

    The old table is settled: a move that was begun is finished first.
    """
    rules: dict[str, Placed] = {}
    for name, source in sources.items():
        known, own = old.rules.get(name), tuple(queues[name])
        if known is None:
            rules[name] = Placed(source.id, 0, own)
        elif known.source == source.id:
            rules[name] = Placed(source.id, known.since_us, own)
        else:
            rules[name] = Placed(source.id, 0, own, known.source, known.since_us)
    if rules == old.rules:
        return None
    used = {source.id: source for source in sources.values()}
    retired = sorted(set(old.sources) - set(used))
    kept = {queue for placed in rules.values() for queue in placed.queues}
    removed = sorted({queue for placed in old.rules.values() for queue in placed.queues} - kept)
    leaving = {each: old.sources[each] for each in retired}
    left = {placed.before: old.sources[placed.before] for placed in rules.values() if placed.before}
    return Table(old.version + 1, False, {**used, **leaving, **left}, rules, retired, removed)


def settled(moving: Table, boundary_us: int) -> Table:
    """The table after the move."""
    rules = {name: Placed(placed.source, placed.since_us or boundary_us, placed.queues) for name, placed in moving.rules.items()}
    used = {placed.source for placed in rules.values()}
    return Table(moving.version + 1, True, {name: each for name, each in moving.sources.items() if name in used}, rules)


def is_own(placed: Placed, source: str, at_us: int, boundary_us: int) -> bool:
    """Whether an event of a source, accepted at this time, is one of the rule's own."""
    if source == placed.source:
        return at_us >= (placed.since_us or boundary_us)
    return source == placed.before and placed.before_since_us <= at_us < boundary_us
