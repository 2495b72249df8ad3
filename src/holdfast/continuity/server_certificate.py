"""The certificate with which a program of a domain takes HTTP over TLS: the engine for clients, the egress for its server."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.wire import tls


class ServerCertificate(NamedTuple):
    """Files, PEM. With `client_ca` only those are taken who show a certificate of these authorities."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def checked(self) -> ServerCertificate:
        """The same, if the files can be used; BadSetting says which cannot."""
        tls.server_context(self.certificate, self.key, self.client_ca)
        return self

    @property
    def for_uvicorn(self) -> dict[str, Any]:
        """The options of `uvicorn.Config`."""
        options: dict[str, Any] = {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        if self.client_ca is not None:
            options |= {"ssl_ca_certs": self.client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return options
