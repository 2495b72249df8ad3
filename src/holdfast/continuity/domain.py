"""A domain: an application whose requests are processed by several servers. Its definition, and the names of its destinations.

    domain.shop.definition      queue     a register: the newest event in it is the definition
    domain.shop.requests        topic     requests, membership changes and records of answers given, in one order for all
    domain.shop.disagreements   topic     answers that differ, for people and for the pipeline `divergence`
    domain.shop.effects         queue     external effects that servers ask for
    domain.shop.results         topic     results of effects

    subscriptions of the requests:   server.NAME   what one server has not processed yet
                                     history       everything since the oldest snapshot that is kept
    subscriptions of the results:    history       results that are kept
                                     carrier       held by the one program that carries effects out

Everything that must be alike at all listeners and engines stands in the definition. Addresses, folders and secrets do not: each
program has its own.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from holdfast.errors import BadName, BadSetting

PREFIX = "domain."
HISTORY = "history"
# The history of results keeps these; the others concern only those who wait at the moment.
RESULTS_KEPT = "passing IS NULL"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class KeyRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a key of order is found in a request. Exactly one of the three is said.

    path     a regular expression over the path; its first group is the key, as in `/accounts/([^/]+)`
    header   the name of a header
    json     a path into a JSON body, as in `$.account.id`
    """

    path: str = ""
    header: str = ""
    json: str = ""


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests by method and path. `path` is a pattern in which `*` stands for one part and `**` for any number."""

    path: str
    methods: tuple[str, ...] = ("GET", "HEAD")
    # read: to current servers, beside the journal; stream: passed through to one current server (SSE, WebSocket)
    kind: Literal["read", "stream"] = "read"
    send: Literal["all", "hedged"] = "all"


class ComparisonRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of an answer that may differ between servers.

    headers     names of headers that are not compared, beside those that never are (`Date`, `Server`, hop-by-hop ones)
    json        paths into JSON bodies that are not compared, as in `$.items[*].created`
    text        regular expressions; parts of a text body that match are not compared
    tolerance   numbers in JSON bodies may differ by so much
    function    a Python function, `module:name`, that takes an answer and gives the bytes to compare
    """

    headers: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    tolerance: float = 0.0
    function: str = ""


class AliasRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that differs between servers and is replaced by a token: a cookie, a header (`location`), or a path into JSON."""

    name: str
    cookie: str = ""
    header: str = ""
    json: str = ""
    pattern: str = ""  # the part of the value that is meant: the first group of a regular expression; "" for all of it


class EffectRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An external effect that an answer asks for: answers on this route with this header are carried out once."""

    name: str
    path: str
    header: str


class LagLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server that lags further than this is taken out, and rebuilt. 0: no limit."""

    events: Count = 100_000
    bytes: Count = 1 << 30
    seconds: float = 3_600.0


class HistoryLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The history holds about so much at most: before, snapshots are forced, and it is given up to them. 0: no limit."""

    events: Count = 1_000_000
    bytes: Count = 1 << 30


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The definition of a domain."""

    name: str
    order: Literal["domain", "session", "key"] = "domain"
    keys: tuple[KeyRule, ...] = ()
    session_cookie: str = ""  # the cookie, or header, that names the session of a request; "": its connection
    session_header: str = ""
    servers_min: Annotated[int, msgspec.Meta(ge=1)] = 1
    answer: Literal["first", "agreed"] = "first"
    answer_timeout: Seconds = 30.0  # after this the client gets 504 with the transaction number
    call_timeout: Seconds = 10.0  # a server that does not answer within this is in doubt
    error_wait: Seconds = 2.0  # a 5xx wins after this although others might still answer
    keys_kept: Seconds = 86_400.0
    answers_bytes: Count = 256 << 20  # bodies of answers that each listener keeps
    credentials: tuple[str, ...] = ("authorization", "cookie")  # headers that belong to the digest of a request
    requests_max: Annotated[int, msgspec.Meta(ge=1)] = 10_000  # under way at one engine; past it 503
    transaction_header: str = ""  # a header in which an outside system supplies the transaction number
    tell_server: bool = False  # servers see Holdfast-Transaction, -Key, -Time and -Seed
    routes: tuple[Route, ...] = ()
    compare: ComparisonRules = ComparisonRules()
    aliases: tuple[AliasRule, ...] = ()
    effects: tuple[EffectRule, ...] = ()
    lag_max: LagLimit = LagLimit()
    history_max: HistoryLimit = HistoryLimit()

    # --- the names of its destinations -------------------------------------------------------------------------------

    @property
    def definition(self) -> str:
        return f"{PREFIX}{self.name}.definition"

    @property
    def requests(self) -> str:
        return f"{PREFIX}{self.name}.requests"

    @property
    def disagreements(self) -> str:
        return f"{PREFIX}{self.name}.disagreements"

    @property
    def effects_queue(self) -> str:
        return f"{PREFIX}{self.name}.effects"

    @property
    def results(self) -> str:
        return f"{PREFIX}{self.name}.results"


# The subscriptions of servers begin with it.
SERVERS = "server."


def subscription_of(server: str) -> str:
    """The subscription in which the requests of a server wait."""
    return f"{SERVERS}{checked_name(server, 'server')}"


def checked_name(name: str, what: str = "domain") -> str:
    """The name, if it is one; BadName says what a name is made of."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise BadName(f"{name!r:.80} is no name of a {what}: use up to 63 of a-z, 0-9, '-' and '_', with a letter or digit first")
    return name


def checked(domain: Domain) -> Domain:
    """The definition, if it makes sense; BadSetting names the setting and says what to write."""
    checked_name(domain.name)
    for rule in domain.keys:
        if sum(map(bool, (rule.path, rule.header, rule.json))) != 1:
            raise BadSetting("a rule for keys names one place: path, header or json", setting="keys")
        if rule.path and not _groups_in(rule.path, "keys"):
            raise BadSetting(
                f"path {rule.path!r} has no group; put the key into parentheses, as in '/accounts/([^/]+)'", setting="keys"
            )
    if domain.order == "key" and not domain.keys:
        raise BadSetting("order by key needs rules that say where keys are found; add `keys`", setting="keys")
    for alias in domain.aliases:
        if sum(map(bool, (alias.cookie, alias.header, alias.json))) != 1:
            raise BadSetting(f"alias {alias.name!r} names one place: cookie, header or json", setting="aliases")
    if domain.session_cookie and domain.session_header:
        raise BadSetting("a session is named by a cookie or by a header, not by both", setting="session_header")
    return domain


def _groups_in(pattern: str, setting: str) -> int:
    try:
        return re.compile(pattern).groups
    except re.error as problem:
        raise BadSetting(f"{pattern!r} is no regular expression: {problem}", setting=setting) from problem


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Domain)


def encode(domain: Domain) -> bytes:
    return _encoder.encode(domain)


def decode(data: bytes) -> Domain:
    """The definition in the data of an event; BadSetting for one that cannot be read."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as problem:
        raise BadSetting(f"this is no definition of a domain: {problem}", setting="definition") from problem
