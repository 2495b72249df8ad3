"""Changing what is set for a destination that is there: what is named changes, the rest stays."""

from __future__ import annotations

import msgspec

from holdfast.destination import command as commands
from holdfast.destination.effect import Configured
from holdfast.destination.name import DEAD, WELL_KNOWN, check_destination
from holdfast.destination.settings import Settings
from holdfast.destination.state import Effects, State
from holdfast.errors import BadSetting


def configure(state: State, entry: int, command: commands.Configure, payload: memoryview, effects: Effects) -> None:
    """A topic's settings are those of each of its subscriptions."""
    if command.name == DEAD or command.name not in WELL_KNOWN:
        check_destination(command.name)
    destination = state.catalog.find(command.name)
    settings = _changed(destination.settings, command)
    destination.settings = settings
    for queue in state.catalog.queues_of(command.name):
        queue.configure(settings)
    effects.append(Configured(command.name))


def _changed(settings: Settings, command: commands.Configure) -> Settings:
    for name in command.changed:
        if name not in Settings.__struct_fields__:
            raise BadSetting(f"there is no setting {name!r}; there are: {', '.join(Settings.__struct_fields__)}", setting=name)
    return msgspec.structs.replace(settings, **{name: getattr(command.settings, name) for name in command.changed})
