"""Security: how a server is protected, by its users file and its certificate, and what it refuses to do without them."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from holdfast.access.users import Users
from holdfast.errors import BadSetting
from holdfast.node.login import users_file
from holdfast.wire import tls

log = logging.getLogger("holdfast.security")


@dataclass(frozen=True)
class Security:
    """The settings. Nothing is read before `check` and the loaders are called."""

    users: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    is_certificate_required: bool = False
    is_insecure: bool = False

    def check(self, host: str, *, has_users: bool = False) -> None:
        """BadSetting for settings that contradict each other, and for a server that is open to other machines. `has_users`: it
        has users without a file of its own, those of its cluster."""
        if (self.certificate is None) != (self.key is None):
            raise BadSetting("TLS needs a certificate and its key; give both --tls-certificate and --tls-key")
        if self.client_ca is not None and self.certificate is None:
            raise BadSetting("--tls-client-ca is for TLS; give --tls-certificate and --tls-key as well")
        if self.is_certificate_required and self.client_ca is None:
            raise BadSetting("--require-certificate needs to know whose certificates to believe; give --tls-client-ca")
        if not (is_loopback(host) or self.is_insecure or ((self.users or has_users) and self.certificate)):
            raise BadSetting(
                f"--listen {host} lets other machines in; give --users, --tls-certificate and --tls-key, listen on 127.0.0.1, "
                "or say --insecure if everyone who can reach it may do everything and read everything on the way"
            )

    def load_users_text(self) -> str | None:
        """The text of the users file, which is a good one; None without a file."""
        return None if self.users is None else users_file.load_text(self.users)

    def load_users(self) -> Users | None:
        if self.users is None:
            return None
        users = users_file.load(self.users)
        if not users.by_name:
            log.warning("users file %s has no users: nobody can log in", self.users)
        return users

    def load_tls(self) -> ssl.SSLContext | None:
        if self.certificate is None or self.key is None:
            return None
        return tls.server_context(
            self.certificate, self.key, self.client_ca, is_certificate_required=self.is_certificate_required
        )

    def renew_tls(self, context: ssl.SSLContext) -> None:
        """Use the renewed certificate for new links."""
        assert self.certificate is not None and self.key is not None
        tls.server_context(self.certificate, self.key)  # which refuses what is broken, before anything is changed
        tls.load_certificate(context, self.certificate, self.key)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
