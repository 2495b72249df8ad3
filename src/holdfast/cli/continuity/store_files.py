"""`holdfast store put|get|ls|rm`: files of a store, through one of its fronts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from http.client import HTTPResponse

FRONT_DEFAULT = "http://127.0.0.1:8090"
COPIED_BYTES = 1 << 20
EXITS = (0, 1, 2, 3, 4)

Front = Annotated[
    str,
    typer.Option(
        "--front", envvar="HOLDFAST_STORE", metavar="URL", help="A front of the store, as `holdfast store serve` prints it."
    ),
]
Local = Annotated[str, typer.Argument(metavar="FILE", help="A file here, or - for stdin or stdout.")]
FileName = Annotated[str, typer.Argument(metavar="NAME", help="The name in the store, as in reports/may.csv.")]
Prefix = Annotated[str, typer.Argument(metavar="[FOLDER]", help="A folder of the store; the top without it.")]
New = Annotated[bool, typer.Option("--new", help="Refuse if there is a file of this name.")]
Recursive = Annotated[bool, typer.Option("--recursive", help="With everything below, not only what is in the folder itself.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do not fail if it is not there.")]
Type = Annotated[str, typer.Option("--content-type", metavar="TYPE", help="What the file is, for those who get it over HTTP.")]


def add_to(group: typer.Typer) -> None:
    described = help_text.described
    group.command(
        "put",
        **described(
            "Put a file into a store, whole or not at all.",
            [
                "holdfast store put ./report.csv reports/may.csv",
                "echo hello | holdfast store put - greeting --content-type text/plain --new",
            ],
            EXITS,
        ),
    )(put)
    group.command(
        "ls",
        **described(
            "List the files of a store, or of a folder in it.",
            ["holdfast store ls", "holdfast store ls reports --recursive --json"],
            EXITS,
        ),
    )(ls)
    group.command(
        "get",
        **described(
            "Get a file out of a store.",
            ["holdfast store get reports/may.csv ./copy.csv", "holdfast store get reports/may.csv - > copy.csv"],
            EXITS,
        ),
    )(get)
    group.command(
        "rm",
        **described(
            "Remove a file from a store.",
            ["holdfast store rm reports/may.csv", "holdfast store rm reports/may.csv --if-exists"],
            EXITS,
        ),
    )(rm)


def put(
    file: Local, name: FileName, new: New = False, content_type: Type = "", front: Front = FRONT_DEFAULT, json: Json = False
) -> None:
    from pathlib import Path

    from holdfast.cli.output import show
    from holdfast.errors import BadSetting

    headers = {"content-type": content_type} if content_type else {}
    if new:
        headers["if-none-match"] = "*"
    try:
        source: Any = sys.stdin.buffer if file == "-" else Path(file).expanduser().open("rb")
    except OSError as problem:
        raise BadSetting(f"the file {file} cannot be read: {problem.strerror}", setting="file") from problem
    with source, _asked(front, "PUT", name, headers, _chunks(source)) as answer:
        digest = answer.headers["etag"].strip('"')
        told = {"name": name, "digest": digest, "write": int(answer.headers["holdfast-write"])}
        show(told, as_json=json, sentence=f"put {name} ({digest[:12]})")


def get(name: FileName, file: Local, front: Front = FRONT_DEFAULT, json: Json = False) -> None:
    import http.client
    from pathlib import Path

    from holdfast.cli.output import show
    from holdfast.errors import BadSetting, Unavailable

    with _asked(front, "GET", name, {}) as answer:
        try:
            if file == "-":
                sys.stdout.buffer.writelines(_chunks(answer))
                sys.stdout.buffer.flush()
                return
            part = Path(f"{file}.part").expanduser()
            with part.open("wb") as target:
                target.writelines(_chunks(answer))
        except http.client.IncompleteRead as problem:
            raise Unavailable(f"the front broke off; {name} is not whole, get it again") from problem
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise BadSetting(f"the file {file} cannot be written: {problem.strerror}", setting="file") from problem
        part.replace(Path(file).expanduser())
        digest = answer.headers["etag"].strip('"')
        show({"name": name, "file": file, "digest": digest}, as_json=json, sentence=f"got {name} ({digest[:12]})")


def ls(folder: Prefix = "", recursive: Recursive = False, front: Front = FRONT_DEFAULT, json: Json = False) -> None:
    from datetime import UTC, datetime
    from urllib.parse import urlencode

    import msgspec

    from holdfast.cli.output import show_rows

    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    rows: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        query = urlencode({"prefix": prefix, "after": after, "recursive": int(recursive)})
        with _asked(front, "GET", "", {}, query=query) as answer:
            page = msgspec.json.decode(answer.read())
        rows += [{"name": each} for each in page["folders"]]
        rows += [
            {**each, "modified": datetime.fromtimestamp(each.pop("modified_us") // 1_000_000, UTC).isoformat()}
            for each in page["files"]
        ]
        after = page["next"]
    rows.sort(key=lambda row: str(row["name"]))
    if not json:  # a line for each, whatever an earlier release took for a name
        rows = [{**row, "name": row["name"] if row["name"].isprintable() else repr(row["name"])} for row in rows]
    show_rows(rows, ("name", "size", "modified"), as_json=json)


def rm(name: FileName, if_exists: IfExists = False, front: Front = FRONT_DEFAULT, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity.errors import NoSuchFile

    try:
        with _asked(front, "DELETE", name, {}):
            pass
    except NoSuchFile:
        if not if_exists:
            raise
        show({"name": name, "removed": False}, as_json=json, sentence=f"there was no file {name}")
        return
    show({"name": name, "removed": True}, as_json=json, sentence=f"removed {name}")


def _chunks(source: Any) -> Iterator[bytes]:
    while chunk := source.read(COPIED_BYTES):
        yield chunk


@contextmanager
def _asked(
    front: str, method: str, name: str, headers: dict[str, str], body: Any = None, *, query: str = ""
) -> Iterator[HTTPResponse]:
    """Ask a front; its refusals are the errors of Holdfast."""
    import ssl
    from http.client import InvalidURL
    from urllib.parse import quote, urlsplit

    from holdfast.continuity.storage.http_connections import HttpConnections, shown_token
    from holdfast.errors import BadUrl, Unreachable

    parts = urlsplit(front if "://" in front else f"http://{front}")
    connections = HttpConnections(parts.netloc, ssl.create_default_context() if parts.scheme == "https" else None)
    target = f"{parts.path.rstrip('/')}/{quote(name)}" + (f"?{query}" if query else "")
    with ExitStack() as opened:
        opened.callback(connections.close)
        try:
            answer = opened.enter_context(connections.asked(method, target, {**shown_token(), **headers}, body))
        except InvalidURL as problem:
            raise BadUrl(
                f"--front {front!r:.80} is no URL of a front; write http://HOST:PORT, as `holdfast store serve` prints it"
            ) from problem
        except OSError as problem:
            raise Unreachable(f"no front answers at {front} ({problem}); start one with `holdfast store serve`") from problem
        if answer.status >= 400:
            raise _error(answer.status, answer.read(4096).decode(errors="replace").strip(), front, name)
        yield answer


def _error(status: int, sentence: str, front: str, name: str) -> Exception:
    from holdfast.continuity.errors import FileDiffers, NoSuchFile, NotAnswered, NotTaken
    from holdfast.errors import AccessDenied, LoginFailed, Refused

    kinds: dict[int, Any] = {401: LoginFailed, 403: AccessDenied, 404: NoSuchFile, 412: FileDiffers, 503: NotTaken}
    if status == 504:
        return NotAnswered(status, sentence, "", "")
    return kinds.get(status, Refused)(sentence or f"{front} answered {status} to {name}")  # type: ignore[no-any-return]
