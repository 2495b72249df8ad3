"""The rules of alerts, from a TOML file:

    [[rule]]
    name = "many-failed-payments"
    type = "payment.failed"                  # a glob over types, such as payment.*; left out: every type
    selector = "amount > 100"                # as everywhere in Holdfast; over attributes and properties
    where = "data.country = 'DE'"            # Spark SQL over the columns, for what a selector cannot see
    window = "5m"                            # how long a time is looked at
    slide = "1m"                             # how often; left out: one window after the other
    measure = "count"                        # or sum, avg, min, max of a field
    field = "data.amount"                    # Spark SQL, a number
    threshold = 10                           # an alert when the measure is at least so much
    when = ">="                              # or >, <=, <
    group_by = ["destination", "properties['customer']"]     # each for itself; Spark SQL
    cooldown = "30m"                         # after an alert, none of the same rule and group for so long

All that is needed is a name, a window and a threshold. Selectors are translated (`selecting`), for the rules of a file share one
subscription, so no server can evaluate them. Only windows with something in them are looked at: a rule cannot say "nothing came".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.errors import BadSetting
from holdfast.spark.pipelines.running.settings import convert, read_toml, refuse_unknown, seconds
from holdfast.spark.pipelines.selector_condition import spark_sql, text_literal

RULES_MAX = 1_000
_EXPRESSION = {"*": ".*", "?": "."}


class Rule(msgspec.Struct, kw_only=True, frozen=True):
    name: str
    threshold: float
    window: float | str
    slide: float | str | None = None
    type: str = ""
    selector: str = ""
    where: str = ""
    measure: Literal["count", "sum", "avg", "min", "max"] = "count"
    field: str = ""
    when: Literal[">=", ">", "<=", "<"] = ">="
    group_by: tuple[str, ...] = ()
    cooldown: float | str | None = None

    @property
    def window_seconds(self) -> float:
        return seconds(self.window, "window")

    @property
    def slide_seconds(self) -> float:
        return seconds(self.window if self.slide is None else self.slide, "slide")

    @property
    def cooldown_seconds(self) -> float:
        return 0.0 if self.cooldown is None else seconds(self.cooldown, "cooldown")

    def condition(self) -> str:
        """Which events it looks at, in Spark SQL."""
        conditions = [f"type RLIKE {text_literal(_expression(self.type))}"] if self.type else []
        conditions += [spark_sql(self.selector)] if self.selector else []
        conditions += [f"({self.where})"] if self.where else []
        return " AND ".join(conditions) or "true"

    def check(self) -> None:
        if not self.name:
            raise BadSetting("a rule has no name; give it one, its alerts carry it", setting="name")
        if (self.measure == "count") == bool(self.field):
            raise BadSetting(
                f"rule {self.name!r}: {self.measure} and field {self.field!r} do not go together; "
                "a count has no field, and sum, avg, min and max have one",
                setting="field",
            )
        if self.slide_seconds > self.window_seconds:
            raise BadSetting(
                f"rule {self.name!r}: slide {self.slide!r} is longer than its window; events between would be passed over"
            )
        _ = self.cooldown_seconds, self.condition()


def load_rules(file: Path) -> list[Rule]:
    """The rules of a file, checked; BadSetting or BadSelector for what is wrong with it, with the rule's name."""
    said = read_toml(file)
    refuse_unknown(said, {"rule"}, str(file))
    tables = said.get("rule")
    if not isinstance(tables, list) or not 1 <= len(tables) <= RULES_MAX:
        raise BadSetting(f"{file} has no rules, or more than {RULES_MAX}; each begins with [[rule]]", setting="rules")
    return checked_rules([convert(Rule, table, _where(file, place, table)) for place, table in enumerate(tables, 1)])


def checked_rules(rules: list[Rule]) -> list[Rule]:
    names = [rule.name for rule in rules]
    for rule in rules:
        rule.check()
        if names.count(rule.name) > 1:
            raise BadSetting(
                f"there are {names.count(rule.name)} rules named {rule.name!r}; alerts are told apart by it", setting="name"
            )
    return rules


def _where(file: Path, place: int, table: dict[str, Any]) -> str:
    return f"{file}, rule {place} ({table.get('name', 'without a name')})"


def _expression(glob: str) -> str:
    """A glob as a regular expression of Java over the whole of a type."""
    quoted = "".join(_EXPRESSION.get(letter, letter if letter.isalnum() or letter == "_" else f"\\{letter}") for letter in glob)
    return f"\\A{quoted}\\z"
