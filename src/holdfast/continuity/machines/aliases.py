"""Aliases: values that each server chooses for itself, replaced by tokens that are alike at all (27, continuity rule 6).

    server a says   {"id": 17}   Location: /orders/17      ─┐
    server b says   {"id": 93}   Location: /orders/93      ─┴▶  {"id": 6412…}   Location: /orders/6412…   for the client
    client says     GET /orders/6412…                      ─┬▶  a is asked for /orders/17
                                                            └▶  b is asked for /orders/93

A token is derived from the transaction in which the value was first seen, the name of its rule, and which value of that name it
was in the answer: so all servers derive the same one. Rules of one name share their values, as `id` and `Location` do above. A
number becomes a number of the same kind (a whole one between 2^52 and 2^53, which every JSON reader takes), a text a text.

Answers are changed only where a rule says. In requests tokens are found wherever they stand: target, headers, body. A token that
this server does not know is refused, never passed on. Tokens carry a check, so that other values are not taken for one: a number
in that range is with a chance of 1 in 1,024, a text is not.

Memory: about 500 bytes a token. Past `tokens_max` the oldest is forgotten, alike at all servers.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.continuity import json_path
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import AliasRule
from holdfast.continuity.request import Content, Headers
from holdfast.errors import BadSetting, Damaged

TOKENS_MAX = 1_000_000
_NUMBER_MIN = 1 << 52
_CHECK_BITS = 10
_TEXT_BYTES = 13  # of the identity, in a text
_TOKEN = re.compile(rb"(?<![0-9A-Za-z.])(?:hf[a-z2-7]{26}|[4-9][0-9]{15}(?:\.0(?![0-9]))?)(?![0-9A-Za-z])")


class Alias(msgspec.Struct, frozen=True, array_like=True):
    """A value of this server, and what its tokens are made of."""

    name: str  # of the rule
    identity: bytes
    value: str
    is_number: bool


class Outgoing(NamedTuple):
    """An answer with tokens, and the aliases that are new: the store keeps them with the answer."""

    answer: Answer
    learnt: tuple[Alias, ...]


class UnknownToken(NamedTuple):
    """The request names something that this server has no value for. Refuse it."""

    token: str


class Aliases:
    """The aliases of one server."""

    def __init__(self, rules: Iterable[AliasRule], tokens_max: int = TOKENS_MAX) -> None:
        self._rules = [(rule, _expression(rule), json_path.parse(rule.json, "aliases") if rule.json else ()) for rule in rules]
        self._tokens_max = tokens_max
        self._by_value: OrderedDict[tuple[str, str], Alias] = OrderedDict()  # in the order in which they were learnt
        self._by_token: dict[str, Alias] = {}

    def __len__(self) -> int:
        return len(self._by_value)

    # --- from the server -----------------------------------------------------------------------------------------------

    def outgoing(self, transaction: str, answer: Answer) -> Outgoing:
        """Put tokens in the place of values. Bodies come first, so that a number is known as one."""
        if not self._rules:
            return Outgoing(answer, ())
        seen = _Seen(self, transaction)
        body = self._outgoing_body(answer.body, seen)
        headers = [(name, self._outgoing_header(name, value, seen)) for name, value in answer.head.headers]
        if body is not answer.body:
            headers = [(name, b"%d" % len(body) if name == b"content-length" else value) for name, value in headers]
        length = len(body) if answer.head.length >= 0 and body is not answer.body else answer.head.length
        changed = Answer(Head(answer.head.status, headers, length), body, answer.comparison, answer.outcome)
        return Outgoing(changed, tuple(seen.learnt))

    def _outgoing_body(self, body: bytes, seen: _Seen) -> bytes:
        rules = [each for each in self._rules if each[0].json]
        if not rules or body[:1] not in (b"{", b"[", b" ", b"\n", b"\r", b"\t"):
            return body
        try:
            value = msgspec.json.decode(body)
            before = seen.count
            for rule, expression, path in rules:
                json_path.change(value, path, lambda each, rule=rule, expression=expression: seen.replace(rule, expression, each))  # type: ignore[misc]
            return msgspec.json.encode(value) if seen.count > before else body
        except (ValueError, RecursionError):
            return body  # it is no JSON

    def _outgoing_header(self, name: bytes, value: bytes, seen: _Seen) -> bytes:
        for rule, expression, _ in self._rules:
            if rule.header and rule.header.lower().encode() == name:
                value = seen.replace(rule, expression, value.decode("latin-1")).encode("latin-1", "replace")
            elif rule.cookie and name == b"set-cookie":
                cookie, equals, rest = value.partition(b"=")
                if equals and cookie.strip() == rule.cookie.encode():
                    own, semicolon, attributes = rest.partition(b";")
                    token = seen.replace(rule, expression, own.decode("latin-1")).encode("latin-1", "replace")
                    value = cookie + equals + token + semicolon + attributes
        return value

    # --- to the server -------------------------------------------------------------------------------------------------

    def incoming(self, content: Content) -> Content | UnknownToken:
        """Put this server's values in the place of tokens."""
        if not self._rules:
            return content
        try:
            headers = [(name, self._incoming(value, _as_it_is)) for name, value in content.headers]
            target = self._incoming(content.target.encode("utf-8", "surrogatepass"), _in_url).decode("utf-8", "surrogatepass")
            body = self._incoming(content.body, _escaping(content.headers))
        except _Unknown as unknown:
            return UnknownToken(unknown.token)
        if len(body) != len(content.body):
            headers = [(name, b"%d" % len(body) if name == b"content-length" else value) for name, value in headers]
        return Content(content.method, target, headers, body, content.time_us, content.seed)

    def _incoming(self, text: bytes, escape: Callable[[str], str]) -> bytes:
        def own(found: re.Match[bytes]) -> bytes:
            token = found[0].decode().removesuffix(".0")
            alias = self._by_token.get(token)
            if alias is not None:
                return escape(alias.value).encode("utf-8", "surrogatepass")
            if _is_token(token):
                raise _Unknown(token)
            return found[0]

        return _TOKEN.sub(own, text)

    # --- state ---------------------------------------------------------------------------------------------------------

    def alias_of(self, name: str, value: str) -> Alias | None:
        return self._by_value.get((name, value))

    def learn(self, alias: Alias) -> None:
        """Enter an alias; one that is known already is passed over, so that a store may be read again."""
        if (alias.name, alias.value) in self._by_value:
            return
        self._by_value[alias.name, alias.value] = alias
        for token in (text_token(alias.identity), str(number_token(alias.identity))):
            self._by_token.setdefault(token, alias)
        while len(self._by_value) > self._tokens_max:
            self.forget(next(iter(self._by_value.values())))

    def is_taken(self, identity: bytes) -> bool:
        return text_token(identity) in self._by_token or str(number_token(identity)) in self._by_token

    def forget(self, alias: Alias) -> None:
        """Know this value no more: its answer is not given."""
        del self._by_value[alias.name, alias.value]
        for token in (text_token(alias.identity), str(number_token(alias.identity))):
            if self._by_token.get(token) is alias:
                del self._by_token[token]

    @staticmethod
    def encode_learnt(learnt: Sequence[Alias]) -> bytes | None:
        """Aliases that are new, for the record of their answer; None if there are none. `decode` enters them again."""
        return msgspec.msgpack.encode(list(learnt)) if learnt else None

    def encode(self) -> bytes:
        """All aliases, for a snapshot."""
        return msgspec.msgpack.encode(list(self._by_value.values()))

    def decode(self, data: bytes) -> None:
        """Enter all aliases of a snapshot, or of a record."""
        try:
            aliases = msgspec.msgpack.decode(data, type=list[Alias])
        except msgspec.DecodeError as problem:
            raise Damaged(f"aliases cannot be read: {problem}") from problem
        for alias in aliases:
            self.learn(alias)


