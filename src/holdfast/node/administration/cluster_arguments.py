"""The arguments of what is asked of a whole cluster: its state, its transactions, orders, and its configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from holdfast.node.administration.touched import ALL, Arguments, Touched

# The text of a users file.
CONFIGURATION_LENGTH_MAX = 512 << 10


class Cluster(Arguments, frozen=True, kw_only=True):
    """The state of the cluster, as the node of this client manager hears it."""


class Transactions(Arguments, frozen=True, kw_only=True):
    """Transactions over several message managers that are in doubt; with an `id`, that one, also when it has ended."""

    id: str = ""

    @property
    def touched(self) -> Touched:
        """Everything: they are of all users."""
        return Touched("manage", ALL)


class ClusterOrder(Arguments, frozen=True, kw_only=True):
    """An order to the cluster: `manager` and `node` say to which part of it, where the order takes one."""

    order: Literal["takeover", "drain", "undrain", "check"]
    manager: str = ""
    node: str = ""

    @property
    def touched(self) -> Touched:
        """Everything: it is for those who may manage all destinations."""
        return Touched("manage", ALL)


class ClusterConfigure(Arguments, frozen=True, kw_only=True):
    """The configuration of the cluster; with a key it is changed first, at all nodes. `users`: the text of a users file."""

    key: Annotated[str, msgspec.Meta(max_length=64)] = ""
    value: Annotated[str, msgspec.Meta(max_length=CONFIGURATION_LENGTH_MAX)] = ""

    @property
    def touched(self) -> Touched:
        """Everything: who may change users may do anything."""
        return Touched("manage", ALL)
