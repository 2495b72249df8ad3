"""The users, groups and rules of a users file, read from its text and checked. The file itself is not touched here.

    [users.alice]
    password = "$argon2id$…"           # `holdfast user add` writes it
    certificate = "alice.example.com"  # a name in a client certificate that logs her in; either of the two, or both

    [groups]
    clerks = ["alice", "bob"]

    [[access]]
    who = "@clerks"
    destination = "orders.*"
    actions = ["send", "receive"]

Everything in it must be understood: a misspelt key, or a rule for a user who does not exist, is refused with its place. Otherwise
the rule that forbids something could be skipped in silence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.access.access_list import ACTIONS, EVERYONE, AccessList, Rule
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.pattern import Pattern

NAME_LENGTH_MAX = 64
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_LENGTH_MAX - 1}}}")
HASH = re.compile(r"\$argon2id\$v=\d+\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+")


@dataclass(frozen=True)
class User:
    name: str
    password: str = field(default="", repr=False)  # its hash
    certificate: str = ""


@dataclass(frozen=True)
class Users:
    by_name: Mapping[str, User]
    access: AccessList

    def of_certificate(self, names: Iterable[str]) -> User | None:
        """Return the one user whom a certificate with these names logs in; None if several fit, or none does."""
        shown = set(names)
        found = [user for user in self.by_name.values() if user.certificate and user.certificate in shown]
        return found[0] if len(found) == 1 else None


def check_name(name: str) -> str:
    """Raise BadSetting unless a user or group may have this name. It becomes part of the ids of the user's sessions."""
    if not NAME.fullmatch(name):
        raise BadSetting(
            f"{name!r} cannot name a user or group; use 1 to 64 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit",
            name=name,
        )
    return name


def read(text: str) -> Users:
    """Return the users, groups and rules of a file. BadSetting names the place of an error in it."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadSetting(f"it is not TOML: {problem}; correct it there") from problem
    _check_keys(document, ("users", "groups", "access"), "the file")
    users = {name: _user(name, given) for name, given in _table(document, "users").items()}
    _check_certificates(users.values())
    groups = {name: _group(name, given, users) for name, given in _table(document, "groups").items()}
    rules = (_rule(number, given, users, groups) for number, given in enumerate(_list(document, "access"), 1))
    return Users(users, AccessList(tuple(rules), groups))


def _user(name: str, given: Any) -> User:
    place = f"[users.{name}]"
    check_name(name)
    if not isinstance(given, dict):
        raise BadSetting(f"{place} is no table; write the header [users.{name}] and its keys below")
    _check_keys(given, ("password", "certificate"), place)
    user = User(name, _text(given, "password", place, ""), _text(given, "certificate", place, ""))
    if not (user.password or user.certificate):
        raise BadSetting(f"{place} has neither password nor certificate, so nobody could log in as {name}; give one of them")
    if user.password and not HASH.fullmatch(user.password):
        raise BadSetting(f"{place}: password is not an argon2id hash; let `holdfast user password FILE {name}` write it")
    return user


def _check_certificates(users: Iterable[User]) -> None:
    owners: dict[str, str] = {}
    for user in users:
        if user.certificate and user.certificate in owners:
            raise BadSetting(
                f"[users.{user.name}] and [users.{owners[user.certificate]}] have the same certificate; each needs their own"
            )
        owners[user.certificate] = user.name


def _group(name: str, given: Any, users: Mapping[str, User]) -> tuple[str, ...]:
    check_name(name)
    members = _texts(given, f"[groups] {name}")
    for member in members:
        if member not in users:
            raise BadSetting(f"[groups] {name} names the user {member!r}, who does not exist; add {member!r} or take them out")
    return members


def _rule(number: int, given: Any, users: Mapping[str, User], groups: Mapping[str, tuple[str, ...]]) -> Rule:
    place = f"[[access]] number {number}"
    if not isinstance(given, dict):
        raise BadSetting(f"{place} is no table; write [[access]] and its keys below")
    _check_keys(given, ("who", "destination", "actions", "deny"), place)
    who = _text(given, "who", place)
    if who != EVERYONE and who not in users and not (who.startswith("@") and who[1:] in groups):
        raise BadSetting(f"{place}: who = {who!r} is neither a user, nor a group (@NAME), nor '*' for everyone")
    deny = given.get("deny", False)
    if not isinstance(deny, bool):
        raise BadSetting(f"{place}: deny is true or false, not {deny!r}")
    return Rule(who, _pattern(given, place), _actions(given, place), is_allowed=not deny)


def _pattern(given: dict[str, Any], place: str) -> Pattern:
    text = _text(given, "destination", place)
    try:
        return Pattern.glob(text)
    except HoldfastError as problem:
        raise BadSetting(f"{place}: destination: {problem}") from problem


def _actions(given: dict[str, Any], place: str) -> frozenset[str]:
    actions = _texts(given.get("actions"), f"{place}: actions")
    for action in actions:
        if action not in ACTIONS:
            raise BadSetting(f"{place}: there is no action {action!r}; there are {', '.join(ACTIONS)}")
    if not actions:
        raise BadSetting(f"{place}: actions is empty, so the rule says nothing; there are {', '.join(ACTIONS)}")
    return frozenset(actions)


def _check_keys(given: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in given:
        if key not in known:
            raise BadSetting(f"{place} has an unknown key {key!r}; there are {', '.join(known)}", key=key)


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise BadSetting(f"{key} is no table; write [{key}] and what belongs to it below")
    return value


def _list(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise BadSetting(f"{key} is written [[{key}]], once for each rule")
    return value


def _text(given: dict[str, Any], key: str, place: str, default: str | None = None) -> str:
    value = given.get(key, default)
    if not isinstance(value, str) or (value == "" and default is None):
        raise BadSetting(f"{place}: {key} must be given, as text in quotes")
    return value


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadSetting(f'{place} must be a list of texts, such as ["one", "two"]')
    return tuple(value)
