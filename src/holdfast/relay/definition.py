"""The definition of a relay: its name, its journal, the upstreams, and the routes.

from holdfast.relay import Relay, RelayDefinition, Route, Upstream

RelayDefinition(
    "berlin", "holdfast://127.0.0.1:7401",
    {"head": Upstream("holdfast://head:7400")},
    {"alerts": Route(upstream="head", topic="alerts.**", to="branch.berlin.**", mode="end-to-end")},
)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from holdfast.client.receiving.receive_options import condition, place
from holdfast.client.url import parse_with_password
from holdfast.destination import name as names
from holdfast.destination.settings import duration_ms
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.event import PRIORITY_MAX, PropertyValue, check_properties
from holdfast.relay import names as own_names
from holdfast.relay.machines.duties import Mode
from holdfast.relay.machines.renaming import Renaming
from holdfast.relay.machines.rules import Window

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_RECIPIENT = "{recipient}"
WAITING_MAX = 100_000
HOPS_MAX = 16


class Upstream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place that events are drawn from.

    url            any URL that `holdfast.connect` takes
    password_env   the environment variable that has the password of the user in the URL
    restored       what to do when it was restored from an older backup: refuse to go on, or accept it as it is now
    """

    url: str
    password_env: str = ""
    restored: Literal["refuse", "accept"] = "refuse"


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which events pass, under which name, and when upstream hears that they are finished.

    upstream      the name of the upstream (`from` in a file)
    topic         a topic upstream, or a wildcard; or `regex`; or `queue`, which is shared with its other recipients
    to            the local name, with the wildcards of the topic; without it, the same name
    into          queue or topic: what the local destination is; without it, what it is upstream
    mode          receipt, end-to-end or each
    recipients    with mode each: one upstream subscription, and one name here, for each of these
    selector      only events that match; the upstream server judges
    add           properties that are added
    priority      the priority here
    ttl           the time to live from here on: "1h", "90s", or seconds
    rate          at most so many events a second
    window        "22:00-06:00", "mon-fri 08:00-18:00", or several; outside of them nothing is drawn
    zone          the time zone of the windows, as in Europe/Berlin; without it, that of the machine
    sample        this part of the events passes, from 0 to 1; the others are confirmed and counted
    hops_max      an event that has passed so many relays is not taken further
    waiting_max   end-to-end: draw no more while so many events wait for their recipients here
    """

    upstream: str = msgspec.field(name="from")
    topic: str = ""
    regex: str = ""
    queue: str = ""
    to: str = ""
    into: Literal["", "queue", "topic"] = ""
    mode: Mode = "receipt"
    recipients: tuple[str, ...] = ()
    selector: str = ""
    add: dict[str, PropertyValue] = {}
    priority: Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)] | None = None
    ttl: str | float | None = None
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    window: str | tuple[str, ...] = ()
    zone: str = ""
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    hops_max: Annotated[int, msgspec.Meta(ge=1, le=255)] = HOPS_MAX
    waiting_max: Annotated[int, msgspec.Meta(ge=1)] = WAITING_MAX

    @property
    def kind(self) -> Literal["queue", "topic"]:
        """What the local destination is."""
        return self.into or ("queue" if self.queue else "topic")

    @property
    def source(self) -> str:
        """The upstream topic, wildcard, regular expression or queue."""
        return self.queue or self.regex or self.topic

    @property
    def windows(self) -> tuple[str, ...]:
        return (self.window,) if isinstance(self.window, str) else self.window

    @property
    def ttl_ms(self) -> int | None:
        return None if self.ttl is None else duration_ms(self.ttl, "ttl")

    @property
    def looks_inside(self) -> bool:
        """A rule changes the events themselves, so that batches are opened."""
        return bool(self.add) or self.ttl is not None

    def leaves_out(self, destination: str) -> bool:
        """Topics of relays, such as those of marks, do not pass by a wildcard of all topics: two relays that face each other
        would pass on the marks of each other, each with a mark of its own, for ever."""
        return destination.startswith(own_names.PREFIX) and not self.source.startswith(own_names.PREFIX)

    def renaming(self) -> Renaming:
        return Renaming(self.source, self.to, is_regex=bool(self.regex))

    def for_recipient(self, recipient: str) -> Route:
        """The route of one recipient, in mode `each`."""
        return msgspec.structs.replace(self, to=self.to.replace(_RECIPIENT, recipient), recipients=(recipient,))


class RelayDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    local: str  # the URL of its own journal
    upstreams: dict[str, Upstream]
    routes: dict[str, Route]
    password_env: str = ""  # the environment variable that has the password of the user in `local`

    @property
    def is_embedded(self) -> bool:
        """Its journal is in its own process."""
        return self.local.startswith(("file:", "memory:"))

    @property
    def replies(self) -> str:
        return own_names.replies_queue(self.name)

    def lines(self) -> dict[str, Route]:
        """The routes, with one for each recipient in mode `each`: `alerts.pager`."""
        made: dict[str, Route] = {}
        for name, route in self.routes.items():
            if route.mode == "each":
                made |= {f"{name}.{recipient}": route.for_recipient(recipient) for recipient in route.recipients}
            else:
                made[name] = route
        return made

    def marks_topic(self, line: str) -> str:
        return own_names.marks_topic(self.name, line)

    def subscription(self, line: str, route: Route, selector: str) -> str:
        """The name of the upstream subscription: another question has another one, so that what waits in the first is kept."""
        return own_names.subscription(self.name, line, route.topic, route.regex, selector)

    def subscription_stem(self, line: str) -> str:
        return own_names.subscription_stem(self.name, line)

    def line_of(self, subscription: str) -> str | None:
        """The line that an upstream subscription is of, by its name; None if it is not of this relay."""
        return own_names.route_of(self.name, subscription)

    def is_of_former_recipient(self, line: str) -> bool:
        """Whether a line is that of a recipient that its route names no longer."""
        name, dot, recipient = line.partition(".")
        route = self.routes.get(name)
        return bool(dot) and route is not None and route.mode == "each" and recipient not in route.recipients


def problems_of(definition: RelayDefinition) -> list[str]:
    """Every mistake, as a sentence."""
    found = []
    if not _NAME.match(definition.name):
        found.append(f"name {definition.name!r:.40} is not 1 to 63 letters, digits, _ and -")
    found += _refusals("local", lambda: parse_with_password(definition.local, None))
    if not definition.routes:
        found.append("there are no routes: a relay without one draws nothing; add [routes.NAME]")
    for name, upstream in definition.upstreams.items():
        if not _NAME.match(name):
            found.append(f"upstreams.{name}: a name has 1 to 63 letters, digits, _ and -")
        found += _refusals(f"upstreams.{name}.url", lambda url=upstream.url: parse_with_password(url, None))
        if upstream.url == definition.local and not upstream.url.startswith("memory:"):
            found.append(f"upstreams.{name}.url is the relay's own journal; a relay draws from others")
    for name, route in definition.routes.items():
        found += [f"routes.{name}: {each}" for each in _route_problems(name, route, definition.upstreams)]
    return found


def checked(definition: RelayDefinition) -> RelayDefinition:
    if found := problems_of(definition):
        raise BadSetting("; ".join(found), setting="definition", problems=len(found))
    return definition


def _refusals(where: str, tried: object) -> list[str]:
    """What a check says against it."""
    try:
        tried()  # type: ignore[operator]
    except HoldfastError as problem:
        return [f"{where}: {problem.sentence}"]
    return []


def _route_problems(name: str, route: Route, upstreams: Mapping[str, Upstream]) -> list[str]:
    found = [] if _NAME.match(name) else ["a name has 1 to 63 letters, digits, _ and -"]
    if route.upstream not in upstreams:
        found.append(f"from = {route.upstream!r} is no upstream; there are: {', '.join(upstreams) or 'none'}")
    if sum(map(bool, (route.topic, route.regex, route.queue))) != 1:
        return [*found, "say one of topic, regex and queue: where the events come from"]
    found += _refusals("topic", lambda: place(route.topic or None, route.regex or None)) if not route.queue else []
    found += _refusals("queue", lambda: names.check_destination(route.queue)) if route.queue else []
    found += _refusals("to", lambda: _example(route).renaming())
    found += _refusals("selector", lambda: condition(route.selector))
    found += _refusals("add", lambda: check_properties(route.add))
    found += _refusals("ttl", lambda: route.ttl_ms)
    found += _refusals("window", lambda: Window(route.windows))
    found += _refusals("zone", lambda: _check_zone(route.zone))
    return found + _each_problems(route)


def _example(route: Route) -> Route:
    return route.for_recipient("recipient") if route.mode == "each" else route


def _each_problems(route: Route) -> list[str]:
    if route.mode != "each":
        return ['recipients are for mode = "each"; leave them out, or say so'] if route.recipients else []
    found = []
    if route.queue or route.kind != "topic":
        found.append('mode = "each" makes a subscription for each recipient, so it needs a topic, here and upstream')
    if not route.recipients:
        found.append('mode = "each" needs recipients = ["…"], one name for each')
    if _RECIPIENT not in route.to:
        found.append(f'mode = "each" keeps recipients apart: write {_RECIPIENT} into to, as in to = "berlin.{_RECIPIENT}.**"')
    found += [
        f"recipient {each!r} has other letters than A-Z, a-z, 0-9, _ and -" for each in route.recipients if not _NAME.match(each)
    ]
    if len(set(route.recipients)) < len(route.recipients):
        found.append("a recipient is named twice")
    return found


def _check_zone(zone: str) -> None:
    from zoneinfo import ZoneInfo

    if zone:
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, KeyError) as problem:
            raise BadSetting(f"zone {zone!r:.40} is not known; write it like Europe/Berlin", setting="zone") from problem
