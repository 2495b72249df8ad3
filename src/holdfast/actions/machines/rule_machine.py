"""The machine of one rule: events and the passing of time go in, alerts come out, and the state says what changed.

    event(seen)     time passes to its acceptance, then the event counts
    advance(at)     everything that was due by then is judged, in the order in which it became due
    take_changes()  the keys that changed since it was last asked: what goes into the rule's state queue with the next transaction

Time is that of acceptance, and never goes back. `advance(a); advance(b)` is the same as `advance(b)` for a <= b, and each event
advances time itself: so the alerts are a function of the events and their times alone. It does not matter how often, or when, the
program looked, slept or was killed between.

An event of more than the usual priority comes before others that were accepted earlier. It does not advance time: those may
follow.

Keys are kept in the order in which they last changed; past `keys_max` the first is forgotten, and with it an absence that was
waited for. Keys that a rule expects are never forgotten.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Mapping

import msgspec

from holdfast.actions.machines.condition import Absence, Condition, Every, Fired, State
from holdfast.actions.machines.gathering import Due, Gathered, Gathering, is_idle
from holdfast.actions.machines.seen import Seen, field_of_event, key_of
from holdfast.event.event import PRIORITY_DEFAULT

KEYS_MAX = 10_000
# In the order in which they are judged when they are due at the same time.
_ABSENT, _GATHERED = 0, 1


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine of a rule needs to know of it."""

    name: str
    condition: Condition = Every()
    key: str = ""  # the field that tells the keys of the condition apart; "": all events have one key
    group: str = ""  # the field by whose value alerts are gathered and cool down; "": all together
    gathering: Gathering = Gathering()
    keys_max: int = KEYS_MAX

    @property
    def is_timed(self) -> bool:
        """Whether time alone can bring an alert: the rule then hears ticks."""
        return self.condition.is_timed or self.gathering.is_timed

    @property
    def keeps_state(self) -> bool:
        return self.condition.keeps_state or self.gathering.keeps_state


class Told(msgspec.Struct, frozen=True):
    """An alert as the machine tells it. Its id is a function of the rule and of what made it."""

    id: str
    group: str
    due: Due


class Changes(msgspec.Struct, array_like=True):
    """What changed: states by key, None for a key that is forgotten."""

    now_us: int = 0
    since_us: int = 0
    keys: dict[str, State | None] = {}
    groups: dict[str, Gathered | None] = {}

    @property
    def is_empty(self) -> bool:
        return not self.keys and not self.groups


