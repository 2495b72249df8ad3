"""Certificates for tests: an authority of the test's own, and what it signs, as PEM files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import NamedTuple

import trustme


class Pem(NamedTuple):
    """A certificate, and the key that belongs to it."""

    certificate: Path
    key: Path


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def issue(self, *names: str, common_name: str | None = None, not_after: datetime.datetime | None = None) -> Pem:
        """A certificate for these names, in files of its own."""
        made = self._ca.issue_cert(*names, common_name=common_name, not_after=not_after)
        stem = f"{len(list(self._folder.iterdir()))}-{common_name or names[0]}"
        pem = Pem(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        pem.certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
        pem.key.write_bytes(made.private_key_pem.bytes())
        pem.key.chmod(0o600)
        return pem

    def issue_expired(self, *names: str) -> Pem:
        return self.issue(*names, not_after=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
