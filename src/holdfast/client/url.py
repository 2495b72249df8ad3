"""Where a client finds its events, as a URL.

file:DIR                          a journal in a folder, opened by this process (relative, or absolute with a leading /)
file:DIR?journal_size=1G          the same with settings: journal_size, reserve, segment_size, as of `holdfast serve`
memory:                           nothing on disk, gone at close; each its own, for tests
memory:NAME                       the same, shared by all of this process that say the same name
holdfast://host[:7400][,host…]    a server, or one of several: whichever answers
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from holdfast.errors import BadUrl

PORT_DEFAULT = 7400
FILE_OPTIONS = ("journal_size", "reserve", "segment_size")
POSSIBLE = "file:DIR, memory:, memory:NAME and holdfast://HOST[:PORT][,HOST…]"


@dataclass(frozen=True)
class FileUrl:
    folder: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MemoryUrl:
    name: str


@dataclass(frozen=True)
class ServerUrl:
    hosts: tuple[tuple[str, int], ...]


Url = FileUrl | MemoryUrl | ServerUrl


def parse(url: str) -> Url:
    """BadUrl, saying what is possible, for anything else."""
    if not isinstance(url, str):
        raise BadUrl(f"a URL is text, not {type(url).__name__}; possible are {POSSIBLE}")
    scheme, colon, rest = url.partition(":")
    place, has_options, options = rest.partition("?")
    readers = {"file": _file, "memory": _memory, "holdfast": _server}
    if not colon or scheme not in readers:
        raise BadUrl(f"{url!r} is not a place for events; possible are {POSSIBLE}", url=url)
    read = readers[scheme](place, url)
    if not has_options:
        return read
    if not isinstance(read, FileUrl):
        first = options.partition("&")[0].partition("=")[0]
        raise BadUrl(
            f"{url!r}: there is no option {first!r}, nor any other for {scheme}: URLs; leave out what follows '?'", url=url
        )
    return FileUrl(read.folder, tuple(_option(each, url) for each in options.split("&")))


def _option(text: str, url: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if name not in FILE_OPTIONS or not equals:
        raise BadUrl(f"{url!r}: there is no option {name!r} for file: URLs; there are {', '.join(FILE_OPTIONS)}", url=url)
    return name, unquote(value)


def _file(place: str, url: str) -> Url:
    path = unquote(place)
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise BadUrl(f"{url!r} names the machine {host!r}; write file:DIR or file:///DIR, a folder of this one", url=url)
        path = "/" + rest
    if not path or "\0" in path:
        raise BadUrl(f"{url!r} names no folder; write file:DIR, such as file:./events", url=url)
    return FileUrl(path)


def _memory(place: str, url: str) -> Url:
    if place.startswith("/"):
        raise BadUrl(f"{url!r}: a memory name has no slash in front; write memory: or memory:NAME", url=url)
    return MemoryUrl(unquote(place))


def _server(place: str, url: str) -> Url:
    if not place.startswith("//"):
        raise BadUrl(f"{url!r} lacks the slashes; write holdfast://HOST[:PORT]", url=url)
    hosts, _, path = place[2:].partition("/")
    if path or "@" in hosts:
        raise BadUrl(f"{url!r} has more than hosts; write holdfast://HOST[:PORT][,HOST…] and nothing behind them", url=url)
    return ServerUrl(tuple(_host(each.strip(), url) for each in hosts.split(",")))


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
