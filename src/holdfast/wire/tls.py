"""TLS as a filter of bytes: encrypted bytes of the network go in, plain bytes for the link come out, and the other way round.

    network ─▶ TlsFilter.decrypt ─▶ FrameDecoder          link.send ─▶ TlsFilter.encrypt ─▶ network

It does no I/O. So a link over TLS is the same link on any loop, a connection that never ends its handshake is one more that has
not said Hello, and a peer that does not speak TLS can be told so in words. TLS 1.2 or newer.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from holdfast.errors import BadSetting, HoldfastError, LoginFailed, ProtocolError, Untrusted
from holdfast.wire.frame import Buffer

# The most that one TLS record holds.
RECORD_BYTES = 16 << 10
# How every TLS connection begins: a handshake record, and a version. Read as a frame of ours, it would be 64 KiB long.
_BEGINNINGS = (b"\x16\x03\x01", b"\x16\x03\x02", b"\x16\x03\x03")
# Kinds of alternative names in a certificate that can name a user.
_KINDS_OF_NAMES = ("DNS", "email", "URI")
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_MESSAGE")
_OF_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "HANDSHAKE_FAILURE")


def is_handshake(data: bytes) -> bool:
    """Tell whether a connection that begins so means to speak TLS."""
    return any(beginning.startswith(data[:3]) for beginning in _BEGINNINGS)


class TlsFilter:
    """One end of one TLS connection."""

    def __init__(self, context: ssl.SSLContext, server_name: str | None = None) -> None:
        """A client names the server it means to reach; a server names nobody."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name)
        self.is_client = server_name is not None
        self.is_ready = False
        self._handshake_bytes = 0

    @property
    def held_bytes(self) -> int:
        """At most so many bytes are kept here: an unfinished handshake, or part of a record."""
        return self._incoming.pending if self.is_ready else self._handshake_bytes

    def begin(self) -> bytes:
        """Return the first bytes of a client."""
        self._shake_hands()
        return self.waiting()

    def waiting(self) -> bytes:
        """Return the bytes that TLS itself has to say: its handshake, an alert."""
        return self._outgoing.read()

    def encrypt(self, data: Buffer) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """Return plain bytes, as far as they are complete. HoldfastError ends the link; `waiting` may tell the other side why."""
        self._incoming.write(data)
        if not self.is_ready:
            self._handshake_bytes += len(data)
        parts = []
        try:
            if self.is_ready or self._shake_hands():
                while part := self._tls.read(RECORD_BYTES):
                    parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        except ssl.SSLError as problem:
            raise (_of_server(problem) if self.is_client else _of_client(problem)) from problem
        return b"".join(parts)

    def end(self) -> bytes:
        """Return the last bytes of TLS. Without them the other side could not tell an end from a cut."""
        if not self.is_ready:
            return b""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the last bytes of the other side are not awaited
        return self._outgoing.read()

    def certificate_names(self) -> tuple[str, ...]:
        """Return the names in the certificate of the other side; none if it showed none."""
        shown: dict[str, Any] = self._tls.getpeercert() or {}
        subject = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
        others = [value for kind, value in shown.get("subjectAltName", ()) if kind in _KINDS_OF_NAMES]
        return (*subject, *others)

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_ready = True
        return True


def _of_server(problem: ssl.SSLError) -> HoldfastError:
    """Return the error of a client about the server it tried to reach."""
    reason = problem.reason or "no reason"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return Untrusted(
            f"the server's certificate cannot be trusted ({problem.verify_message}); check the host in the URL, "
            "or name the authority that signed the certificate with ?ca=FILE",
            reason=problem.verify_message,
        )
    if "ALERT" in reason and any(word in reason for word in _OF_CERTIFICATES):
        return LoginFailed(
            f"the server refused this client's certificate, or wants one and got none ({reason}); "
            "name yours with ?certificate=FILE&key=FILE"
        )
    if reason in _NO_TLS:
        return ProtocolError(f"the server does not speak TLS on this port ({reason}); write holdfast:// instead of holdfasts://")
    return ProtocolError(f"TLS with the server failed ({reason}); are host and port right?")


def _of_client(problem: ssl.SSLError) -> HoldfastError:
    """Return the error of a server about a client, for its log."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return ProtocolError(f"the client's certificate cannot be trusted: {problem.verify_message}")
    return ProtocolError(f"TLS with the client failed: {problem.reason or 'no reason'}")


def server_context(
    certificate: Path, key: Path, client_ca: Path | None = None, *, is_certificate_required: bool = False
) -> ssl.SSLContext:
    """Return the context of a server: its certificate, and the authority it trusts for those of clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # links last long: nobody needs to resume TLS quickly
    load_certificate(context, certificate, key)
    if client_ca is not None:
        _load_authority(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if is_certificate_required else ssl.CERT_OPTIONAL
    return context


def client_context(ca: Path | None = None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """Return the context of a client: the authority it trusts (by default those of the system), and its certificate, if any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is None:
        context.load_default_certs()
    else:
        _load_authority(context, ca)
    if certificate is not None:
        load_certificate(context, certificate, key or certificate)
    return context


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Load them; BadSetting if they cannot be read or do not belong together. Call it again to renew them for new connections."""
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError) as problem:
        raise BadSetting(
            f"certificate {certificate} and key {key} cannot be used ({_reason(problem)}); "
            "give two PEM files that belong together, the key without a passphrase"
        ) from problem


def _load_authority(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as problem:
        raise BadSetting(
            f"authority {ca} cannot be used ({_reason(problem)}); give a PEM file with the certificates to believe"
        ) from problem


def _reason(problem: OSError) -> str:
    return str((isinstance(problem, ssl.SSLError) and problem.reason) or problem.strerror or problem)


def _no_password() -> str:
    """Return a password that fits no key: otherwise OpenSSL would ask for a passphrase at the terminal."""
    return ""
