"""From settings to a checked rule, with every mistake there is and not only the first."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from holdfast.actions.errors import Mistake
from holdfast.actions.kinds.action import Action, Surroundings
from holdfast.actions.kinds.known import NoSuchKind, kind_of
from holdfast.actions.machines.condition import Absence, Change, Condition, Count, Every, Silence
from holdfast.actions.machines.gathering import Gathering
from holdfast.actions.machines.rule_machine import Terms
from holdfast.actions.machines.seen import key_of
from holdfast.actions.machines.sharing import is_wild, source_of
from holdfast.actions.machines.template import BadTemplate, Template
from holdfast.actions.names import LENGTH_MAX, is_name
from holdfast.actions.quiet_hours import QuietHours
from holdfast.actions.rule import SEVERITIES, ActionTerms, CheckedRule, RuleAction, RuleSettings, sample_alert
from holdfast.actions.secrets import NoSecret, Secrets
from holdfast.destination import name as names
from holdfast.destination.settings import duration_ms
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.pattern import LENGTH_MAX as PATTERN_LENGTH_MAX
from holdfast.event.pattern import Pattern
from holdfast.event.selector.selector import parse_optional

Path = tuple[str | int, ...]
Any_ = TypeVar("Any_", bound=msgspec.Struct)
# As long as the longest name of a tick topic: whether a pattern is too long must not depend on the name of the rules.
_TICK = "actions." + "x" * LENGTH_MAX + ".tick"
_CONDITIONS = ("count", "absent", "change", "silence")
EXAMPLES_MAX = 20
# The state of a key has the time of each event that counts, and is written whenever it changes.
COUNT_MAX = 10_000
RETRIES_MAX = 1_000


class _Reader:
    """Gathers the mistakes of one rule."""

    def __init__(self, mistakes: list[Mistake], path: Path, secrets: Secrets) -> None:
        self.mistakes, self.path, self.secrets = mistakes, path, secrets

    def wrong(self, sentence: str, *below: str | int) -> None:
        self.mistakes.append(Mistake((*self.path, *below), self.secrets.redact(sentence)))

    def within(self, *below: str | int) -> _Reader:
        return _Reader(self.mistakes, (*self.path, *below), self.secrets)

    def struct(self, cls: type[Any_], given: Mapping[str, Any]) -> Any_ | None:
        """The settings as this type. Each that is wrong is a mistake of its own, and is left out; None if one is missing."""
        fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name not in fields:
                near = difflib.get_close_matches(str(name), fields, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(fields)}"
                self.wrong(f"there is no such setting; {hint}", name)
                continue
            try:
                found[name] = msgspec.convert(value, fields[name].type)
            except msgspec.ValidationError as problem:
                choices = f"; there are {', '.join(get_args(kind))}" if get_origin(kind := fields[name].type) is Literal else ""
                self.wrong(str(problem).replace("`", "") + choices, name)
        for name, field in fields.items():
            if field.required and name not in given:
                self.wrong(f"the setting {name} is missing")
        if any(field.required and name not in found for name, field in fields.items()):
            return None
        return msgspec.convert(found, cls)

    def checked(self, name: str, check: Callable[[], object]) -> Any:
        """The result of a check; a refusal becomes a mistake."""
        try:
            return check()
        except HoldfastError as problem:
            self.wrong(problem.sentence, name)
        except BadTemplate as problem:
            self.wrong(f"at character {problem.column} of the template: {problem}", name)
        return None

    def duration_us(self, name: str, given: Any) -> int:
        found = self.checked(name, lambda: duration_ms(given, name))
        return (found or 0) * 1_000


def read_rule(name: str, given: Any, mistakes: list[Mistake], path: Path, secrets: Secrets | None = None) -> CheckedRule | None:
    """The rule of these settings. Mistakes are added to the list; None if there are any."""
    before = len(mistakes)
    reader = _Reader(mistakes, path, secrets or Secrets())
    if not is_name(name):
        reader.wrong(f"{name!r:.40} is no name of a rule; use letters, digits, - and _, at most {LENGTH_MAX}")
    if not isinstance(given, Mapping):
        reader.wrong("a rule is a table of settings")
        return None
    settings = reader.struct(RuleSettings, {key: value for key, value in given.items() if key != "actions"})
    actions = _actions(reader, given.get("actions", []))
    if settings is None:
        return None
    terms = _terms(reader, name, settings)
    _check_events(reader, settings, terms)
    summary = reader.checked("summary", lambda: Template(settings.summary))
    if not 1 <= settings.hops_max <= 100:
        reader.wrong("hops_max is a number from 1 to 100", "hops_max")
    if len(mistakes) > before:
        return None
    return CheckedRule(
        name=name, topics=tuple(settings.topics), queue=settings.queue, type=settings.type, selector=settings.selector.strip(),
        severity=settings.severity, summary=summary, terms=terms, actions=tuple(actions), hops_max=settings.hops_max,
    )  # fmt: skip


# --- which events -----------------------------------------------------------------------------------------------------


def _check_events(reader: _Reader, settings: RuleSettings, terms: Terms) -> None:
    if bool(settings.topics) == bool(settings.queue):
        reader.wrong("name the topics of a rule, or its queue, and one of them only", *(("topics",) if settings.topics else ()))
    for number, topic in enumerate(settings.topics):
        _check_topic(reader.within("topics"), number, topic)
    if settings.queue:
        reader.checked("queue", lambda: names.check_usable(settings.queue))
        reader.checked("queue", lambda: names.check_receivable(settings.queue))
    if settings.selector:
        reader.checked("selector", lambda: parse_optional(settings.selector))
    reserved = [topic for topic in settings.topics if topic.startswith("_")]
    if reserved and len(settings.topics) > 1:
        reader.wrong(f"{reserved[0]} stands alone; write a rule of its own for it", "topics")
    if reserved and any(is_wild(topic) for topic in reserved):
        reader.wrong("a reserved name is given as it is, without wildcards", "topics")
    if terms.is_timed and settings.queue and (settings.type or settings.selector):
        reader.wrong(
            "absent, gather and quiet hours that hold cannot be used with a part of a queue: what is left for others hides how "
            'far it was read; leave out type and selector, use topics, or count, cooldown and quiet_then = "drop"',
            "queue",
        )
    if settings.topics and not reader.mistakes:
        made = source_of(tuple(settings.topics), "", settings.type, settings.selector, terms.is_timed, _TICK)
        if len(made.pattern) > PATTERN_LENGTH_MAX:
            reader.wrong(
                f"all topics together are a pattern of more than {PATTERN_LENGTH_MAX} characters; use wildcards", "topics"
            )
        reader.checked("selector", lambda: parse_optional(made.selector))


def _check_topic(reader: _Reader, number: int, topic: str) -> None:
    def check() -> None:
        if is_wild(topic) or any(letter in topic for letter in "#+"):
            Pattern.glob(topic)
        else:
            names.check_usable(topic)
            if topic in (names.DEAD, names.ADMIN):
                raise BadSetting(f"{topic} is a queue; write queue = {topic!r}")

    try:
        check()
    except HoldfastError as problem:
        reader.wrong(problem.sentence, number)


# --- when -------------------------------------------------------------------------------------------------------------


def _terms(reader: _Reader, name: str, settings: RuleSettings) -> Terms:
    gather_us = reader.duration_us("gather", settings.gather)
    cooldown_us = reader.duration_us("cooldown", settings.cooldown)
    condition = _condition(reader, settings)
    quiet = None
    if settings.quiet:
        quiet = reader.checked("quiet", lambda: QuietHours.of(settings.quiet, settings.zone))
    elif settings.zone:
        reader.wrong('a time zone without quiet hours; give quiet = ["22:00-06:00"]', "zone")
    if quiet and SEVERITIES.index(settings.severity) >= SEVERITIES.index(settings.quiet_below):
        quiet = None
    if settings.group and not (gather_us or cooldown_us or quiet):
        reader.wrong('there is nothing to group; give gather = "30s", or a cooldown', "group")
    if not 0 <= settings.examples <= EXAMPLES_MAX:
        reader.wrong(f"an alert keeps 0 to {EXAMPLES_MAX} examples", "examples")
    if len(settings.expect) >= settings.keys_max:
        reader.wrong("more keys are expected than may be kept; raise keys_max", "expect")
    if not 1 <= settings.keys_max <= 1_000_000:
        reader.wrong("keys_max is a number from 1 to 1,000,000", "keys_max")
    group = settings.group or ("" if gather_us else settings.key)
    gathering = Gathering(
        gather_us, cooldown_us, settings.quiet_then == "hold", settings.examples, quiet.until_us if quiet else None
    )  # fmt: skip
    return Terms(
        name=name, condition=condition, key=settings.key, group=group, gathering=gathering, keys_max=max(settings.keys_max, 1)
    )  # fmt: skip


def _condition(reader: _Reader, settings: RuleSettings) -> Condition:
    given = [each for each in _CONDITIONS if getattr(settings, each)]
    if len(given) > 1:
        reader.wrong(f"{' and '.join(given)} are two conditions; write a rule for each", given[1])
    if bool(settings.count) != bool(settings.within):
        wanting = "within" if settings.count else "count"
        reader.wrong(f"count and within belong together, as in count = 5, within = \"1m\"; {wanting} is missing",
                     "count" if settings.count else "within")  # fmt: skip
    if settings.expect and not settings.absent:
        reader.wrong('expect names the keys that must not be absent; give absent = "10m"', "expect")
    if settings.expect and not settings.key:
        reader.wrong('expect names keys; say with key = "host" which field has them', "expect")
    if (settings.before or settings.after) and not settings.change:
        reader.wrong('from and to are values of a field; say which with change = "state"', "from" if settings.before else "to")
    if not 0 <= settings.count <= COUNT_MAX:
        reader.wrong(f"count is a number from 1 to {COUNT_MAX:,}: the time of each event is kept; use a shorter time", "count")
    within_us, after_us = reader.duration_us("within", settings.within), reader.duration_us("absent", settings.absent)
    silence_us = reader.duration_us("silence", settings.silence)
    if settings.count and within_us:
        return Count(settings.count, within_us)
    if after_us:
        return Absence(after_us, tuple(dict.fromkeys(settings.expect)))
    if settings.change:
        return Change(settings.change, tuple(map(key_of, settings.before)), tuple(map(key_of, settings.after)))
    return Silence(silence_us) if silence_us else Every()


# --- what is done -----------------------------------------------------------------------------------------------------


def _actions(reader: _Reader, given: Any) -> list[RuleAction]:
    if not isinstance(given, list | tuple) or not given:
        reader.wrong('a rule needs an action; write [[rules.NAME.actions]] with do = "notify"')
        return []
    found: list[RuleAction] = []
    for number, each in enumerate(given):
        made = _action(reader.within("actions", number), each, {action.name for action in found})
        if made is not None:
            found.append(made)
    return found


def _action(reader: _Reader, given: Any, taken: set[str]) -> RuleAction | None:
    if callable(given):
        return RuleAction(name=_free(_function_name(given), taken), kind="function", function=given)
    if not isinstance(given, Mapping):
        reader.wrong("an action is a table of settings, or a function")
        return None
    own = {field.name for field in msgspec.structs.fields(ActionTerms)}
    terms = reader.struct(ActionTerms, {name: value for name, value in given.items() if name in own})
    if terms is None:
        return None
    if terms.name and not is_name(terms.name):
        reader.wrong("the name of an action has letters, digits, - and _ only", "name")
    if terms.name in taken:
        reader.wrong(f"two actions are called {terms.name}; give them names of their own", "name")
    if not 0 <= terms.retries <= RETRIES_MAX:
        reader.wrong(f"retries is a number from 0 to {RETRIES_MAX}", "retries")
    first_us = reader.duration_us("backoff", terms.backoff)
    longest_us = max(reader.duration_us("backoff_max", terms.backoff_max), first_us)
    try:
        cls = kind_of(terms.do)
    except NoSuchKind as problem:
        reader.wrong(str(problem), "do")
        return None
    settings = _settings(reader, cls, {name: value for name, value in given.items() if name not in own})
    return RuleAction(
        name=terms.name or _free(terms.do, taken), kind=terms.do, cls=cls, settings=settings, retries=terms.retries,
        first_s=first_us / 1e6, longest_s=longest_us / 1e6,
    )  # fmt: skip


def _settings(reader: _Reader, cls: type[Action], given: Mapping[str, Any]) -> Any:
    """The settings of a kind, with their secrets."""
    resolved: dict[str, Any] = {}
    for name, value in given.items():
        try:
            resolved[name] = reader.secrets.resolve(value)
        except NoSecret as problem:
            reader.wrong(str(problem), name)
            return None
    before = len(reader.mistakes)
    settings = reader.struct(cls.Settings, resolved)
    if settings is None:
        return None
    for name in cls.TEMPLATES:
        for text in _texts(getattr(settings, name)):
            reader.checked(name, lambda text=text: Template(text))  # type: ignore[misc]
    for setting, sentence in cls.complaints(settings):
        reader.wrong(sentence, *((setting,) if setting else ()))
    if len(reader.mistakes) == before:
        _try_on_sample(reader, cls, settings)
    return settings


def _try_on_sample(reader: _Reader, cls: type[Action], settings: Any) -> None:
    """Whatever goes wrong with a sample would go wrong with every alert."""
    try:
        cls(settings, Surroundings("sample", secrets=reader.secrets)).describe(sample_alert())
    except Exception as problem:
        reader.wrong(f"it fails on a sample: {problem or type(problem).__name__}")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in _texts(each)]
    return [text for each in value for text in _texts(each)] if isinstance(value, list) else ()


def _free(name: str, taken: set[str]) -> str:
    return next(each for number in range(1, len(taken) + 2) if (each := name if number == 1 else f"{name}-{number}") not in taken)


def _function_name(function: Any) -> str:
    name = str(getattr(function, "__name__", "function")).replace("<", "").replace(">", "")
    return name if is_name(name) else "function"