class _Seen:
    """The values in one answer, numbered by the name of their rule."""

    def __init__(self, aliases: Aliases, transaction: str) -> None:
        self._aliases = aliases
        self._transaction = transaction
        self._numbers: dict[str, int] = {}
        self.learnt: list[Alias] = []
        self.count = 0

    def replace(self, rule: AliasRule, expression: Any, value: Any) -> Any:
        """The token for a value, or for the part of a text that the rule's expression means."""
        if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
            return value
        if expression is None or not isinstance(value, str):
            return self._token(rule.name, value)
        text = value.encode("utf-8", "surrogatepass")
        found = expression.search(text)
        if found is None or not found.group(1):
            return value
        begin, end = found.span(1)
        token = str(self._token(rule.name, text[begin:end].decode("utf-8", "surrogatepass")))
        return (text[:begin] + token.encode() + text[end:]).decode("utf-8", "surrogatepass")

    def _token(self, name: str, value: float | str) -> float | str:
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        self.count += 1
        text = value if isinstance(value, str) else repr(value)
        alias = self._aliases.alias_of(name, text)
        if alias is None:
            alias = Alias(name, self._identity(name, number), text, not isinstance(value, str))
            self._aliases.learn(alias)
            self.learnt.append(alias)
        if isinstance(value, str):
            return str(number_token(alias.identity)) if alias.is_number else text_token(alias.identity)
        return type(value)(number_token(alias.identity))

    def _identity(self, name: str, number: int) -> bytes:
        """Two values with one token would be mixed up: the next is derived while one is taken."""
        attempt = 0
        while self._aliases.is_taken(identity := identity_of(self._transaction, name, number, attempt)):
            attempt += 1
        return identity


