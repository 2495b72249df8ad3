"""The login at NATS: what is refused, and that no secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import BadSetting
from holdfast.node.clustered import cluster_settings
from holdfast.node.clustered.nats_login import NatsLogin, check_addresses, open_login
from tests.certificates import Authority

SECRET = "never to be seen"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "secret").chmod(0o600)
    return tmp_path


def test_without_a_login_there_are_no_options(folder: Path) -> None:
    assert open_login(NatsLogin(), folder) == ({}, None)


@pytest.mark.parametrize(
    ("login", "options"),
    [
        (NatsLogin(user="holdfast", password_file="secret"), {"user": "holdfast", "password": SECRET}),
        (NatsLogin(token_file="secret"), {"token": SECRET}),
    ],
)
def test_secrets_are_read_from_files(folder: Path, login: NatsLogin, options: dict[str, str]) -> None:
    assert open_login(login, folder).options == options


def test_credentials_stay_in_their_file(folder: Path) -> None:
    opened = open_login(NatsLogin(credentials_file="secret"), folder)

    assert opened.options == {"user_credentials": str(folder / "secret")}


def test_what_is_handed_on_shows_no_secret(folder: Path) -> None:
    opened = open_login(NatsLogin(user="holdfast", password_file="secret"), folder)

    assert SECRET not in f"{opened} {opened.options} {opened.options!r}"


def test_a_certificate_is_shown_and_an_authority_believed(folder: Path) -> None:
    authority = Authority(folder / "authority")
    pem = authority.issue("node.example.com")

    opened = open_login(NatsLogin(ca=str(authority.file), certificate=str(pem.certificate), key=str(pem.key)), folder)

    assert opened.tls is not None
    assert opened.options["tls"] is opened.tls
    assert len(opened.tls.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("login", "sentence"),
    [
        (NatsLogin(user="holdfast"), "user and password_file belong together"),
        (NatsLogin(password_file="secret"), "user and password_file belong together"),
        (NatsLogin(token_file="secret", credentials_file="secret"), "there is one way to log in"),
        (NatsLogin(ca="ca.pem", certificate="node.pem"), "certificate and key belong together"),
        (NatsLogin(certificate="node.pem", key="node.key"), "give ca"),
        (NatsLogin(token_file="missing"), "missing cannot be read"),
        (NatsLogin(token_file="open"), "chmod 600"),
        (NatsLogin(token_file="empty"), "has no secret"),
        (NatsLogin(ca="missing"), "has no certificates that can be read"),
        (NatsLogin(ca="secret"), "has no certificates that can be read"),
    ],
)
def test_a_login_that_cannot_be_is_refused(folder: Path, login: NatsLogin, sentence: str) -> None:
    (folder / "open").write_text(SECRET)
    (folder / "open").chmod(0o644)
    (folder / "empty").touch(0o600)

    with pytest.raises(BadSetting, match=sentence) as refused:
        open_login(login, folder)

    assert SECRET not in str(refused.value)


def test_a_key_of_another_certificate_is_refused(folder: Path) -> None:
    authority = Authority(folder / "authority")
    one, other = authority.issue("one.example.com"), authority.issue("other.example.com")

    with pytest.raises(BadSetting, match="PEM files that belong together"):
        open_login(NatsLogin(ca=str(authority.file), certificate=str(one.certificate), key=str(other.key)), folder)


def test_an_address_with_a_login_is_refused_without_showing_it() -> None:
    with pytest.raises(BadSetting, match=r"nats://…@h1:4222 has a login in it") as refused:
        check_addresses(("nats://h2:4222", f"nats://holdfast:{SECRET}@h1:4222"))

    assert SECRET not in str(refused.value)


def test_the_login_of_a_file_is_handed_on(folder: Path) -> None:
    file = folder / "cluster.toml"
    file.write_text(
        'name = "shop"\nnats = ["nats://h"]\nmonitors = ["https://h"]\n[managers]\nm1 = ["a"]\n'
        '[nats_login]\nuser = "holdfast"\npassword_file = "secret"\n'
    )

    read = cluster_settings.read(file)

    assert read.nats.connect_options["password"] == SECRET
    assert SECRET not in repr(read)
    file.write_text(file.read_text().replace("password_file", "pasword"))
    with pytest.raises(BadSetting, match="unknown field `pasword`"):
        cluster_settings.read(file)
