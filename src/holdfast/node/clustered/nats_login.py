"""The login of a node at NATS, and TLS on the way there: the table `[nats_login]` of the cluster's file.

    [nats_login]
    user = "holdfast"
    password_file = "nats-password"    # or token_file, or credentials_file (JWT and key, as `nsc` writes them)
    ca = "nats-ca.pem"                 # TLS: who signed the certificates of the servers; also for monitors at https://
    certificate = "node.pem"           # where the servers ask for certificates of clients
    key = "node.key"

Paths are meant from the folder of the file. Secrets are in files of their own that nobody else may read. They are in no error,
log or status: what is handed to the client of NATS shows nothing when it is printed.
"""

from __future__ import annotations

import ssl
import stat
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import BadSetting

SECRET_LENGTH_MAX = 4_096


class NatsLogin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str = ""
    password_file: str = ""
    token_file: str = ""
    credentials_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""


class Hidden(dict[str, Any]):
    """Options that are not shown when they are printed."""

    def __repr__(self) -> str:
        return f"<{len(self)} options for NATS>"

    __str__ = __repr__


class Opened(NamedTuple):
    """What the client of NATS is given, and the TLS of monitors."""

    options: Hidden
    tls: ssl.SSLContext | None


def open_login(login: NatsLogin, folder: Path) -> Opened:
    """Read the files of a login; BadSetting for what cannot be."""
    _check(login)
    options = Hidden()
    if login.user:
        options |= {"user": login.user, "password": _secret(folder / login.password_file, "password_file")}
    if login.token_file:
        options["token"] = _secret(folder / login.token_file, "token_file")
    if login.credentials_file:
        file = folder / login.credentials_file
        _secret(file, "credentials_file")
        options["user_credentials"] = str(file)
    tls = _tls(login, folder)
    if tls is not None:
        options["tls"] = tls
    return Opened(options, tls)


def check_addresses(addresses: tuple[str, ...]) -> None:
    """BadSetting for an address with a password in it: it would be in every error and log."""
    for address in addresses:
        if "@" in address:
            shown = address.partition("//")[0] + "//…@" + address.rpartition("@")[2]
            raise BadSetting(f"{shown} has a login in it; put it into the table [nats_login]", setting="nats")


def _check(login: NatsLogin) -> None:
    if bool(login.user) != bool(login.password_file):
        raise _bad("user and password_file belong together; give both")
    if sum(map(bool, (login.user, login.token_file, login.credentials_file))) > 1:
        raise _bad("there is one way to log in; give user and password_file, or token_file, or credentials_file")
    if bool(login.certificate) != bool(login.key):
        raise _bad("certificate and key belong together; give both")
    if login.certificate and not login.ca:
        raise _bad("with a certificate, say whose certificates of servers to believe; give ca")


def _tls(login: NatsLogin, folder: Path) -> ssl.SSLContext | None:
    if not login.ca:
        return None
    try:
        context = ssl.create_default_context(cafile=str(folder / login.ca))
    except OSError as problem:
        raise _bad(f"ca {folder / login.ca} has no certificates that can be read ({_said(problem)})") from problem
    if login.certificate:
        try:
            context.load_cert_chain(folder / login.certificate, folder / login.key, password=lambda: b"")
        except OSError as problem:
            raise _bad(
                f"certificate {folder / login.certificate} and key {folder / login.key} cannot be used ({_said(problem)}); they "
                "are PEM files that belong together, the key without a password"
            ) from problem
    return context


def _secret(file: Path, key: str) -> str:
    """The text of a file that nobody else may read. No error has it."""
    try:
        mode, text = file.stat().st_mode, file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise _bad(f"{key} {file} cannot be read ({getattr(problem, 'strerror', None) or 'it is not text'})") from problem
    if mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise _bad(f"other users of this machine may read or change {key} {file}; do: chmod 600 {file}")
    if not 0 < len(text.strip()) <= SECRET_LENGTH_MAX:
        raise _bad(f"{key} {file} has no secret of 1 to {SECRET_LENGTH_MAX} characters")
    return text.strip()


def _bad(sentence: str) -> BadSetting:
    return BadSetting(f"[nats_login]: {sentence}", setting="nats_login")


def _said(problem: OSError) -> str:
    return problem.strerror or type(problem).__name__
