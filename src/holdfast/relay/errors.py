"""Errors of the relay, in the families of `holdfast.errors`."""

from __future__ import annotations

from holdfast.errors import Refused


class Restored(Refused):
    """An upstream was restored from an older backup: its positions name other events now. An operator decides."""

    code = "upstream-restored"


class TakenOver(Refused):
    """Another process of this relay has taken its marks over. Only one may run: stop the other, or give this one another name."""

    code = "relay-taken-over"
