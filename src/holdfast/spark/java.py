"""Java, which Spark needs: where it is, and what to install when it is nowhere.

    JAVA_HOME        if it is set, it is meant
    java in PATH     followed to the folder it lies in
    /usr/lib/jvm     where Debian's packages put it

Spark 4 runs on Java 17 and later. Which version one is, its own file `release` says: nothing is started to find out.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import Refused

VERSION_MIN = 17
INSTALLED_AT = Path("/usr/lib/jvm")
HOW_TO_INSTALL = (
    f"install Java {VERSION_MIN} or later: apt-get install openjdk-17-jre-headless (Debian, Ubuntu), dnf install "
    "java-17-openjdk-headless (Fedora), brew install openjdk@17 (macOS); or set JAVA_HOME to where it is"
)
_VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)


def find_java(environment: Mapping[str, str] = os.environ, installed_at: Path = INSTALLED_AT) -> Path:
    """The home of a Java that Spark can use. Refused, with what to install, when there is none."""
    chosen = environment.get("JAVA_HOME", "")
    if chosen:
        return _checked(Path(chosen))
    found = [home for home in _homes(environment.get("PATH", ""), installed_at) if (version_of(home) or 0) >= VERSION_MIN]
    if not found:
        raise Refused(f"Spark needs Java, and there is none here that it can use; {HOW_TO_INSTALL}")
    return found[0]


def version_of(home: Path) -> int | None:
    """17, 21 …; None when it does not say."""
    try:
        said = _VERSION.search((home / "release").read_text(errors="replace"))
    except OSError:
        return None
    return int(said.group(1)) if said else None


def _checked(home: Path) -> Path:
    if not os.access(home / "bin" / "java", os.X_OK):
        raise Refused(
            f"JAVA_HOME is {str(home)!r}, and there is no bin/java in it; correct it, or unset it. Otherwise {HOW_TO_INSTALL}"
        )
    version = version_of(home)
    if version is not None and version < VERSION_MIN:
        raise Refused(f"JAVA_HOME is {str(home)!r}, which is Java {version}; {HOW_TO_INSTALL}")
    return home


def _homes(path: str, installed_at: Path) -> Iterator[Path]:
    """The one in PATH first, then the oldest that is installed: the newest may be newer than Spark."""
    command = shutil.which("java", path=path)
    if command is not None:
        yield Path(command).resolve().parents[1]
    beside = {home.resolve() for home in installed_at.glob("*") if os.access(home / "bin" / "java", os.X_OK)}
    yield from sorted(beside, key=lambda home: (version_of(home) or 0, str(home)))
