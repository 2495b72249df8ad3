"""Which Python runs this, and how it was built: it matters more for speed than most settings (`docs/performance.md`)."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Mapping
from typing import Any


def described() -> dict[str, str]:
    return {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "build": build(sysconfig.get_config_vars()),
    }


def in_words() -> str:
    told = described()
    return f"{told['implementation']} {told['version']}, {told['build']}"


def build(variables: Mapping[str, Any]) -> str:
    """How an interpreter was built, as its own `sysconfig` tells it."""
    options = str(variables.get("CONFIG_ARGS") or "")
    if "--enable-optimizations" in options:
        return "optimised (PGO, LTO)" if "--with-lto" in options else "optimised (PGO)"
    if "--with-lto" in options:
        return "optimised (LTO)"
    # Debian and Ubuntu build with both by hand, and then clear the flag, so that extensions are built without it.
    if variables.get("PGO_PROF_GEN_FLAG") and variables.get("PGO_PROF_USE_FLAG") == "":
        return "optimised (by its distribution)"
    return "not optimised" if options else "build not known"