class RuleMachine:
    def __init__(self, terms: Terms, since_us: int = 0, kept: Changes | None = None) -> None:
        """`since_us`: when the rule began; events accepted before are not its own. `kept`: the state from before."""
        self.terms = terms
        self.now_us = max(since_us, kept.now_us if kept else 0)
        self.since_us = since_us
        self._keys: dict[str, State] = {key: state for key, state in (kept.keys if kept else {}).items() if state is not None}
        self._groups: dict[str, Gathered] = {
            group: found for group, found in (kept.groups if kept else {}).items() if found is not None
        }
        self._changed_keys: dict[str, None] = {}
        self._changed_groups: dict[str, None] = {}
        self._timers: list[tuple[int, int, str]] = []
        condition = terms.condition
        self._expected = (condition.expect or (() if terms.key else ("",))) if isinstance(condition, Absence) else ()
        self._expect()
        for key, state in self._keys.items():
            self._set_timer(terms.condition.due_us(state), _ABSENT, key)
        for group, found in self._groups.items():
            self._set_timer(found.until_us if found.since_us else None, _GATHERED, group)

    def _expect(self) -> None:
        """Expected keys are waited for from the beginning of the rule, or from when they were added to it."""
        for key in self._expected:
            if key not in self._keys:
                self._keys[key] = [self.now_us, False, ""]
                self._changed_keys[key] = None

    # --- in ----------------------------------------------------------------------------------------------------------

    def event(self, event: Seen) -> list[Told]:
        told: list[Told] = []
        if event.priority <= PRIORITY_DEFAULT:
            told += self.advance(event.at_us)
        at_us = max(event.at_us, self.now_us)
        terms = self.terms
        key = key_of(field_of_event(event, terms.key)) if terms.key else ""
        group = key_of(field_of_event(event, terms.group)) if terms.group else ""
        state, fired = terms.condition.event(self._keys.get(key), event, at_us, group)
        self._put_key(key, state)
        for each in fired:
            told += self._fire(each, key, group, event)
        return told

    def advance(self, at_us: int) -> list[Told]:
        """Judge everything that was due by this time."""
        told: list[Told] = []
        while self._timers and self._timers[0][0] <= at_us:
            due_us, kind, name = heapq.heappop(self._timers)
            self.now_us = max(self.now_us, due_us)
            if kind == _ABSENT:
                told += self._absent(name, due_us)
            else:
                told += self._gathered(name, due_us)
        self.now_us = max(self.now_us, at_us)
        return told

    def _absent(self, key: str, due_us: int) -> list[Told]:
        state = self._keys.get(key)
        if state is None or self.terms.condition.due_us(state) != due_us:
            return []  # the key was seen meanwhile
        group = state[2]
        state, fired = self.terms.condition.missed(state)
        self._put_key(key, state)
        return self._fire(fired, key, group, None)

    def _gathered(self, group: str, due_us: int) -> list[Told]:
        found = self._groups.get(group)
        if found is None or not found.since_us or found.until_us != due_us:
            return []
        return self._close(group, found)

    # --- firing ------------------------------------------------------------------------------------------------------

    def _fire(self, fired: Fired, key: str, group: str, event: Seen | None) -> list[Told]:
        found = self._groups.pop(group, None) or Gathered()
        self._groups[group] = found  # the newest last
        self._note(self._changed_groups, group)
        example, hops, cause = (None, 0, 0) if event is None else (event.example(), event.hops, event.position)
        was_open = bool(found.since_us)
        self.terms.gathering.add(found, fired.at_us, key, fired.count, fired.reason, example, hops, cause)
        self._forget_groups()
        if found.since_us and not was_open:
            if found.until_us <= fired.at_us:
                return self._close(group, found)
            self._set_timer(found.until_us, _GATHERED, group)
        return []

    def _close(self, group: str, found: Gathered) -> list[Told]:
        self._note(self._changed_groups, group)
        due = self.terms.gathering.due(found)
        if due is None:
            self._set_timer(found.until_us if found.since_us else None, _GATHERED, group)
            return []
        if is_idle(found, self.now_us):
            self._groups.pop(group, None)
        cause = f"{self.terms.name}\0{group}\0{due.at_us}\0{due.cause}\0{due.keys[0] if due.keys else ''}"
        return [Told(hashlib.blake2s(cause.encode(errors="replace"), digest_size=12).hexdigest(), group, due)]

    # --- the state ---------------------------------------------------------------------------------------------------

    def _put_key(self, key: str, state: State | None) -> None:
        known = self._keys.get(key)
        if state == known:
            return
        self._keys.pop(key, None)
        if state is not None:
            self._keys[key] = state  # the newest last
            self._set_timer(self.terms.condition.due_us(state), _ABSENT, key)
        self._note(self._changed_keys, key)
        while len(self._keys) > self.terms.keys_max:
            oldest = next((each for each in self._keys if each not in self._expected), None)
            if oldest is None:
                return
            del self._keys[oldest]
            self._note(self._changed_keys, oldest)

    def _forget_groups(self) -> None:
        while len(self._groups) > self.terms.keys_max:
            oldest = next(iter(self._groups))
            del self._groups[oldest]
            self._note(self._changed_groups, oldest)

    @staticmethod
    def _note(changed: dict[str, None], name: str) -> None:
        """Note a change. The order of changes is that of the states: who applies them has the same one last."""
        changed.pop(name, None)
        changed[name] = None

    def _set_timer(self, due_us: int | None, kind: int, name: str) -> None:
        if due_us is not None:
            heapq.heappush(self._timers, (due_us, kind, name))

    @property
    def wake_us(self) -> int | None:
        """When something becomes due next, if no event comes."""
        while self._timers and not self._is_current(*self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _is_current(self, due_us: int, kind: int, name: str) -> bool:
        if kind == _ABSENT:
            state = self._keys.get(name)
            return state is not None and self.terms.condition.due_us(state) == due_us
        found = self._groups.get(name)
        return found is not None and bool(found.since_us) and found.until_us == due_us

    def progress(self, key: str) -> str:
        """What is still wanting for a key, for people."""
        return self.terms.condition.progress(self._keys.get(key), self.now_us)

    @property
    def keys(self) -> Mapping[str, State]:
        return self._keys

    @property
    def groups(self) -> Mapping[str, Gathered]:
        return self._groups

    def take_changes(self) -> Changes:
        """What changed since it was last asked."""
        made = Changes(
            self.now_us,
            self.since_us,
            {key: self._keys.get(key) for key in self._changed_keys},
            {group: self._groups.get(group) for group in self._changed_groups},
        )
        self._changed_keys, self._changed_groups = {}, {}
        return made

    def whole(self) -> Changes:
        """All of the state, in place of all changes so far."""
        self._groups = {group: found for group, found in self._groups.items() if not is_idle(found, self.now_us)}
        self._changed_keys, self._changed_groups = {}, {}
        return Changes(self.now_us, self.since_us, dict(self._keys), dict(self._groups))
