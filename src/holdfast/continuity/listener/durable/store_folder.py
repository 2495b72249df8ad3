"""The folder of a store: who it belongs to, its lock, and files that are written whole or not at all."""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import shutil
import tempfile
from pathlib import Path

import msgspec

from holdfast.continuity.errors import StoreDamaged, StoreInUse, WrongStore
from holdfast.continuity.listener.durable.mark_file import Mark, MarkFile
from holdfast.errors import UnknownVersion

VERSION = 1
# Less than this is not worth a file.
MAPPED_MIN = 1 << 20


class Identity(msgspec.Struct, frozen=True):
    """The file `identity`. The id tells two stores of one name apart."""

    store: str
    domain: str
    server: str
    version: int = VERSION


def boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> bytes:
    """The id of this start of the machine."""
    return bytes.fromhex(Path(path).read_text().strip().replace("-", ""))


def adopt(image: Path, folder: Path, domain: str, server: str) -> None:
    """Make a store for a server from a copy that another one's listener took. WrongStore for a copy of another domain."""
    known = _read_identity(image / "identity")
    if known.domain != domain:
        raise WrongStore(f"the copy in {image} is of domain {known.domain!r}, not of {domain!r}")
    if (folder / "identity").exists():
        raise WrongStore(f"{folder} holds a store already; name an empty folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in sorted(image.iterdir()):
        if path.name != "identity":
            shutil.copyfile(path, folder / path.name)
            sync(folder / path.name)
    write_whole(folder / "identity", msgspec.json.encode(Identity(secrets.token_hex(8), domain, server)))


def clear(folder: Path) -> None:
    """Delete the records of a store, and whose it was. Its lock and its snapshots stay."""
    for name in (
        "identity",
        "mark",
        "lasting",
        *(f"{kind}-{number:08}" for kind in ("answers", "keys") for number in numbers(folder, kind)),
    ):
        (folder / name).unlink(missing_ok=True)
    sync(folder)


def mark_anew(folder: Path, boot: bytes) -> None:
    """Give a store that was copied a mark of this start of the machine: nothing that came after the copy was called here."""
    before = MarkFile.open(folder / "mark")
    before.close()
    (folder / "mark").unlink()
    mark = MarkFile.open(folder / "mark", is_new=True)
    mark.write(before.mark._replace(reserved_up_to=before.mark.finished, boot=boot))
    mark.close()


def lock(folder: Path) -> int:
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise StoreInUse(f"another listener uses the store in {folder}; stop it, or give this one a folder of its own") from None
    return file


def identified(folder: Path, domain: str, server: str, boot: bytes) -> tuple[Identity, MarkFile]:
    path = folder / "identity"
    is_new = not path.exists()
    if is_new:
        if numbers(folder, "answers") or numbers(folder, "keys"):
            raise StoreDamaged(f"{path} is missing, and there are records beside it; rebuild this server", file=str(path))
        mark = MarkFile.open(folder / "mark", is_new=True)
        mark.write(Mark(boot=boot))
        mark.close()
        write_whole(path, msgspec.json.encode(Identity(secrets.token_hex(8), domain, server)))
    identity = _read_identity(path)
    if (identity.domain, identity.server) != (domain, server):
        whose = f"server {identity.server!r} in domain {identity.domain!r}"
        raise WrongStore(f"the store in {folder} is of {whose}, not of {server!r} in {domain!r}; name its own folder")
    return identity, MarkFile.open(folder / "mark")


def _read_identity(path: Path) -> Identity:
    try:
        identity = msgspec.json.decode(path.read_bytes(), type=Identity)
    except msgspec.DecodeError as problem:
        raise StoreDamaged(f"{path} cannot be read: {problem}; rebuild this server", file=str(path)) from problem
    if identity.version > VERSION:
        raise UnknownVersion(f"{path} was written by a newer release; upgrade this one")
    return identity


def numbers(folder: Path, kind: str) -> list[int]:
    return sorted(int(path.name[len(kind) + 1 :]) for path in folder.glob(f"{kind}-????????"))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole, or not at all."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_bytes(data)
    sync(unfinished)
    unfinished.rename(path)
    sync(path.parent)


def mapped(folder: Path, size: int) -> bytearray | mmap.mmap:
    """So many bytes of zeros, in a file without a name if they are many: the system may write them out."""
    if size < MAPPED_MIN:
        return bytearray(size)
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a full disk is met here, not later in the middle of memory
        return mmap.mmap(file.fileno(), size)


def sync(path: Path) -> None:
    """Make a file durable, or the names in a folder."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
