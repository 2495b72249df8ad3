"""Listings of a file store: the files and folders below a prefix, in pages.

A folder is no thing of its own: it is what names have in common up to a slash. A page of a listing without recursion passes
over the inside of each folder in one step, however many files it has.
"""

from __future__ import annotations

from typing import Any

from holdfast.continuity.storage.file_store import PAGE, FileStore
from holdfast.continuity.storage.machines.decision import Entry

# After every name that begins with a folder's: no character of a name comes after it.
LAST = "\U0010ffff"


async def listed(store: FileStore, prefix: str, after: str = "", *, limit: int = 0, is_recursive: bool = False) -> dict[str, Any]:
    """A page: `files`, `folders` (with a slash at the end), and `next` to continue after, or None."""
    limit = min(limit or PAGE, PAGE)
    files: list[dict[str, Any]] = []
    folders: list[str] = []
    while True:
        page = await store.page(prefix, after, limit if is_recursive else min(limit, 100))
        for name, entry in page:
            if len(files) + len(folders) >= limit:
                return {"files": files, "folders": folders, "next": after}
            if name <= after:
                continue  # inside a folder that was passed over
            folder, slash, _ = name[len(prefix) :].partition("/")
            if slash and not is_recursive:
                folders.append(prefix + folder + slash)
                after = prefix + folder + slash + LAST
            else:
                files.append(described(name, entry))
                after = name
        if not page:
            return {"files": files, "folders": folders, "next": None}


def described(name: str, entry: Entry) -> dict[str, Any]:
    return {
        "name": name, "size": entry.size, "digest": entry.digest, "content_type": entry.content_type,
        "write": entry.number, "modified_us": entry.modified_us,
    }  # fmt: skip
