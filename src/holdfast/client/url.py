"""The URL of a client: where its events are.

file:DIR                          a journal in a folder, opened by this process: relative, absolute, or ~/DIR in your home
file:DIR?journal_size=1G          the same with settings: journal_size, reserve, segment_size, as of `holdfast serve`
memory:                           nothing on disk, gone at close; each its own, for tests
memory:NAME                       the same, shared by all clients of this process with the same name, blocking or not
file:DIR?create_on_use=no         refuse destinations that were not created (`serve --no-create-on-use`); also for memory:
holdfast://host[:7400][,host…]    a server, or the first of several that answers
holdfasts://host…                 the same over TLS; options: ca (the authority to trust), certificate and key (of this client)
holdfast[s]://user[:password]@…   as a user; special characters are written %40 (@), %2F (/), %3F (?), %3A (:)

A URL is shown and logged with `***` for its password.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from holdfast.errors import BadUrl

PORT_DEFAULT = 7400
URL_VARIABLE = "HOLDFAST_URL"
PASSWORD_VARIABLE = "HOLDFAST_PASSWORD"
FILE_OPTIONS = ("journal_size", "reserve", "segment_size", "create_on_use", "managers")
MEMORY_OPTIONS = ("create_on_use", "managers")
YES_OR_NO = ("create_on_use", "insecure")
POSSIBLE = "file:DIR, memory:, memory:NAME, holdfast://[USER@]HOST[:PORT][,HOST…] and the same with holdfasts:// for TLS"
SERVER_OPTIONS = {"holdfast": ("insecure",), "holdfasts": ("ca", "certificate", "key")}


@dataclass(frozen=True)
class FileUrl:
    folder: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MemoryUrl:
    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Credentials:
    """The user of a client, and the proof: a password, a certificate, or none."""

    user: str = ""
    password: str = field(default="", repr=False)
    has_certificate: bool = False

    @property
    def missing(self) -> str:
        """What is missing for a login, and how to give it; "" when nothing is."""
        if self.password or self.has_certificate:
            return ""
        if not self.user:
            return "this client named no user; write holdfasts://USER@HOST, and the password in HOLDFAST_PASSWORD"
        return (
            f"this client gave no password for {self.user!r}; put it in HOLDFAST_PASSWORD, say connect(…, password=…), or name a "
            "certificate with ?certificate=FILE&key=FILE"
        )


@dataclass(frozen=True)
class ServerUrl:
    hosts: tuple[tuple[str, int], ...]
    credentials: Credentials = Credentials()
    is_tls: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    is_insecure: bool = False  # a password may travel in the clear


Url = FileUrl | MemoryUrl | ServerUrl


def or_from_environment(url: str | None) -> str:
    """The URL that was given, or else that of the environment. BadUrl where there is neither."""
    found = url if url is not None else os.environ.get(URL_VARIABLE)
    if not found and url is None:
        raise BadUrl(f"no URL was given, and {URL_VARIABLE} is not set; say one of {POSSIBLE}, or set {URL_VARIABLE}")
    return found or ""


def parse(url: str) -> Url:
    """Read a URL. BadUrl says what is possible."""
    if not isinstance(url, str):
        raise BadUrl(f"a URL is text, not {type(url).__name__}; possible are {POSSIBLE}")
    scheme, colon, rest = url.partition(":")
    place, has_options, options = rest.partition("?")
    shown = without_password(url)
    if not colon or scheme not in ("file", "memory", *SERVER_OPTIONS):
        raise BadUrl(f"{shown!r} is not a place for events; possible are {POSSIBLE}", url=shown)
    known = {"file": FILE_OPTIONS, "memory": MEMORY_OPTIONS, **SERVER_OPTIONS}[scheme]
    given = dict(_option(each, scheme, known, shown) for each in options.split("&")) if has_options else {}
    if scheme == "file":
        return _file(place, given, shown)
    return _memory(place, given, shown) if scheme == "memory" else _server(place, given, shown, is_tls=scheme == "holdfasts")


def parse_with_password(url: str, password: str | None = None) -> Url:
    """Read a URL, and add the password it lacks: the given one, or else that of the environment."""
    parsed = parse(url)
    user = parsed.credentials.user if isinstance(parsed, ServerUrl) else ""
    if password is not None and not user:
        shown = without_password(url)
        raise BadUrl(f"{shown!r} names no user for the password; write holdfasts://USER@HOST", url=shown)
    if not isinstance(parsed, ServerUrl) or not user:
        return parsed
    chosen = password or parsed.credentials.password or os.environ.get(PASSWORD_VARIABLE, "")
    return replace(parsed, credentials=Credentials(user, chosen))


def credentials_of(url: Url) -> Credentials:
    return replace(url.credentials, has_certificate=bool(url.certificate)) if isinstance(url, ServerUrl) else Credentials()


def without_password(url: str) -> str:
    """The URL as it may be shown. A password that is not written with % signs may have anything in it up to the last @."""
    scheme, _, rest = url.partition(":")
    slashes = rest[: len(rest) - len(rest.lstrip("/"))]
    secret, at, host = rest[len(slashes) :].rpartition("@")
    user, colon, _ = secret.partition(":")
    return f"{scheme}:{slashes}{user}:***@{host}" if at and colon and scheme not in ("file", "memory") else url


def _option(text: str, scheme: str, known: tuple[str, ...], url: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if "@" in name:
        raise BadUrl(f"{url!r} has a ? before an @; write %3F for ? in a password", url=url)
    if name in YES_OR_NO and name in known and value not in ("yes", "no"):
        raise BadUrl(f"{url!r}: {name} is yes or no; write ?{name}=yes, ?{name}=no, or leave it out", url=url)
    if name not in known or not equals:
        raise BadUrl(f"{url!r}: there is no option {name!r} for {scheme}: URLs; there are {', '.join(known)}", url=url)
    return name, unquote(value)


def _file(place: str, options: dict[str, str], url: str) -> Url:
    path = unquote(place)
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise BadUrl(f"{url!r} names the machine {host!r}; write file:DIR or file:///DIR, a folder of this one", url=url)
        path = "/" + rest
    if not path or "\0" in path:
        raise BadUrl(f"{url!r} names no folder; write file:DIR, such as file:./events", url=url)
    return FileUrl(os.path.expanduser(path), tuple(options.items()))


def _memory(place: str, options: dict[str, str], url: str) -> Url:
    if place.startswith("/"):
        raise BadUrl(f"{url!r}: a memory name has no slash in front; write memory: or memory:NAME", url=url)
    return MemoryUrl(unquote(place), tuple(options.items()))


def _server(place: str, options: dict[str, str], url: str, *, is_tls: bool) -> Url:
    scheme = "holdfasts" if is_tls else "holdfast"
    if not place.startswith("//"):
        raise BadUrl(f"{url!r} lacks the slashes; write {scheme}://HOST[:PORT]", url=url)
    who, at, rest = place[2:].rpartition("@")
    hosts, _, path = rest.partition("/")
    if path or "/" in who or "@" in who:
        raise BadUrl(
            f"{url!r} has more than hosts; write {scheme}://[USER[:PASSWORD]@]HOST[:PORT][,HOST…], nothing behind them, "
            "and %40 for @, %2F for / in a password",
            url=url,
        )
    user, _, password = who.partition(":")
    if at and not user:
        raise BadUrl(f"{url!r} has a password and no user; write {scheme}://USER:PASSWORD@HOST", url=url)
    if "key" in options and "certificate" not in options:
        raise BadUrl(f"{url!r} has a key and no certificate; write both, or neither", url=url)
    return ServerUrl(
        tuple(_host(each.strip(), url) for each in hosts.split(",")),
        Credentials(unquote(user), unquote(password)),
        is_tls,
        ca=os.path.expanduser(options.get("ca", "")),
        certificate=os.path.expanduser(options.get("certificate", "")),
        key=os.path.expanduser(options.get("key", "")),
        is_insecure=options.get("insecure") == "yes",
    )


def _host(text: str, url: str) -> tuple[str, int]:
    """Host and port; an IPv6 address stands in brackets."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise BadUrl(f"{url!r}: {text!r} is not an IPv6 address in brackets; write [::1]:{PORT_DEFAULT}", url=url)
        port = rest[1:]
    else:
        host, _, port = text.partition(":")
    if not host:
        raise BadUrl(f"{url!r} names no host; write holdfast://HOST[:PORT]", url=url)
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65_535):
        raise BadUrl(f"{url!r}: {port!r} is not a port; write a number in 1..65535 or leave it out for {PORT_DEFAULT}", url=url)
    return host, int(port) if port else PORT_DEFAULT
