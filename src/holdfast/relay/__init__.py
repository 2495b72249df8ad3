"""The relay: receives on behalf of many recipients, keeps what came in its own journal, and tells upstream as its mode says."""

from holdfast.relay.definition import RelayDefinition, Route, Upstream
from holdfast.relay.relay import Relay

__all__ = ["Relay", "RelayDefinition", "Route", "Upstream"]
