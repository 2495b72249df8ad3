"""Errors of the relay, in the families of `holdfast.errors`."""

from __future__ import annotations

from holdfast.errors import Refused


class Restored(Refused):
    """An upstream was restored from an older backup: its positions name other events now. An operator decides."""

    code = "upstream-restored"
