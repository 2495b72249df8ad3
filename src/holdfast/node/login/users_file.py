"""The users file on disk: read with suspicion, changed in one step.

A user of the machine who can write it can let anybody in, and one who can read it can guess passwords at leisure: a file that
others may read or write is refused. A change keeps everything else in the file as it was written, comments included: only the
lines of the one user change. The result is read again before it takes the old file's place, so that a change that would do
anything else is not made.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import replace
from pathlib import Path

from holdfast.access import users as access
from holdfast.access.users import User, Users
from holdfast.errors import BadSetting

_HEADER = re.compile(r"\s*\[")
BYTES_MAX = 16 << 20


def load(path: Path) -> Users:
    """BadSetting, with the file's name and what is wrong, for anything but a good file."""
    return _judged(path, _read(path))


def load_text(path: Path) -> str:
    """The text of a good file; BadSetting as `load`."""
    text = _read(path)
    _judged(path, text)
    return text


def add(path: Path, name: str, password: str, certificate: str = "") -> None:
    """Add a user, with the hash of a password, a certificate's name, or both; create the file if it is missing."""
    text = check_new(path, name)
    lines = [f"[users.{_key(name)}]"]
    lines += [f'password = "{password}"'] if password else []
    lines += [f"certificate = {_quoted(certificate)}"] if certificate else []
    before = text if not text or text.endswith("\n") else text + "\n"
    _replace(path, text, before + ("\n" if before else "") + "\n".join(lines) + "\n", name, User(name, password, certificate))


def check_new(path: Path, name: str) -> str:
    """The text of the file, if this could be a new user in it: checked before the password is asked for."""
    access.check_name(name)
    text = _read(path) if path.exists() else ""
    if name in _judged(path, text).by_name:
        raise BadSetting(f"{path}: there is a user {name!r} already; give a new password with `holdfast user password`")
    return text


def check_known(path: Path, name: str) -> str:
    """The text of the file, if it has this user."""
    text = _read(path)
    known = _judged(path, text).by_name
    if name not in known:
        raise BadSetting(f"{path}: there is no user {name!r}; there are {', '.join(known) or 'none'}", name=name)
    return text


def remove(path: Path, name: str) -> None:
    text = check_known(path, name)
    lines = text.splitlines(keepends=True)
    begin, end = _section(path, lines, name)
    _replace(path, text, "".join(lines[:begin] + lines[end:]), name, None)


def change_password(path: Path, name: str, password: str) -> None:
    text = check_known(path, name)
    lines = text.splitlines(keepends=True)
    begin, end = _section(path, lines, name)
    kept = [line for line in lines[begin + 1 : end] if not re.match(r"\s*password\s*=", line)]
    changed = [*lines[:begin], lines[begin], f'password = "{password}"\n', *kept, *lines[end:]]
    _replace(path, text, "".join(changed), name, replace(_judged(path, text).by_name[name], password=password))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            _check_mode(path, os.fstat(file.fileno()))
            return file.read(BYTES_MAX).decode()
    except OSError as problem:
        raise BadSetting(
            f"users file {path} cannot be read ({problem.strerror}); make one with `holdfast user add {path} NAME`"
        ) from problem
    except UnicodeDecodeError as problem:
        raise BadSetting(f"users file {path} is not text in UTF-8; write it again with an editor") from problem


def _check_mode(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadSetting(f"users file {path} is no regular file; name a file")
    if found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise BadSetting(
            f"users file {path} has mode {stat.S_IMODE(found.st_mode):04o}: others could read or change it; chmod 600 {path}",
            path=str(path),
        )


def _judged(path: Path, text: str) -> Users:
    try:
        return access.read(text)
    except BadSetting as problem:
        raise BadSetting(f"users file {path}: {problem}", **problem.fields) from problem


def _section(path: Path, lines: list[str], name: str) -> tuple[int, int]:
    """The lines of one user, from the header to the one before the next header."""
    header = re.compile(rf"\s*\[\s*users\s*\.\s*(?:\"{re.escape(name)}\"|'{re.escape(name)}'|{re.escape(name)})\s*\]\s*(?:#.*)?")
    begin = next((number for number, line in enumerate(lines) if header.fullmatch(line.rstrip("\r\n"))), None)
    if begin is None:
        raise BadSetting(f"{path}: the user {name!r} is not written under a header [users.{name}]; change it with an editor")
    end = next((number for number in range(begin + 1, len(lines)) if _HEADER.match(lines[number])), len(lines))
    return begin, end


def _replace(path: Path, old: str, text: str, name: str, user: User | None) -> None:
    """Replace the file by one in which only this user is changed or gone. A reader sees the old or the new one, also after a
    crash."""
    was, is_now = _judged(path, old), _judged(path, text)
    others = {each: found for each, found in was.by_name.items() if each != name}
    if is_now != Users({**others, name: user} if user else others, was.access):
        raise BadSetting(f"{path} is written in a way that cannot be changed by this command; change it with an editor")
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _keep_owner(path, file.fileno())
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as problem:
        raise BadSetting(f"users file {path} cannot be written ({problem.strerror}); it is as it was") from problem


def _keep_owner(path: Path, descriptor: int) -> None:
    """Give it the owner of the file it replaces: a server that could read the old one must be able to read the new one."""
    if path.exists() and os.geteuid() == 0:
        found = path.stat()
        os.fchown(descriptor, found.st_uid, found.st_gid)
        os.fchmod(descriptor, found.st_mode & 0o640)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise BadSetting(f"{text!r} is no name that a certificate could have; write it without control characters")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
