"""The packages that engines, listeners and carriers need beside those of Holdfast itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed() -> Iterator[None]:
    """Import what a command needs within this: where a package is missing, the error says what to install."""
    from holdfast.errors import BadSetting

    try:
        yield
    except ImportError as problem:
        raise BadSetting(
            f"this needs packages that are not installed ({problem.name}); install them: pip install 'holdfast[continuity]'"
        ) from problem