class _Unknown(Exception):
    def __init__(self, token: str) -> None:
        self.token = token


# --- tokens --------------------------------------------------------------------------------------------------------------


def identity_of(transaction: str, name: str, number: int, attempt: int = 0) -> bytes:
    return blake2b(msgspec.msgpack.encode((transaction, name, number, attempt)), digest_size=_TEXT_BYTES).digest()


def number_token(identity: bytes) -> int:
    kept = int.from_bytes(identity[:6], "big") & ((1 << (52 - _CHECK_BITS)) - 1)
    return _NUMBER_MIN + (kept << _CHECK_BITS) + _check(kept.to_bytes(6, "big"), _CHECK_BITS)


def text_token(identity: bytes) -> str:
    checked = identity + _check(identity, 24).to_bytes(3, "big")
    return "hf" + b32encode(checked).decode().rstrip("=").lower()


def _is_token(token: str) -> bool:
    """Whether a text that looks like a token has the check of one."""
    if token.startswith("hf"):
        checked = _from_base32(token[2:])
        return checked is not None and _check(checked[:_TEXT_BYTES], 24).to_bytes(3, "big") == checked[_TEXT_BYTES:]
    number = int(token) - _NUMBER_MIN
    if not 0 <= number < _NUMBER_MIN:
        return False
    return _check((number >> _CHECK_BITS).to_bytes(6, "big"), _CHECK_BITS) == number & ((1 << _CHECK_BITS) - 1)


def _from_base32(text: str) -> bytes | None:
    number = 0
    for letter in text:
        number = number << 5 | "abcdefghijklmnopqrstuvwxyz234567".index(letter)
    spare = 5 * len(text) - 8 * (_TEXT_BYTES + 3)
    return (number >> spare).to_bytes(_TEXT_BYTES + 3, "big") if not number & ((1 << spare) - 1) else None


def _check(data: bytes, bits: int) -> int:
    return int.from_bytes(blake2b(data, digest_size=4, person=b"holdfast alias").digest(), "big") >> (32 - bits)


# --- how a value is written ----------------------------------------------------------------------------------------------


def _as_it_is(value: str) -> str:
    return value


def _in_url(value: str) -> str:
    return quote(value, safe="", errors="surrogatepass")


def _in_json(value: str) -> str:
    return msgspec.json.encode(value).decode()[1:-1]


def _escaping(headers: Headers) -> Callable[[str], str]:
    """How a value is written in a body of this type."""
    kind = next((value.lower() for name, value in headers if name == b"content-type"), b"")
    if b"json" in kind:
        return _in_json
    return _in_url if b"x-www-form-urlencoded" in kind else _as_it_is


def _expression(rule: AliasRule) -> Any:
    if not rule.pattern:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(rule.pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as problem:
        raise BadSetting(
            f"pattern {rule.pattern!r:.80} of alias {rule.name!r} is none of RE2: {problem}", setting="aliases"
        ) from problem
    if not expression.groups:
        raise BadSetting(
            f"pattern {rule.pattern!r:.80} of alias {rule.name!r} has no group; put the value into parentheses", setting="aliases"
        )
    return expression
