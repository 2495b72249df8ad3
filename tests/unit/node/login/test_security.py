"""Safe defaults: a server lets nobody in from elsewhere without users and TLS, unless it is told to (E7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import BadSetting
from holdfast.node.login.security import Security

FILE = Path("file")
USERS, TLS = {"users": FILE}, {"certificate": FILE, "key": FILE}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone_needs_nothing(host: str) -> None:
    Security().check(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "server.example.com", "*"])
def test_other_machines_need_users_and_tls_or_the_word_insecure(host: str) -> None:
    for lacking in (Security(), Security(**USERS), Security(**TLS)):  # type: ignore[arg-type]
        with pytest.raises(BadSetting, match=r"--users, --tls-certificate and --tls-key.*--insecure"):
            lacking.check(host)
    Security(**USERS, **TLS).check(host)  # type: ignore[arg-type]
    Security(is_insecure=True).check(host)


@pytest.mark.parametrize(
    ("security", "said"),
    [
        (Security(certificate=FILE), "--tls-key"),
        (Security(key=FILE), "--tls-certificate"),
        (Security(client_ca=FILE), "--tls-certificate"),
        (Security(certificate=FILE, key=FILE, is_certificate_required=True), "--tls-client-ca"),
    ],
)
def test_settings_that_need_each_other_are_asked_for(security: Security, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        security.check("127.0.0.1")
