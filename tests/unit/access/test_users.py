"""The users file, read and judged: whatever does not make sense is refused with its place (E7)."""

from __future__ import annotations

import pytest

from holdfast.access.users import read
from holdfast.errors import BadSetting

HASH = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
GOOD = f"""
[users.alice]
password = "{HASH}"
certificate = "alice.example.com"

[users.bob]
certificate = "bob"

[groups]
clerks = ["alice", "bob"]

[[access]]
who = "@clerks"
destination = "orders.*"
actions = ["send", "receive"]

[[access]]
who = "*"
destination = "bills"
actions = ["manage"]
deny = true
"""


def test_a_good_file_says_who_there_is_and_what_they_may_do() -> None:
    users = read(GOOD)

    assert sorted(users.by_name) == ["alice", "bob"]
    assert users.by_name["alice"].password == HASH
    assert users.access.may("bob", "send", "orders.new")
    assert not users.access.may("bob", "manage", "bills")


def test_an_empty_file_has_nobody() -> None:
    assert read("").by_name == {}


def test_a_certificate_logs_in_the_one_user_it_names() -> None:
    users = read(GOOD)

    found = [users.of_certificate(names) for names in (["x", "bob"], ["bob", "alice.example.com"], ["carol"], [])]

    assert [user.name if user else None for user in found] == ["bob", None, None, None]


def test_a_user_is_shown_without_the_hash() -> None:
    assert HASH not in repr(read(GOOD))
    assert HASH not in repr(read(GOOD).by_name["alice"])


BOB = '[users.bob]\ncertificate = "bob"\n'
RULE = BOB + '[[access]]\nwho = "bob"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("users = ", "not TOML"),
        ("[user.bob]", "unknown key 'user'"),
        ("users = 5", "users is no table"),
        ("[users]\nbob = 5", r"\[users.bob\] is no table"),
        ("[users.bob]", "neither password nor certificate"),
        ('[users.bob]\npassword = ""\ncertificate = ""', "neither password nor certificate"),
        ("[users.bob]\npassword = 5", "password must be given, as text"),
        ('[users.bob]\npassword = "s3cret"', "not an argon2id hash"),
        ('[users.bob]\npassword = "$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aGFzaA"', "not an argon2id hash"),
        ('[users.bob]\npasword = "x"', "unknown key 'pasword'"),
        ('[users."b/b"]\ncertificate = "b"', "cannot name a user"),
        ('[users._b]\ncertificate = "b"', "cannot name a user"),
        (f'[users.{"b" * 65}]\ncertificate = "b"', "cannot name a user"),
        (BOB + '[users.carol]\ncertificate = "bob"', "the same certificate"),
        (BOB + "groups = 5", "unknown key 'groups'"),  # TOML reads it as bob's
        ("groups = 5", "groups is no table"),
        ('[groups]\nclerks = "bob"', "must be a list of texts"),
        ('[groups]\nclerks = ["bob"]', "names the user 'bob', who does not exist"),
        ('[groups]\n"@x" = []', "cannot name a user or group"),
        ('[access]\nwho = "*"', r"written \[\[access\]\]"),
        ("access = [5]", "is no table"),
        (BOB + '[[access]]\ndestination = "a"\nactions = ["send"]', "who must be given"),
        (BOB + '[[access]]\nwho = "carol"\ndestination = "a"\nactions = ["send"]', "'carol' is neither a user"),
        (BOB + '[[access]]\nwho = "@none"\ndestination = "a"\nactions = ["send"]', "'@none' is neither a user"),
        (RULE + 'actions = ["send"]', "destination must be given"),
        (RULE + 'destination = ""\nactions = ["send"]', "destination must be given"),
        (RULE + 'destination = "a b"\nactions = ["send"]', "number 1: destination: wildcard 'a b'"),
        (RULE + 'destination = "a"', "actions must be a list"),
        (RULE + 'destination = "a"\nactions = "send"', "actions must be a list"),
        (RULE + 'destination = "a"\nactions = []', "actions is empty"),
        (RULE + 'destination = "a"\nactions = ["write"]', "no action 'write'; there are send, receive, browse, manage"),
        (RULE + 'destination = "a"\nactions = ["send"]\ndeny = "yes"', "deny is true or false"),
        (RULE + 'destination = "a"\nactions = ["send"]\nallow = true', "unknown key 'allow'"),
    ],
)
def test_what_does_not_make_sense_is_refused_with_its_place_and_never_with_a_secret(text: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said) as refusal:
        read(text)

    assert "s3cret" not in refusal.value.sentence
